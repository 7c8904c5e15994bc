// The frame that is drawn around each page.

import { h } from "./dom.js";
import { counted, compact } from "./format.js";
import { icon } from "./icons.js";
import { PANELS } from "./routes.js";
import { button, iconButton, link, notice } from "./ui.js";

const THEMES = ["auto", "light", "dark"];

/** @param {App} app @param {Dom.Child} content @returns {Dom.Child} */
export function shell(app, content) {
	return [
		h(
			"button",
			{
				type: "button",
				class: "skip",
				onclick: () => app.root.querySelector("h1")?.focus(),
				key: "skip",
			},
			"Skip to content",
		),
		h(
			"div",
			{ class: `frame ${app.isMenuOpen ? "menu-open" : ""}`, key: "frame" },
			bar(app),
			sidebar(app),
			main(app, content),
		),
	];
}

/** On a narrow screen. @param {App} app */
function bar(app) {
	return h(
		"header",
		{ class: "top" },
		iconButton("Menu", "menu", () => toggleMenu(app), {
			"aria-expanded": String(app.isMenuOpen),
			"aria-controls": "sidebar",
		}),
		brand(app),
		liveMark(app, true),
	);
}

/** @param {App} app */
function toggleMenu(app) {
	app.isMenuOpen = !app.isMenuOpen;
	app.refresh();
}

/** @param {App} app */
const brand = (app) =>
	link(
		"./",
		[
			h("img", { src: "static/icon.svg", alt: "", width: "20", height: "20" }),
			h("span", null, app.session.title),
		],
		{
			class: "brand",
		},
	);

/** @param {App} app */
function sidebar(app) {
	return h(
		"aside",
		{ class: "sidebar", id: "sidebar" },
		brand(app),
		app.may("enqueue") && link("new", [icon("plus"), "New task"], { class: "button new-task" }),
		h(
			"nav",
			{ "aria-label": "Panels" },
			h(
				"ul",
				null,
				panels(app).map((id) => panelLink(app, id)),
			),
		),
		h("footer", null, liveMark(app, false), tools(app), user(app)),
	);
}

/** The panels to go to; those that are not known yet are left out. @param {App} app */
export function panels(app) {
	const ids = app.session.panels.filter((id) => PANELS[id]);
	const canAct = ["requeue", "cancel", "delete"].some((each) => app.may(each));
	if (canAct && !ids.includes("jobs")) ids.splice(Math.max(0, ids.indexOf("system")), 0, "jobs");
	return ids;
}

/** @param {App} app @param {string} id */
function panelLink(app, id) {
	const panel = /** @type {import("./routes.js").Panel} */ (PANELS[id]);
	const isHere = app.panel === id;
	return h(
		"li",
		{ key: id },
		link(panel.path, [icon(panel.icon), h("span", null, panel.label), tally(app, id)], {
			"aria-current": isHere ? "page" : null,
		}),
	);
}

/** @param {App} app @param {string} id */
function tally(app, id) {
	const overview = app.overview;
	if (!overview) return null;
	const { dead, running } = overview.totals;
	if (id === "dead" && dead.value > 0) return mark("bad", compact(dead.value), `${counted(dead)} dead`);
	if (id === "tasks" && running.value > 0)
		return mark("", compact(running.value), `${counted(running)} running`);
	if (id === "nodes" && overview.nodes.count === 0) return mark("bad", "0", "none");
	return null;
}

/** @param {string} kind @param {string} text @param {string} label */
const mark = (kind, text, label) =>
	h("span", { class: `tally ${kind}`, title: label, "aria-label": label }, text);

/** @param {App} app @param {boolean} isShort */
function liveMark(app, isShort) {
	const { state, detail } = app.liveState;
	const names = {
		live: "Live",
		polling: "Polling",
		paused: "Paused",
		away: "Reconnecting",
		stopped: "Signed out",
		starting: "Connecting",
	};
	const text = names[/** @type {keyof typeof names} */ (state)] ?? state;
	return h(
		"span",
		{ class: `stream ${state}`, title: detail, role: "status" },
		h("i", { class: "dot" }),
		h("span", { class: isShort ? "unseen" : "" }, text),
	);
}

/** @param {App} app */
function tools(app) {
	const theme = document.documentElement.dataset.theme ?? "auto";
	const mark = { auto: "auto", light: "sun", dark: "moon" }[theme] ?? "auto";
	return h(
		"div",
		{ class: "tools" },
		iconButton(`Theme: ${theme === "auto" ? "as the system" : theme}`, mark, () => switchTheme(app)),
		iconButton("Keyboard shortcuts", "keyboard", () => app.keys.help()),
	);
}

/** @param {App} app */
export function switchTheme(app) {
	const root = document.documentElement;
	const at = THEMES.indexOf(root.dataset.theme ?? "auto");
	const next = THEMES[(at + 1) % THEMES.length] ?? "auto";
	if (next === "auto") delete root.dataset.theme;
	else root.dataset.theme = next;
	try {
		localStorage.setItem("gotasks.theme", next);
	} catch {
		// Storage is denied: it holds until the page is left.
	}
	app.refresh();
}

/** @param {App} app */
function user(app) {
	const { user: who, version } = app.session;
	return h(
		"div",
		{ class: "who" },
		who && h("bdi", { title: "You, as the audit knows you" }, who),
		h("span", { class: "faint" }, version && `v${version}`),
	);
}

/** @param {App} app @param {Dom.Child} content */
function main(app, content) {
	return h(
		"main",
		{ id: "main" },
		app.liveState.state === "away" && notice("warning", app.liveState.detail),
		content,
	);
}

/**
 * The head of a page.
 * @param {Dom.Child} title
 * @param {{crumbs?: Dom.Child, actions?: Dom.Child, note?: Dom.Child}} [how]
 */
export const pageHead = (title, how = {}) =>
	h(
		"header",
		{ class: "page-head" },
		h(
			"div",
			{ class: "page-title" },
			how.crumbs && h("p", { class: "crumbs" }, how.crumbs),
			h("h1", { tabindex: "-1" }, title),
			how.note && h("p", { class: "note" }, how.note),
		),
		how.actions && h("div", { class: "actions" }, how.actions),
	);

/** Say once who may do nothing, and why. @param {App} app */
export function readOnlyHint(app) {
	if (!app.session.is_loopback_default) return null;
	return notice(
		"info",
		[
			"You may look, and change nothing: this dashboard was given no ",
			h("code", null, "authorize="),
			". Pass a function that returns what a request may do.",
		],
		button("Hide", () => hideHint(app)),
	);
}

/** @param {App} app */
function hideHint(app) {
	app.session.is_loopback_default = false;
	app.refresh();
}
