import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { bytes, compact, integer, percent, plural, span } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { Page } from "../lib/page.js";
import { pageHead } from "../lib/shell.js";
import { ago, badge, button, empty, faint, name, panel, table } from "../lib/ui.js";

const MARKS = /** @type {Record<string, string>} */ ({ ok: "good", warning: "warn", error: "bad" });

export class SystemPage extends Page {
	title = "System";
	/** @type {Api.System | null} */
	system = null;

	async load() {
		this.system = await get("system", {}, this.abort.signal);
	}

	draw() {
		const { system } = this;
		if (!system) return null;
		return [
			pageHead("System", {
				note: [system.store, " · looked at ", ago(system.at)],
				actions: button("Look again", () => void this.reload(), { icon: "retry" }),
			}),
			findings(system),
			h("div", { class: "halves" }, oplog(system), leaders(system)),
			system.plans.length > 0 &&
				panel("Plans", plans(system), { class: "flush", note: "which index serves each query" }),
			system.collections.length > 0 && panel("Collections", collections(system), { class: "flush" }),
			system.indexes.length > 0 &&
				panel("Indexes", indexes(system), {
					class: "flush",
					note: plural(system.indexes.length, "index", "indexes"),
				}),
		];
	}
}

/** @param {Api.System} system */
function findings({ findings: found }) {
	if (found.length === 0)
		return panel(
			"Doctor",
			empty("check", "This store has no doctor", "What is kept in memory needs no care."),
		);
	const order = ["error", "warning", "ok"];
	const sorted = [...found].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
	const bad = found.filter((each) => each.severity !== "ok").length;
	return panel(
		"Doctor",
		h(
			"ul",
			{ class: "findings" },
			sorted.map((each) =>
				h(
					"li",
					{ key: `${each.check} ${each.message}` },
					h(
						"span",
						{ class: `sign ${MARKS[each.severity] ?? ""}` },
						icon(each.severity === "ok" ? "check" : "dead"),
					),
					h(
						"div",
						null,
						h(
							"h3",
							null,
							each.check,
							each.severity !== "ok" && [" ", badge(each.severity, MARKS[each.severity])],
						),
						h("p", null, each.message),
						each.remedy && h("p", { class: "faint" }, each.remedy),
					),
				),
			),
		),
		{ note: bad === 0 ? "all is well" : plural(bad, "finding") },
	);
}

/** @param {Api.System} system */
function oplog({ oplog: log }) {
	if (!log) return null;
	return panel("Oplog", [
		h("p", { class: "big" }, span(log.window_seconds)),
		h(
			"p",
			{ class: "hint" },
			`How long a change stream may be away and still go on where it was. ${percent(log.used)} of it is filled.`,
		),
	]);
}

/** @param {Api.System} system */
function leaders({ leaders: found }) {
	if (found.length === 0) return null;
	/** @type {Column<Api.System["leaders"][number]>[]} */
	const columns = [
		{ head: "Duty", class: "lead", cell: (each) => name(each.duty) },
		{ head: "Led by", cell: (each) => name(each.node) },
		{ head: "Term", class: "number", cell: (each) => integer(each.term) },
		{ head: "Until", class: "number", cell: (each) => ago(each.until) },
	];
	return panel(
		"Leaders",
		table("Leaders", columns, found, (each) => each.duty),
		{ class: "flush" },
	);
}

/** @param {Api.System} system */
function plans({ plans: found }) {
	/** @type {Column<Api.System["plans"][number]>[]} */
	const columns = [
		{ head: "Query", class: "lead", cell: (each) => name(each.query) },
		{ head: "Index", cell: (each) => (each.index ? h("code", null, each.index) : faint("none")) },
		{
			head: "Served",
			cell: (each) =>
				each.is_served
					? badge([icon("check"), "served"], "good")
					: badge([icon("dead"), "not served"], "bad"),
		},
	];
	return table("Plans", columns, found, (each) => each.query);
}

/** @param {Api.System} system */
function collections({ collections: found }) {
	/** @type {Column<Api.System["collections"][number]>[]} */
	const columns = [
		{ head: "Collection", class: "lead", cell: (each) => name(each.name) },
		{ head: "Documents", class: "number", cell: (each) => compact(each.documents) },
		{ head: "Data", class: "number", cell: (each) => bytes(each.bytes) },
		{ head: "On disk", class: "number", cell: (each) => bytes(each.storage_bytes) },
		{ head: "Indexes", class: "number", cell: (each) => bytes(each.index_bytes) },
	];
	return table("Collections", columns, found, (each) => each.name);
}

/** @param {Api.System} system */
function indexes({ indexes: found }) {
	/** @type {Column<Api.System["indexes"][number]>[]} */
	const columns = [
		{ head: "Index", class: "lead", cell: (each) => name(each.name) },
		{ head: "Collection", cell: (each) => name(each.collection) },
		{
			head: "Keys",
			cell: (each) =>
				h(
					"code",
					{ class: "break" },
					each.keys
						.map(([key, order]) => `${key} ${order === -1 ? "↓" : order === 1 ? "↑" : JSON.stringify(order)}`)
						.join(", "),
				),
		},
		{ head: "Size", class: "number", cell: (each) => bytes(each.bytes) },
		{
			head: "Uses",
			class: "number",
			cell: (each) => (each.uses === null ? faint("–") : compact(each.uses)),
		},
	];
	return table("Indexes", columns, found, (each) => `${each.collection}.${each.name}`);
}
