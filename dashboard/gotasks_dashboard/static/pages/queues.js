import { address, get, post } from "../lib/api.js";
import { ChartGroup } from "../lib/charts.js";
import { h } from "../lib/dom.js";
import { counted, integer, localInput, now, plural, rate } from "../lib/format.js";
import { MetricCharts } from "../lib/metrics.js";
import { Page } from "../lib/page.js";
import { PolicyForm } from "../lib/policy.js";
import { age, pauseMark, perMinute, queueSpark, queueTable, scheduled, waiting } from "../lib/queues.js";
import { pageHead } from "../lib/shell.js";
import {
	ago,
	button,
	countLink,
	empty,
	facts,
	faint,
	field,
	link,
	name,
	notice,
	panel,
	written,
} from "../lib/ui.js";

const FINAL = "done,dead,cancelled";

export class QueuesPage extends Page {
	title = "Queues";
	/** @type {MetricCharts | null} */
	charts = null;
	/** @type {PolicyForm | null} */
	form = null;
	shown = "";

	async load() {
		if (!this.app.overview) this.app.overview = await get("overview", {}, this.abort.signal);
		const queue = this.param("queue");
		if (queue === this.shown) return;
		this.shown = queue;
		this.title = queue || "Queues";
		this.charts?.leave();
		this.charts = queue ? new MetricCharts(this, { queue }, new ChartGroup()) : null;
		this.form = queue ? new PolicyForm(this.app, queue, () => this.redraw()) : null;
		if (this.app.session.features.metrics) void this.charts?.load();
	}

	/** @param {Api.Update} update */
	updated(update) {
		if (this.problem) this.touch();
		if (update.overview) void this.charts?.touch();
	}

	leave() {
		super.leave();
		this.charts?.leave();
	}

	draw() {
		const queues = this.app.overview?.queues ?? [];
		if (this.shown) {
			const queue = queues.find((each) => each.name === this.shown);
			return queue ? this.one(queue) : this.unknown();
		}
		const all = h("div", { class: "panel flush", key: "all" }, queueTable(this.app, queues));
		return [
			pageHead("Queues", { note: plural(queues.length, "queue") }),
			queues.length > 0
				? all
				: empty(
						"queues",
						"No queue yet",
						"A queue appears with its first task, or when a manager that works on it starts.",
					),
		];
	}

	unknown() {
		const back = link("queues", "All queues", { class: "button" });
		return [
			pageHead(name(this.shown), { crumbs: link("queues", "Queues") }),
			empty("queues", "No such queue", "No task and no manager has named it, or it is gone.", back),
		];
	}

	/** @param {Api.Queue} queue */
	one(queue) {
		return [
			pageHead([name(queue.name), pauseMark(queue)], {
				crumbs: link("queues", "Queues"),
				actions: [this.actions(queue), this.charts?.ranges()],
			}),
			queue.pause &&
				notice("warning", [
					"Paused ",
					ago(queue.pause.at),
					queue.pause.by && [" by ", name(queue.pause.by)],
					queue.pause.until
						? [". It goes on ", ago(queue.pause.until)]
						: ". Its tasks wait until somebody resumes it.",
				]),
			queue.nodes === 0 &&
				notice("warning", "No manager works on this queue: start one with a handler for its types."),
			this.state(queue),
			this.charts?.draw(),
			h("div", { class: "halves" }, this.form?.draw(queue), this.upkeep(queue)),
		];
	}

	/** @param {Api.Queue} queue */
	actions(queue) {
		if (!this.app.may("edit_queues") || !this.app.session.features.control) return null;
		if (queue.pause)
			return button("Resume", () => void this.resume(queue.name), {
				icon: "play",
				kind: "primary",
				key: "resume",
			});
		return button("Pause", () => this.pause(queue.name), { icon: "pause", key: "pause" });
	}

	/** @param {string} queue */
	async resume(queue) {
		await this.app.send("queues/resume", { queue }, "Resumed");
		await this.app.reloadOverview();
	}

	/** @param {string} queue */
	pause(queue) {
		const until = h("input", {
			type: "datetime-local",
			id: "pause-until",
			min: localInput(new Date()),
		});
		const quick = [
			["15 min", 15],
			["1 h", 60],
			["8 h", 480],
		].map(([label, minutes]) =>
			button(
				String(label),
				() => (until.value = localInput(new Date(Date.now() + Number(minutes) * 60_000))),
				{
					kind: "small",
				},
			),
		);
		this.app.ask({
			title: `Pause ${queue}?`,
			body: [
				h("p", null, "Its tasks wait; what runs already goes on to its end. Enqueueing goes on, too."),
				field("Until", until, { id: "pause-until", hint: "Empty: until somebody resumes it." }),
				h("div", { class: "actions" }, quick),
			],
			action: "Pause",
			icon: "pause",
			run: async () => {
				const end = until.value ? { until: new Date(until.value).toISOString() } : {};
				if (end.until && Date.parse(end.until) <= now())
					throw new Error("That time has passed: choose a later one, or none.");
				await post("queues/pause", { queue, ...end });
				this.app.toast("Paused");
				await this.app.reloadOverview();
			},
		});
	}

	/** @param {Api.Queue} queue */
	state(queue) {
		const of = (/** @type {Api.Status} */ status) =>
			countLink(queue.counts[status], written({ queue: queue.name, status }));
		return panel(
			"Now",
			facts(
				[
					["Oldest due", age(this.app, queue.oldest_due_seconds)],
					["Backlog", countLink(queue.backlog, waiting(queue.name))],
					["Scheduled", countLink(queue.scheduled, scheduled(queue.name))],
					["Running", [of("running"), faint(` of ${integer(queue.capacity)}`)]],
					["Done/min", rate(queue.rates.done)],
					["Failed/min", perMinute(queue.rates.failed, "warn")],
					["Dead/min", perMinute(queue.rates.dead, "bad")],
					["30 min", queueSpark(queue)],
					["Done", of("done")],
					["Dead", of("dead")],
					["Cancelled", of("cancelled")],
					["Nodes", link(address("nodes", { queue: queue.name }), integer(queue.nodes))],
				],
				"wide-facts",
			),
		);
	}

	/** What clears a queue up. @param {Api.Queue} queue */
	upkeep(queue) {
		const dead = written({ queue: queue.name, status: "dead" });
		const jobs = this.app.jobs;
		const rows = [
			this.app.may("requeue") &&
				this.chore(
					"Requeue dead",
					`Dead letters run again: ${counted(queue.counts.dead)}.`,
					button("Requeue dead", () => void jobs.ask({ action: "requeue", query: dead }), {
						icon: "retry",
						disabled: queue.counts.dead.value === 0,
					}),
				),
			this.app.may("cancel") &&
				this.chore(
					"Cancel waiting",
					`Tasks that wait never run: ${counted(queue.counts.pending)}.`,
					button(
						"Cancel waiting",
						() =>
							void jobs.ask({
								action: "cancel",
								query: written({ queue: queue.name, status: "pending" }),
							}),
						{ icon: "stop", disabled: queue.counts.pending.value === 0 },
					),
				),
			this.app.may("delete") &&
				this.chore(
					"Purge",
					"Delete what is done, dead or cancelled; it is counted first.",
					button(
						"Purge",
						() =>
							void jobs.ask(
								{ action: "delete", query: `${written({ queue: queue.name })} status:${FINAL}` },
								{ title: "Purge" },
							),
						{ icon: "trash", kind: "danger-plain" },
					),
				),
		].filter(Boolean);
		return rows.length > 0 && panel("Upkeep", h("ul", { class: "chores" }, rows));
	}

	/** @param {string} title @param {string} hint @param {Dom.Child} action */
	chore(title, hint, action) {
		return h(
			"li",
			{ key: title },
			h("div", null, h("h3", null, title), h("p", { class: "hint" }, hint)),
			action,
		);
	}

	shortcuts() {
		const queue = this.app.overview?.queues.find((each) => each.name === this.shown);
		const canPause = queue && this.app.may("edit_queues") && this.app.session.features.control;
		return [
			...(canPause
				? [
						{
							keys: "p",
							does: queue.pause ? "Resume the queue" : "Pause the queue",
							run: () => (queue.pause ? void this.resume(queue.name) : this.pause(queue.name)),
						},
					]
				: []),
			...(this.charts?.shortcuts() ?? []),
		];
	}
}
