import { Problem, address, get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { scalarText, tagOf, written } from "../lib/exact.js";
import { plural, preciseTime, span } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { Page } from "../lib/page.js";
import { shortId } from "../lib/rows.js";
import { pathOf } from "../lib/routes.js";
import { pageHead } from "../lib/shell.js";
import { timeline } from "../lib/timeline.js";
import { Tree } from "../lib/tree.js";
import {
	ago,
	badge,
	button,
	copyButton,
	facts,
	faint,
	link,
	name,
	notice,
	panel,
	searchAddress,
	statusMark,
} from "../lib/ui.js";
import { queueAddress } from "../lib/queues.js";

export class TaskPage extends Page {
	id = decoded(pathOf(this.url).slice("tasks/".length));
	title = `Task ${shortId(this.id)}`;
	/** @type {Api.Task | null} */
	task = null;
	trees = {
		payload: new Tree(() => this.redraw(), this.app.session.payload_search),
		result: new Tree(() => this.redraw(), false),
		progress: new Tree(() => this.redraw(), false),
		metadata: new Tree(() => this.redraw(), false),
	};

	async load() {
		if (!/^[0-9a-f]{24}$/i.test(this.id))
			throw new Problem(
				404,
				"task_not_found",
				`There is no task ${this.id}: an id has 24 hexadecimal digits.`,
			);
		const task = /** @type {Api.Task} */ (await get(`tasks/${this.id}`, {}, this.abort.signal));
		this.task = task;
		this.title = `${task.type} ${shortId(task.id)}`;
	}

	/** @param {Api.Update} update */
	concerns({ changed }) {
		const { task } = this;
		if (changed.everything || changed.ids.includes(this.id)) return true;
		const isOpen = task?.status === "pending" || task?.status === "running";
		return isOpen && task !== null && changed.queues.includes(task.queue);
	}

	draw() {
		const { task } = this;
		if (!task) return null;
		const crumbs = [link("tasks", "Tasks"), " / ", link(queueAddress(task.queue), name(task.queue))];
		return [
			pageHead([name(task.type), statusMark(task.status)], {
				crumbs,
				actions: this.actions(task),
				note: [h("code", null, task.id), copyButton(task.id, this.app, "the id")],
			}),
			this.isGone() && notice("warning", "It is gone: this is how it was last seen."),
			explanation(task),
			h(
				"div",
				{ class: "columns" },
				h(
					"div",
					{ class: "wide" },
					panel("Timeline", timeline(task)),
					this.attempts(task),
					this.values(task),
				),
				h("div", { class: "narrow" }, this.facts(task)),
			),
		];
	}

	/** @param {Api.Task} task */
	actions(task) {
		const can = (/** @type {string} */ what) => task.can.includes(what);
		return [
			task.trace_url &&
				h(
					"a",
					{ class: "button", href: task.trace_url, target: "_blank", rel: "noopener noreferrer" },
					icon("link"),
					"Trace",
				),
			can("clone") &&
				link(address("new", { from: task.id }), [icon("copy"), "Clone and edit"], {
					class: "button",
				}),
			can("requeue") && button("Requeue", () => this.requeue(), { icon: "retry", kind: "primary" }),
			can("cancel") && button("Cancel task", () => this.cancel(), { icon: "stop" }),
			can("delete") && button("Delete", () => this.remove(), { icon: "trash", kind: "danger-plain" }),
		];
	}

	requeue() {
		void this.app.send(`tasks/${this.id}/requeue`, {}, "Requeued: it is due at once");
	}

	cancel() {
		void this.app.send(
			`tasks/${this.id}/cancel`,
			{},
			this.task?.status === "running" ? "Asked to stop" : "Cancelled",
		);
	}

	remove() {
		this.app.ask({
			title: "Delete this task?",
			body: h("p", null, "It is gone for good, with its payload, result and errors."),
			action: "Delete",
			kind: "danger",
			run: async () => {
				const done = await this.app.send(`tasks/${this.id}/delete`, {}, "Deleted");
				if (done) this.app.to("tasks");
			},
		});
	}

	/** @param {Api.Task} task */
	attempts(task) {
		const { errors, errors_dropped: dropped } = task;
		if (errors.length === 0) return null;
		const note = dropped > 0 ? `${plural(dropped, "older one")} dropped` : null;
		const newest = [...errors].reverse();
		return panel(
			plural(errors.length, "failed attempt"),
			h(
				"ol",
				{ class: "attempts" },
				newest.map((each, at) => attempt(each, at === 0, this.app, task)),
			),
			{ note, key: "attempts" },
		);
	}

	/** @param {Api.Task} task @returns {Dom.Child} */
	values(task) {
		if (task.hidden)
			return panel(
				"Payload",
				notice(
					"info",
					"Payload, result and tracebacks are hidden: seeing them takes the permission view_payloads.",
				),
				{ key: "payload" },
			);
		const tree = (
			/** @type {string} */ title,
			/** @type {"payload" | "result" | "progress" | "metadata"} */ what,
		) =>
			panel(title, this.trees[what].draw(task[what]), {
				key: what,
				actions: copyButton(written(task[what]), this.app, what),
				note: what === "payload" && task.is_redacted ? badge("redacted", "warn") : null,
			});
		return [
			task.progress !== null && (share(task.progress) ?? tree("Progress", "progress")),
			tree("Payload", "payload"),
			task.has_result && tree("Result", "result"),
			hasFields(task.metadata) && tree("Metadata", "metadata"),
		];
	}

	/** @param {Api.Task} task */
	facts(task) {
		const owner = task.lease?.owner ?? null;
		/** @type {[string, Dom.Child][]} */
		const pairs = [
			["Queue", link(queueAddress(task.queue), name(task.queue))],
			["Type", link(address("types", { queue: task.queue, type: task.type }), name(task.type))],
			[
				"Attempts",
				`${task.attempts} of ${task.max_attempts}${task.interruptions ? `, ${plural(task.interruptions, "interruption")}` : ""}`,
			],
			["Worker", owner ? link(searchAddress({ worker: owner }), name(owner)) : null],
			["Lease ends", task.lease ? ago(task.lease.until) : null],
			["Priority", String(task.priority)],
			["Unique key", task.unique_key && link(searchAddress({ key: task.unique_key }), name(task.unique_key))],
			[
				"Tags",
				task.tags.length > 0 &&
					h(
						"span",
						{ class: "tags" },
						task.tags.map((tag) => link(searchAddress({ tag }), badge(name(tag), "tag"))),
					),
			],
			["Created", ago(task.created_at)],
			["Runs at", ago(task.run_at)],
			["Started", task.started_at && ago(task.started_at)],
			["Finished", task.finished_at && ago(task.finished_at)],
			["Ran for", ran(task)],
			["Expires", task.expires_at && ago(task.expires_at)],
			["Time limit", task.timeout_seconds === null ? null : span(task.timeout_seconds)],
			["Retried until", task.retry_until && ago(task.retry_until)],
			[
				"Cause",
				task.fingerprint &&
					link(
						searchAddress({ queue: task.queue, status: "dead", fingerprint: task.fingerprint }),
						h("code", null, task.fingerprint.slice(0, 10)),
					),
			],
			["Lane", String(task.lane)],
			["Trace", task.trace_id ? h("code", { class: "break" }, task.trace_id) : null],
		];
		return panel("Facts", facts(pairs));
	}

	shortcuts() {
		const can = this.task?.can ?? [];
		return [
			...(can.includes("requeue") ? [{ keys: "r", does: "Requeue", run: () => this.requeue() }] : []),
			...(can.includes("cancel") ? [{ keys: "c", does: "Cancel the task", run: () => this.cancel() }] : []),
			...(can.includes("delete") ? [{ keys: "D", does: "Delete", run: () => this.remove() }] : []),
			...(can.includes("clone")
				? [{ keys: "e", does: "Clone and edit", run: () => this.app.to("new", { from: this.id }) }]
				: []),
			{ keys: "u", does: "Back to the list", run: () => history.back() },
		];
	}
}

/** @param {Api.Task} task */
function explanation(task) {
	const { sentence, until } = task.explanation;
	if (task.status === "done") return null;
	const kind = task.status === "dead" ? "error-quiet" : "info";
	return h(
		"div",
		{ class: `notice explanation ${kind}`, key: "explanation" },
		icon("info"),
		h(
			"div",
			{ class: "notice-text" },
			h("bdi", null, sentence),
			until && [" ", h("span", { class: "faint" }, ago(until))],
		),
	);
}

/** @param {Api.Task} task */
function ran(task) {
	if (!task.started_at || !task.finished_at) return null;
	return span((Date.parse(task.finished_at) - Date.parse(task.started_at)) / 1000);
}

/** @param {Api.Tagged} value */
const hasFields = (value) => value !== null && typeof value === "object" && Object.keys(value).length > 0;

/** Progress that is a share, or so many of so many. @param {Api.Tagged} progress */
function share(progress) {
	const of = fractionOf(progress);
	if (!of) return null;
	const [done, total] = of;
	const text = total === 1 ? `${Math.round((done ?? 0) * 100)} %` : `${done} of ${total}`;
	const part = Math.max(0, Math.min(1, (done ?? 0) / (total || 1)));
	return panel(
		"Progress",
		h(
			"div",
			{
				class: "progress big",
				role: "progressbar",
				"aria-label": `Progress: ${text}`,
				"aria-valuemin": "0",
				"aria-valuemax": "100",
				"aria-valuenow": String(Math.round(part * 100)),
			},
			h("i", { style: { width: `${part * 100}%` } }),
		),
		{ note: text, key: "share" },
	);
}

/** @param {Api.Tagged} progress @returns {[number, number] | null} */
function fractionOf(progress) {
	const part = typeof progress === "number" ? progress : Number(scalarText(progress) || NaN);
	// A whole number counts something; how much there is of it, nobody has told.
	const isShare =
		typeof progress === "number" ? !Number.isInteger(progress) : tagOf(progress)?.[0] === "$float";
	if (isShare && part >= 0 && part <= 1) return [part, 1];
	if (progress === null || typeof progress !== "object" || Array.isArray(progress)) return null;
	const { done, total, ...rest } = progress;
	if (typeof done !== "number" || typeof total !== "number" || Object.keys(rest).length > 0) return null;
	return [done, total];
}

/** @param {Api.AttemptError} error @param {boolean} isLast @param {App} app @param {Api.Task} task */
function attempt(error, isLast, app, task) {
	return h(
		"li",
		{ key: `${error.attempt} ${error.at}` },
		h(
			"header",
			null,
			badge(`attempt ${error.attempt}`),
			h("bdi", { class: "kind" }, error.kind),
			h("span", { class: "faint" }, preciseTime(error.at), " · ", name(error.worker)),
			error.traceback && copyButton(error.traceback, app, "the traceback"),
		),
		error.message && h("p", { class: "message" }, h("bdi", null, error.message)),
		error.traceback
			? h(
					"details",
					{ open: isLast },
					h("summary", null, "Traceback"),
					h("pre", { tabindex: "0", "aria-label": `Traceback of attempt ${error.attempt}` }, error.traceback),
				)
			: task.hidden && faint("The traceback is hidden."),
	);
}

/** @param {string} text As an address has it. */
function decoded(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text;
	}
}
