// Bulk jobs: asked for with a count first, carried out by the server, followed until they end.

import { get, messageOf, post } from "./api.js";
import { h, show } from "./dom.js";
import { counted, integer, tasksOf } from "./format.js";
import { button, faint, iconButton, link } from "./ui.js";

/** @typedef {{action: string, ids?: string[], query?: string, fresh_lifetime?: boolean, everything?: boolean}} Order */

export const PAST = /** @type {Record<string, string>} */ ({
	requeue: "requeued",
	cancel: "cancelled",
	delete: "deleted",
});
const VERBS = /** @type {Record<string, string>} */ ({
	requeue: "Requeue",
	cancel: "Cancel",
	delete: "Delete",
});
const DOES = /** @type {Record<string, string>} */ ({
	requeue: "They run again, with all their attempts before them.",
	cancel: "Those that wait are cancelled at once; those that run are asked to stop.",
	delete: "They are gone for good, with their payloads, results and errors.",
});

export class Jobs {
	/** @param {App} app */
	constructor(app) {
		this.app = app;
		/** @type {Map<string, Api.Job>} */
		this.followed = new Map();
		this.timer = 0;
	}

	/**
	 * Ask, with a fresh count, and start.
	 * @param {Order} order
	 * @param {{count?: Api.Count, title?: string, done?: () => void}} [how]
	 */
	async ask(order, how = {}) {
		let count = how.count ?? { value: order.ids?.length ?? 0, is_exact: true };
		if (order.query !== undefined && !how.count) {
			try {
				count = await get("tasks/count", { q: order.query, action: order.action });
			} catch (error) {
				this.app.toast(messageOf(error), "error");
				return;
			}
		}
		const verb = VERBS[order.action] ?? order.action;
		if (count.value === 0 && count.is_exact) {
			this.app.toast(`There is nothing to ${verb.toLowerCase()}`);
			return;
		}
		const about =
			order.query !== undefined &&
			h(
				"p",
				null,
				"All that match ",
				h("code", { class: "query" }, order.query || "everything"),
				" when it is carried out.",
			);
		const isUnknown = count.value === 0;
		this.app.ask({
			title: `${how.title ?? verb} ${isUnknown ? "all that match" : tasksOf(count)}?`,
			body: [
				about,
				isUnknown &&
					h("p", null, "None was found yet, but there are more to look through than can be counted."),
				h("p", null, DOES[order.action]),
			],
			action: `${verb} ${isUnknown ? "all" : counted(count)}`,
			kind: order.action === "requeue" ? "primary" : "danger",
			run: async () => {
				await this.start(order);
				how.done?.();
			},
		});
	}

	/** @param {Order} order */
	async start(order) {
		/** @type {Api.Job} */
		const job = await post("jobs", order);
		this.followed.set(job.id, job);
		this.redraw();
		this.follow();
	}

	/** @param {Api.Job[]} jobs */
	updated(jobs) {
		for (const job of jobs) if (this.followed.has(job.id)) this.put(job);
	}

	/** @param {Api.Job} job */
	put(job) {
		const before = this.followed.get(job.id);
		this.followed.set(job.id, job);
		if (before?.state === "running" && job.state !== "running") void this.app.page?.reload();
		this.redraw();
	}

	/** Events may be late or missing: ask as well. */
	follow() {
		clearTimeout(this.timer);
		const running = [...this.followed.values()].filter((each) => each.state === "running");
		if (running.length === 0) return;
		this.timer = setTimeout(async () => {
			for (const job of running) {
				try {
					this.put(await get(`jobs/${job.id}`));
				} catch (error) {
					this.put({ ...job, state: "failed", error: messageOf(error) });
				}
			}
			this.follow();
		}, 700);
	}

	redraw() {
		show(
			this.app.dock,
			[...this.followed.values()].map((each) => this.card(each)),
		);
	}

	/** @param {Api.Job} job */
	card(job) {
		const close = () => {
			this.followed.delete(job.id);
			this.redraw();
		};
		return h(
			"section",
			{ class: `job ${job.state}`, key: job.id, "aria-label": "Bulk job" },
			h(
				"header",
				null,
				h("strong", { role: "status" }, titleOf(job)),
				job.state === "running"
					? job.is_stopping
						? faint("stopping")
						: button("Stop", () => void this.stop(job), { kind: "small" })
					: iconButton("Close", "close", close),
			),
			progressOf(job),
			job.query !== null && h("code", { class: "query" }, job.query),
			refusals(job),
		);
	}

	/** @param {Api.Job} job */
	async stop(job) {
		try {
			this.put(await post(`jobs/${job.id}/stop`));
		} catch (error) {
			this.app.toast(messageOf(error), "error");
		}
	}
}

/** @param {Api.Job} job */
export function titleOf(job) {
	const done = PAST[job.action] ?? job.action;
	const of = job.state === "running" && job.total ? ` of ${counted(job.total)}` : "";
	const end = ["stopped", "failed", "lost"].includes(job.state) ? `, then ${job.state}` : "";
	return `${integer(job.changed)}${of} ${done}${end}`;
}

/** @param {Api.Job} job */
export function progressOf(job) {
	const total = job.total?.value ?? 0;
	const share =
		job.state === "done" ? 1 : total > 0 ? Math.min(1, (job.changed + job.refused_count) / total) : 0;
	return h(
		"div",
		{
			class: "progress",
			role: "progressbar",
			"aria-label": titleOf(job),
			"aria-valuemin": "0",
			"aria-valuemax": "100",
			"aria-valuenow": String(Math.round(share * 100)),
		},
		h("i", { style: { width: `${share * 100}%` } }),
	);
}

/** @param {Api.Job} job */
export function refusals(job) {
	if (job.error) return h("p", { class: "error" }, job.error);
	if (job.refused_count === 0) return null;
	const rest = job.refused_count - job.refused.length;
	return h(
		"details",
		null,
		h("summary", null, `${integer(job.refused_count)} refused`),
		h(
			"ul",
			null,
			job.refused.map((each) =>
				h(
					"li",
					{ key: each.id },
					link(`tasks/${each.id}`, h("code", null, each.id.slice(-6))),
					" ",
					each.message,
				),
			),
			rest > 0 && h("li", null, `and ${integer(rest)} more`),
		),
	);
}
