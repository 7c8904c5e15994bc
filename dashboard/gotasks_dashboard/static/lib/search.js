// The search box: qualifiers and their values are completed as they are typed.

import { get } from "./api.js";
import { h, island, show } from "./dom.js";
import { iconButton } from "./ui.js";
import { icon } from "./icons.js";

const WAIT_MS = 90;

export class SearchBox {
	/**
	 * @param {(query: string) => void} search
	 */
	constructor(search) {
		this.search = search;
		/** @type {Api.Completion} */
		this.found = { from: 0, to: 0, items: [] };
		this.active = -1;
		this.timer = 0;
		this.asked = 0;
		this.list = h("ul", {
			class: "completions",
			role: "listbox",
			id: "completions",
			"aria-label": "Completions",
			hidden: true,
		});
		this.input = h("input", {
			type: "text",
			role: "combobox",
			"aria-label": "Search tasks",
			"aria-autocomplete": "list",
			"aria-expanded": "false",
			"aria-controls": "completions",
			"aria-keyshortcuts": "/",
			"data-search": true,
			autocomplete: "off",
			autocapitalize: "off",
			spellcheck: "false",
			maxlength: "2000",
			placeholder: "queue:emails status:dead payload.user.id:42",
			oninput: () => this.typed(),
			onfocus: () => this.typed(),
			onblur: () => this.close(),
			onkeydown: (event) => this.pressed(event),
		});
		this.node = h(
			"form",
			{
				class: "search",
				role: "search",
				key: "search",
				onsubmit: (event) => {
					event.preventDefault();
					this.submit();
				},
			},
			icon("search"),
			this.input,
			iconButton("Clear the search", "close", () => this.clear(), {
				class: "button icon-only clear",
			}),
			this.list,
		);
	}

	slot() {
		return island(this.node);
	}

	/** @param {string} query */
	put(query) {
		if (document.activeElement !== this.input || this.input.value.trim() === query.trim())
			this.input.value = query;
	}

	clear() {
		this.input.value = "";
		this.input.focus();
		this.submit();
	}

	submit() {
		this.close();
		this.search(this.input.value.trim());
	}

	typed() {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => void this.complete(), WAIT_MS);
	}

	async complete() {
		const asked = ++this.asked;
		const at = this.input.selectionStart ?? this.input.value.length;
		try {
			/** @type {Api.Completion} */
			const found = await get("complete", {
				q: this.input.value || " ",
				at: this.input.value ? at : 0,
			});
			if (asked !== this.asked || document.activeElement !== this.input) return;
			this.found = found;
			this.active = -1;
		} catch {
			// Without completions it can still be searched; what is wrong is told then.
			this.found = { from: 0, to: 0, items: [] };
		}
		this.draw();
	}

	draw() {
		const { items } = this.found;
		const isOpen = items.length > 0;
		this.list.hidden = !isOpen;
		this.input.setAttribute("aria-expanded", String(isOpen));
		if (this.active >= 0) this.input.setAttribute("aria-activedescendant", `completion-${this.active}`);
		else this.input.removeAttribute("aria-activedescendant");
		show(
			this.list,
			items.map((item, at) =>
				h(
					"li",
					{
						role: "option",
						id: `completion-${at}`,
						"aria-selected": String(at === this.active),
						// Before the box loses its focus.
						onpointerdown: (event) => {
							event.preventDefault();
							this.take(at);
						},
					},
					h("bdi", null, item.label),
					h("span", { class: "faint" }, item.detail || item.kind),
				),
			),
		);
		this.list.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
	}

	close() {
		clearTimeout(this.timer);
		this.asked += 1;
		this.found = { from: 0, to: 0, items: [] };
		this.active = -1;
		this.draw();
	}

	/** @param {number} at */
	take(at) {
		const item = this.found.items[at];
		if (!item) return;
		const { value } = this.input;
		const { from, to } = this.found;
		this.input.value = value.slice(0, from) + item.text + value.slice(to);
		const end = from + item.text.length;
		this.input.setSelectionRange(end, end);
		this.close();
		this.typed();
	}

	/** @param {KeyboardEvent} event */
	pressed(event) {
		const count = this.found.items.length;
		if (event.key === "Escape" && count > 0) this.close();
		else if (event.key === "Escape") this.input.blur();
		else if (event.key === "ArrowDown" && count > 0) this.move(this.active + 1);
		else if (event.key === "ArrowUp" && count > 0) this.move(this.active < 0 ? count - 1 : this.active - 1);
		else if (event.key === "Tab" && count > 0 && !event.shiftKey && this.active >= 0) this.take(this.active);
		else if (event.key === "Enter" && this.active >= 0) this.take(this.active);
		else return;
		event.preventDefault();
	}

	/** @param {number} to */
	move(to) {
		const count = this.found.items.length;
		this.active = to >= count ? -1 : to;
		this.draw();
	}
}

/**
 * Show a search that was not understood, with the place marked.
 * @param {string} query
 * @param {Api.FieldError | undefined} error
 */
export function markedQuery(query, error) {
	if (error?.at === undefined) return null;
	const end = error.at + Math.max(1, error.length ?? 1);
	return h(
		"code",
		{ class: "query" },
		query.slice(0, error.at),
		h("mark", null, query.slice(error.at, end) || " "),
		query.slice(end),
	);
}

const WORD = /([^\s:"]+):(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))(?=\s|$)/g;

/**
 * Give a search another value of one qualifier, or none.
 * @param {string} query
 * @param {string} qualifier
 * @param {string} value
 */
export function withQualifier(query, qualifier, value) {
	const rest = query.replaceAll(WORD, (word, name) => (name === qualifier ? "" : word));
	return [rest.replaceAll(/\s+/g, " ").trim(), value && `${qualifier}:${value}`].filter(Boolean).join(" ");
}

/** @param {string} query @param {string} qualifier */
export function qualifierOf(query, qualifier) {
	for (const [, name, quotedValue, plain] of query.matchAll(WORD))
		if (name === qualifier) return quotedValue ?? plain ?? "";
	return "";
}
