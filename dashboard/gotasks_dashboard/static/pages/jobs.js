import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { progressOf, refusals, titleOf } from "../lib/jobs.js";
import { Page } from "../lib/page.js";
import { pageHead } from "../lib/shell.js";
import { ago, badge, button, empty, link, name, table } from "../lib/ui.js";

const MARKS = /** @type {Record<string, string>} */ ({
	done: "good",
	failed: "bad",
	lost: "bad",
	running: "",
	stopped: "warn",
});

export class JobsPage extends Page {
	title = "Bulk jobs";
	/** @type {Api.Job[]} */
	jobs = [];

	async load() {
		const answer = /** @type {{jobs: Api.Job[]}} */ (await get("jobs", {}, this.abort.signal));
		this.jobs = answer.jobs;
	}

	/** @param {Api.Update} update */
	concerns({ changed, jobs }) {
		return changed.everything || jobs.length > 0 || this.jobs.some((each) => each.state === "running");
	}

	draw() {
		const hint =
			"Select tasks, or all that match a search, and requeue, cancel or delete them: what comes of it is told here for an hour.";
		return [
			pageHead("Bulk jobs", { note: plural(this.jobs.length, "job") }),
			this.jobs.length > 0
				? h("div", { class: "panel flush" }, this.list())
				: empty("jobs", "No bulk job yet", hint, link("tasks", "Go to the tasks", { class: "button" })),
		];
	}

	list() {
		/** @type {Column<Api.Job>[]} */
		const columns = [
			{ head: "Started", class: "when", cell: (each) => ago(each.started_at) },
			{ head: "Did", class: "lead", cell: titleOf },
			{
				head: "To",
				cell: (each) =>
					each.query === null
						? plural(each.ids ?? 0, "selected task")
						: h("code", { class: "query" }, each.query || "everything"),
			},
			{ head: "By", cell: (each) => name(each.user ?? "") },
			{ head: "State", cell: (each) => badge(each.is_stopping ? "stopping" : each.state, MARKS[each.state]) },
			{
				head: "Progress",
				class: "job-progress",
				cell: (each) => [progressOf(each), refusals(each)],
			},
			{
				head: "Stop",
				hideHead: true,
				cell: (each) =>
					each.state === "running" &&
					!each.is_stopping &&
					button("Stop", () => void this.app.jobs.stop(each).then(() => this.reload()), {
						kind: "small",
					}),
			},
		];
		return table("Bulk jobs", columns, this.jobs, (each) => each.id);
	}
}
