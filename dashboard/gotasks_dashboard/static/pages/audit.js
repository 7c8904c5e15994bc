import { address, get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { scalarText, tagOf } from "../lib/exact.js";
import { integer } from "../lib/format.js";
import { Page } from "../lib/page.js";
import { pageHead } from "../lib/shell.js";
import { ago, badge, button, empty, faint, link, name, table } from "../lib/ui.js";

const MARKS = /** @type {Record<string, string>} */ ({
	done: "good",
	failed: "bad",
	lost: "bad",
	running: "",
	stopped: "warn",
});

export class AuditPage extends Page {
	title = "Audit";
	/** @type {Api.AuditEntry[]} */
	entries = [];
	/** @type {string | null} */
	next = null;

	async load() {
		const { signal } = this.abort;
		const query = {
			user: this.param("user"),
			action: this.param("action"),
			cursor: this.param("cursor"),
		};
		const answer = /** @type {{entries: Api.AuditEntry[], cursor: string | null}} */ (
			await get("audit", query, signal)
		);
		this.entries = answer.entries;
		this.next = answer.cursor;
	}

	draw() {
		const [user, action] = [this.param("user"), this.param("action")];
		const filters = [
			user && h("span", null, "by ", name(user)),
			action && badge(action),
			(user || action) && link("audit", "Show everything", { class: "button small" }),
		];
		return [
			pageHead("Audit", {
				note: "Who did what, on this dashboard",
				actions: [filters, button("Look again", () => void this.reload(), { icon: "retry" })],
			}),
			this.entries.length > 0
				? h("div", { class: "panel flush" }, this.list())
				: empty(
						"audit",
						"Nothing was done yet",
						"Whatever somebody changes on the dashboard is written down here, with its outcome.",
					),
			this.next &&
				h(
					"nav",
					{ class: "pager", "aria-label": "Pages" },
					h("span"),
					link(address("audit", { user, action, cursor: this.next }), "Older", { class: "button" }),
				),
		];
	}

	list() {
		/** @type {Column<Api.AuditEntry>[]} */
		const columns = [
			{ head: "When", class: "when", cell: (each) => ago(each.at) },
			{
				head: "Who",
				class: "lead",
				cell: (each) =>
					each.user ? link(address("audit", { user: each.user }), name(each.user)) : faint("unknown"),
			},
			{
				head: "Did",
				cell: (each) => link(address("audit", { action: each.action }), badge(each.action)),
			},
			{ head: "To", class: "target", cell: (each) => told(each.target) },
			{ head: "With", class: "details", cell: (each) => told(each.details) },
			{
				head: "Outcome",
				cell: (each) => [
					badge(each.outcome, MARKS[each.outcome]),
					each.report &&
						faint(
							` ${integer(each.report.changed)} changed${each.report.refused ? `, ${integer(each.report.refused)} refused` : ""}`,
						),
					each.error && h("p", { class: "error" }, each.error),
				],
			},
		];
		return table("Audit", columns, this.entries, (each) => each.id);
	}
}

/** @param {Api.Tagged} value @returns {Dom.Child} */
function told(value) {
	if (value === null || typeof value !== "object") return value === null ? null : String(value);
	return Object.entries(value)
		.filter(([, each]) => each !== null)
		.map(([key, each]) =>
			h(
				"span",
				{ class: "datum" },
				faint(`${key} `),
				key === "task" && typeof each === "string" && isId(each)
					? link(`tasks/${each}`, h("code", null, each.slice(-8)))
					: h("bdi", null, textOf(each)),
			),
		);
}

/** @param {string} text */
const isId = (text) => /^[0-9a-f]{24}$/.test(text);

/** @param {Api.Tagged} value @returns {string} */
function textOf(value) {
	if (Array.isArray(value))
		return value.length > 3 ? `${integer(value.length)} of them` : value.map(textOf).join(", ");
	if (tagOf(value)) return (scalarText(value) ?? JSON.stringify(value)).replace(/\.0$/, "");
	if (typeof value !== "string") return JSON.stringify(value);
	return isId(value) ? value.slice(-8) : value;
}
