// A task's life, with the time between what happened.

import { h } from "./dom.js";
import { preciseTime, span } from "./format.js";
import { ago, badge, name } from "./ui.js";

const TOLD = /** @type {Record<string, string>} */ ({
	created: "Created",
	due: "Due",
	started: "Started",
	failed: "Failed",
	cancel_requested: "Cancelling was asked for",
	done: "Done",
	dead: "Dead",
	cancelled: "Cancelled",
	expires: "Expires",
	lease_ends: "Lease ends, unless renewed",
});

/** @param {Api.Task} task */
export function timeline({ timeline: moments }) {
	return h(
		"ol",
		{ class: "timeline" },
		moments.map((each, at) => {
			const before = moments[at - 1];
			const gap = before && !each.is_future ? (Date.parse(each.at) - Date.parse(before.at)) / 1000 : 0;
			return h(
				"li",
				{
					class: `${each.what} ${each.is_future ? "future" : ""}`,
					key: `${each.what} ${each.at} ${each.attempt ?? ""}`,
				},
				h("i", { class: "dot" }),
				h(
					"div",
					null,
					h("strong", null, TOLD[each.what] ?? each.what),
					each.attempt !== null && badge(`attempt ${each.attempt}`),
					each.worker && name(each.worker, "worker"),
					each.detail && h("p", { class: "message" }, h("bdi", null, each.detail)),
				),
				h(
					"div",
					{ class: "at" },
					h("span", { class: "clock" }, preciseTime(each.at)),
					each.is_future ? ago(each.at) : gap > 0 ? h("span", { class: "faint" }, `+${span(gap)}`) : null,
				),
			);
		}),
	);
}
