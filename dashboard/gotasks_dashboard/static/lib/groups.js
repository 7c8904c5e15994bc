// Dead letters, grouped by their cause.

import { address } from "./api.js";
import { h } from "./dom.js";
import { counted } from "./format.js";
import { ago, button, groupTitle, link, name, taskAddress } from "./ui.js";

/** @param {App} app @param {Api.Group[]} groups */
export const groupList = (app, groups) =>
	h(
		"ul",
		{ class: "groups" },
		groups.map((each) => groupItem(app, each)),
	);

/** @param {App} app @param {Api.Group} group */
function groupItem(app, group) {
	const { latest, count, query } = group;
	const ask = (/** @type {string} */ action) => void app.jobs.ask({ action, query }, { count });
	return h(
		"li",
		{ key: query },
		h("span", { class: "group-count", title: "dead letters" }, counted(count)),
		h(
			"div",
			{ class: "group-text" },
			h("p", { class: "group-title" }, groupTitle(group)),
			h(
				"p",
				{ class: "faint" },
				name(group.queue),
				" / ",
				name(latest.type),
				" · last ",
				link(taskAddress(latest.id), ago(latest.finished_at ?? latest.updated_at)),
				` · after ${latest.attempts} of ${latest.max_attempts} attempts`,
			),
		),
		h(
			"div",
			{ class: "actions" },
			link(address("tasks", { q: query }), "See all", { class: "button small" }),
			app.may("requeue") &&
				button("Requeue this group", () => ask("requeue"), { icon: "retry", kind: "small" }),
			app.may("delete") &&
				button("Delete", () => ask("delete"), { icon: "trash", kind: "small danger-plain" }),
		),
	);
}
