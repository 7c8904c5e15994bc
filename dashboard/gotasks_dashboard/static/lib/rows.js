// The list of tasks, with its selection.

import { h } from "./dom.js";
import { ago, badge, faint, link, name, statusMark, table, taskAddress } from "./ui.js";

/** The last digits tell tasks apart. @param {string} id */
export const shortId = (id) => id.slice(-8);

/** What concerns the reader first: when it runs, who runs it, or why it failed. @param {Api.Row} row @returns {Dom.Child} */
function story(row) {
	if (row.status === "running")
		return [name(row.worker ?? "", "worker"), row.cancel_requested_at && badge("asked to stop", "warn")];
	if (row.error && row.status !== "done")
		return h(
			"span",
			{ class: "why", title: row.error.message },
			h("bdi", { class: "kind" }, row.error.kind),
			" ",
			h("bdi", null, row.error.message),
		);
	if (row.status === "pending" && row.due_at === null) return faint("not to be claimed");
	return null;
}

/** @param {Api.Row} row */
function when(row) {
	if (row.status === "running") return ["since ", ago(row.started_at)];
	if (row.finished_at) return ago(row.finished_at);
	const at = row.due_at ?? row.run_at;
	return ["due ", ago(at)];
}

/**
 * @param {Api.Row[]} rows
 * @param {{isChosen: (id: string) => boolean, choose: ((id: string, on: boolean, isRange: boolean) => void) | null, cursor: number}} how
 */
export function taskTable(rows, how) {
	const { choose } = how;
	/** @type {Column<Api.Row>[]} */
	const columns = [
		{ head: "Status", class: "state", cell: (row) => statusMark(row.status) },
		{
			head: "Task",
			class: "lead",
			cell: (row) => [
				link(taskAddress(row.id), [name(row.type), h("code", { class: "faint" }, shortId(row.id))], {
					class: "task-link",
				}),
			],
		},
		{ head: "Queue", cell: (row) => name(row.queue) },
		{
			head: "Attempts",
			class: "number",
			cell: (row) =>
				h("span", { class: row.attempts > 1 ? "" : "faint" }, `${row.attempts} / ${row.max_attempts}`),
		},
		{ head: "When", class: "when", cell: when },
		{
			head: "What",
			class: "story",
			cell: (row) => [
				story(row),
				row.priority !== 0 && badge(`priority ${row.priority}`),
				row.unique_key && badge(name(row.unique_key), "key", "Unique key"),
				row.tags.map((tag) => badge(name(tag), "tag")),
			],
		},
	];
	if (choose) {
		columns.unshift({
			head: "Select",
			class: "select",
			hideHead: true,
			cell: (row) =>
				h("input", {
					type: "checkbox",
					"aria-label": `Select ${row.type} ${shortId(row.id)}`,
					checked: how.isChosen(row.id),
					onclick: (/** @type {MouseEvent} */ event) =>
						choose(row.id, /** @type {HTMLInputElement} */ (event.target).checked, event.shiftKey),
				}),
		});
	}
	let at = -1;
	return table("Tasks", columns, rows, (row) => row.id, {
		class: "tasks",
		row: (row) => {
			at += 1;
			return {
				class: `${how.isChosen(row.id) ? "chosen" : ""} ${at === how.cursor ? "cursor" : ""}`,
			};
		},
	});
}
