// The keyboard map. Single letters can be turned off, for those whom they get in the way of.

import { h } from "./dom.js";
import { PANELS } from "./routes.js";
import { panels, switchTheme } from "./shell.js";
import { button, kbd } from "./ui.js";

/** @typedef {import("./page.js").Shortcut} Shortcut */

const SEQUENCE_MS = 1200;
const STORED = "gotasks.keys";

export class Keys {
	/** @param {App} app */
	constructor(app) {
		this.app = app;
		this.prefix = "";
		this.prefixAt = 0;
		this.areOn = stored() !== "off";
		document.addEventListener("keydown", (event) => this.pressed(event));
	}

	/** @returns {Shortcut[]} */
	everywhere() {
		const { app } = this;
		const goes = panels(app).map((id) => {
			const panel = /** @type {import("./routes.js").Panel} */ (PANELS[id]);
			return {
				keys: `g ${panel.key}`,
				does: `Go to ${panel.label}`,
				run: () => app.to(panel.path),
			};
		});
		return [
			{ keys: "?", does: "Show this list", run: () => this.help() },
			{ keys: "/", does: "Search tasks", run: () => this.search() },
			...(app.may("enqueue") ? [{ keys: "n", does: "New task", run: () => app.to("new") }] : []),
			{ keys: "m", does: "Light, dark, or as the system", run: () => switchTheme(app) },
			...goes,
		];
	}

	/** @param {KeyboardEvent} event */
	pressed(event) {
		if (event.key === "Escape" && this.app.isMenuOpen) {
			this.app.isMenuOpen = false;
			this.app.refresh();
		}
		if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
		if (document.querySelector("dialog[open]")) return;
		if (!this.areOn && event.key !== "?") return;
		const typed = this.isRecent() ? `${this.prefix} ${event.key}` : event.key;
		this.prefix = "";
		const all = [...(this.app.page?.shortcuts() ?? []), ...this.everywhere()];
		const found = all.find((each) => each.keys.split(", ").includes(typed));
		if (found) {
			event.preventDefault();
			found.run();
		} else if (all.some((each) => each.keys.startsWith(`${event.key} `))) {
			this.prefix = event.key;
			this.prefixAt = Date.now();
		}
	}

	isRecent() {
		return this.prefix !== "" && Date.now() - this.prefixAt < SEQUENCE_MS;
	}

	search() {
		const box = document.querySelector("input[data-search]");
		if (box instanceof HTMLInputElement) box.select();
		else
			void this.app
				.navigate("tasks")
				.then(() =>
					/** @type {HTMLInputElement | null} */ (document.querySelector("input[data-search]"))?.select(),
				);
	}

	help() {
		const here = this.app.page?.shortcuts() ?? [];
		const dialog = h("dialog", { "aria-label": "Keyboard shortcuts", class: "keys" });
		const toggle = h("input", {
			type: "checkbox",
			id: "keys-on",
			checked: this.areOn,
			onchange: () => this.turn(toggle.checked),
		});
		dialog.append(
			h("h2", null, "Keyboard shortcuts"),
			h(
				"div",
				{ class: "dialog-body" },
				h(
					"div",
					{ class: "key-lists" },
					here.length > 0 && keyList("On this page", here),
					keyList("Everywhere", this.everywhere()),
				),
			),
			h(
				"footer",
				null,
				h("label", { class: "check", for: "keys-on" }, toggle, "Single keys act"),
				button("Close", () => dialog.close(), { kind: "primary" }),
			),
		);
		this.app.openDialog(dialog);
	}

	/** @param {boolean} on */
	turn(on) {
		this.areOn = on;
		try {
			localStorage.setItem(STORED, on ? "on" : "off");
		} catch {
			// Storage is denied: it holds until the page is left.
		}
	}
}

/** @param {string} title @param {Shortcut[]} shortcuts */
const keyList = (title, shortcuts) =>
	h(
		"section",
		null,
		h("h3", null, title),
		h(
			"dl",
			null,
			shortcuts.map((each) =>
				h("div", null, h("dt", null, each.keys.split(/[ ,]+/).map(kbd)), h("dd", null, each.does)),
			),
		),
	);

function stored() {
	try {
		return localStorage.getItem(STORED);
	} catch {
		return null;
	}
}

/** @param {EventTarget | null} target */
function isTyping(target) {
	if (!(target instanceof HTMLElement)) return false;
	if (target instanceof HTMLInputElement) return !["checkbox", "radio", "button"].includes(target.type);
	return target.isContentEditable || ["TEXTAREA", "SELECT"].includes(target.nodeName);
}
