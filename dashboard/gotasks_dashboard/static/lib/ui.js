// The pieces that pages are made of.

import { Problem, address } from "./api.js";
import { h } from "./dom.js";
import { ago, counted } from "./format.js";
import { icon } from "./icons.js";

/**
 * @param {string} label
 * @param {() => void} run
 * @param {{icon?: string, kind?: string, disabled?: boolean, title?: string, key?: string, expanded?: boolean}} [how]
 */
export function button(label, run, how = {}) {
	return h(
		"button",
		{
			type: "button",
			class: `button ${how.kind ?? ""}`,
			onclick: run,
			disabled: how.disabled,
			title: how.title,
			key: how.key,
			"aria-expanded": how.expanded === undefined ? null : String(how.expanded),
		},
		how.icon && icon(how.icon),
		h("span", null, label),
	);
}

/**
 * A button that shows its icon alone.
 * @param {string} label
 * @param {string} name
 * @param {() => void} run
 * @param {Dom.Props} [props]
 */
export const iconButton = (label, name, run, props = {}) =>
	h(
		"button",
		{
			type: "button",
			class: "button icon-only",
			"aria-label": label,
			title: label,
			onclick: run,
			...props,
		},
		icon(name),
	);

/** @param {string} href @param {Dom.Child} children @param {Dom.Props} [props] */
export const link = (href, children, props = {}) => h("a", { href, ...props }, children);

/** @param {string} id */
export const taskAddress = (id) => `tasks/${id}`;

/** @param {Record<string, string>} parts */
export const searchAddress = (parts) => address("tasks", { q: written(parts) });

/** Write a search, quoting what has to be. @param {Record<string, string>} parts */
export function written(parts) {
	return Object.entries(parts)
		.map(([name, value]) => `${name}:${quoted(value)}`)
		.join(" ");
}

/** @param {string} value */
export function quoted(value) {
	if (/^[^\s"\\]+$/.test(value)) return value;
	return `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** @param {string} status */
export const statusMark = (status) =>
	h("span", { class: `status ${status}` }, h("i", { class: "dot" }), status);

/** @param {Dom.Child} text @param {string} [kind] @param {string} [title] */
export const badge = (text, kind = "", title = undefined) =>
	h("span", { class: `badge ${kind}`, title }, text);

/** @param {Dom.Child} text */
export const faint = (text) => h("span", { class: "faint" }, text);

/** A name from elsewhere; it may be long, and in any script. @param {string} text @param {string} [kind] */
export const name = (text, kind = "") => h("bdi", { class: `name ${kind}`, title: text }, text);

/** @param {string} key */
export const kbd = (key) => h("kbd", null, key);

/**
 * @param {string} title
 * @param {Dom.Child} body
 * @param {{actions?: Dom.Child, class?: string, key?: string, note?: Dom.Child}} [how]
 */
export function panel(title, body, how = {}) {
	return h(
		"section",
		{ class: `panel ${how.class ?? ""}`, "aria-label": title, key: how.key },
		h(
			"header",
			null,
			h("h2", null, title),
			how.note && h("span", { class: "note" }, how.note),
			how.actions && h("div", { class: "actions" }, how.actions),
		),
		body,
	);
}

/**
 * What to say where there is nothing, and what to do next.
 * @param {string} name
 * @param {string} title
 * @param {Dom.Child} hint
 * @param {Dom.Child} [action]
 */
export const empty = (name, title, hint, action = null) =>
	h(
		"div",
		{ class: "empty" },
		h("div", { class: "empty-mark" }, icon(name)),
		h("p", { class: "empty-title" }, title),
		h("p", null, hint),
		action,
	);

/**
 * @param {string} kind
 * @param {Dom.Child} text
 * @param {Dom.Child} [action]
 */
export const notice = (kind, text, action = null) =>
	h(
		"div",
		{ class: `notice ${kind}`, role: kind === "error" ? "alert" : "status" },
		icon(kind === "error" || kind === "warning" ? "dead" : "info"),
		h("div", { class: "notice-text" }, text),
		action,
	);

/** @param {Error} problem @param {() => void} again */
export function problemNotice(problem, again) {
	const isDenied = problem instanceof Problem && problem.status === 403;
	const retry = isDenied ? null : button("Try again", again, { icon: "retry" });
	return notice("error", problem.message, retry);
}

/**
 * A table, which becomes a list of cards on a narrow screen.
 * @template T
 * @param {string} label
 * @param {Column<T>[]} columns
 * @param {T[]} rows
 * @param {(row: T) => string} keyOf
 * @param {{row?: (row: T) => Dom.Props, class?: string}} [how]
 */
export function table(label, columns, rows, keyOf, how = {}) {
	const head = columns.map((each) =>
		h(
			"th",
			{ scope: "col", class: each.class },
			each.hideHead ? h("span", { class: "unseen" }, each.head) : each.head,
		),
	);
	const body = rows.map((row) =>
		h(
			"tr",
			{ key: keyOf(row), ...how.row?.(row) },
			columns.map((each) =>
				h("td", { class: each.class, "data-label": each.hideHead ? null : each.head }, each.cell(row)),
			),
		),
	);
	return h(
		"div",
		{ class: "table-box", tabindex: "0", role: "group", "aria-label": label },
		h(
			"table",
			{ class: `cards ${how.class ?? ""}` },
			h("thead", null, h("tr", null, head)),
			h("tbody", null, body),
		),
	);
}

/**
 * One of a few, as buttons in a row.
 * @param {string} label
 * @param {[string, string][]} choices
 * @param {string} chosen
 * @param {(value: string) => void} choose
 */
export const segmented = (label, choices, chosen, choose) =>
	h(
		"div",
		{ class: "segmented", role: "group", "aria-label": label },
		choices.map(([value, text]) =>
			h(
				"button",
				{
					type: "button",
					"aria-pressed": String(value === chosen),
					onclick: () => choose(value),
					key: value,
				},
				text,
			),
		),
	);

/** @param {number} part @param {number} whole @param {string} label */
export function meter(part, whole, label) {
	const share = whole > 0 ? Math.min(1, part / whole) : 0;
	return h(
		"span",
		{ class: "meter", role: "img", "aria-label": label, title: label },
		h("i", { class: share >= 1 ? "full" : "", style: { width: `${share * 100}%` } }),
	);
}

/** @param {string} label @param {Dom.Child} control @param {{hint?: Dom.Child, error?: string | null, id?: string}} [how] */
export function field(label, control, how = {}) {
	const { id = "", hint, error } = how;
	const hintId = hint ? `${id}-hint` : "";
	tie(control, id, [hintId, error ? `${id}-error` : ""], Boolean(error));
	return h(
		"div",
		{ class: `field ${error ? "wrong" : ""}` },
		h("label", { for: id }, label),
		control,
		hint && h("p", { class: "hint", id: hintId }, hint),
		error && wrongLine(id, error),
	);
}

/** What is wrong with a control. @param {string} id @param {string} text @param {number} [at] */
export const wrongLine = (id, text, at = 0) =>
	h("p", { class: "error", role: "alert", id: `${id}-error${at || ""}` }, text);

/**
 * Tie the control of an id to what is said of it, so that it is read out with it.
 * @param {Dom.Child} control
 * @param {string} id
 * @param {string[]} notes  Ids; empty ones are none.
 * @param {boolean} isWrong
 */
export function tie(control, id, notes, isWrong) {
	const found = controlOf(control, id);
	const told = notes.filter(Boolean).join(" ");
	if (told) found?.setAttribute("aria-describedby", told);
	else found?.removeAttribute("aria-describedby");
	if (isWrong) found?.setAttribute("aria-invalid", "true");
	else found?.removeAttribute("aria-invalid");
}

/** Find the control of an id in what was drawn. @param {Dom.Child} drawn @param {string} id @returns {Element | null} */
export function controlOf(drawn, id) {
	if (Array.isArray(drawn)) {
		for (const each of drawn) {
			const found = controlOf(each, id);
			if (found) return found;
		}
	}
	if (!(drawn instanceof Element) || !id) return null;
	return drawn.id === id ? drawn : drawn.querySelector(`#${CSS.escape(id)}`);
}

/** What facts there are. @param {[string, Dom.Child][]} pairs @param {string} [kind] */
export const facts = (pairs, kind = "") =>
	h(
		"dl",
		{ class: `facts ${kind}` },
		pairs
			.filter(([, value]) => value || value === 0)
			.map(([term, value]) => h("div", { key: term }, h("dt", null, term), h("dd", null, value))),
	);

/** @param {string} text @param {App} app @param {string} [what] */
export const copyButton = (text, app, what = "it") =>
	iconButton(`Copy ${what}`, "copy", () => {
		navigator.clipboard.writeText(text).then(
			() => app.toast("Copied"),
			() => app.toast("The browser does not allow copying here", "error"),
		);
	});

/** A group of failures in one line. @param {Api.Group} group */
export const groupTitle = (group) => [
	h("bdi", { class: "kind" }, group.kind),
	" ",
	h("bdi", { class: "message" }, group.message),
];

/** @param {Api.Count} count @param {string} query */
export const countLink = (count, query) =>
	count.value === 0 && count.is_exact
		? faint("0")
		: link(address("tasks", { q: query }), counted(count), { class: "number" });

export { ago };
