// Values as a tree that folds. Long lists and texts show their beginning first.

import { address } from "./api.js";
import { h } from "./dom.js";
import { tagOf } from "./exact.js";
import { integer, plural } from "./format.js";
import { link, quoted } from "./ui.js";

const MANY = 50;
const LONG = 400;
const KINDS = /** @type {Record<string, string>} */ ({
	$int: "int",
	$float: "float",
	$date: "date",
	$bytes: "bytes",
	$uuid: "uuid",
	$decimal: "decimal",
	$id: "id",
	$other: "other",
});

export class Tree {
	/**
	 * @param {() => void} redraw
	 * @param {boolean} canSearch  Whether tasks can be searched by these values.
	 */
	constructor(redraw, canSearch) {
		this.redraw = redraw;
		this.canSearch = canSearch;
		/** @type {Map<string, boolean>} */
		this.folds = new Map();
		/** @type {Map<string, number>} */
		this.shown = new Map();
	}

	/** @param {Api.Tagged} value */
	draw(value) {
		return h("div", { class: "tree" }, this.value(value, [], 0));
	}

	/** @param {Api.Tagged} value @param {string[]} path @param {number} depth @returns {Dom.Child} */
	value(value, path, depth) {
		const tag = tagOf(value);
		if (tag?.[0] === "$object") return this.plain(tag[1], path, depth);
		return tag ? this.tagged(tag[0], tag[1], path) : this.plain(value, path, depth);
	}

	/** A value that is no tag, whatever it looks like. @param {Api.Tagged} value @param {string[]} path @param {number} depth */
	plain(value, path, depth) {
		if (Array.isArray(value)) {
			const entries = value.map((each, at) => /** @type {[string, Api.Tagged]} */ ([String(at), each]));
			return this.fold(entries, path, depth, `[ ${plural(value.length, "item")} ]`);
		}
		if (value !== null && typeof value === "object") {
			const entries = Object.entries(value);
			return this.fold(entries, path, depth, `{ ${plural(entries.length, "field")} }`);
		}
		return this.leaf(value, path);
	}

	/** @param {[string, Api.Tagged][]} entries @param {string[]} path @param {number} depth @param {string} told */
	fold(entries, path, depth, told) {
		if (entries.length === 0) return h("span", { class: "faint" }, told.startsWith("[") ? "[ ]" : "{ }");
		const at = JSON.stringify(path);
		const isOpen = this.folds.get(at) ?? ((depth < 2 && entries.length <= 20) || depth === 0);
		const shown = this.shown.get(at) ?? MANY;
		const turn = () => {
			this.folds.set(at, !isOpen);
			this.redraw();
		};
		const more = () => {
			this.shown.set(at, shown + MANY * 4);
			this.redraw();
		};
		return [
			h("button", { type: "button", class: "fold", "aria-expanded": String(isOpen), onclick: turn }, told),
			isOpen &&
				h(
					"ul",
					null,
					entries
						.slice(0, shown)
						.map(([key, value]) =>
							h(
								"li",
								{ key: `.${key}` },
								h("bdi", { class: "tree-key" }, key),
								this.value(value, [...path, key], depth + 1),
							),
						),
					entries.length > shown &&
						h(
							"li",
							null,
							h(
								"button",
								{ type: "button", class: "fold", onclick: more },
								`${integer(entries.length - shown)} more`,
							),
						),
				),
		];
	}

	/** @param {string} tag @param {Api.Tagged} value @param {string[]} path */
	tagged(tag, value, path) {
		const text = typeof value === "string" ? value : JSON.stringify(value);
		const kind = KINDS[tag] ?? tag;
		const isNumber = tag === "$int" || tag === "$float";
		return [
			this.text(text, isNumber ? "number" : "", path),
			kind !== "int" && h("span", { class: "tree-kind" }, kind),
			isNumber && this.finder(path, text),
		];
	}

	/** @param {null | boolean | number | string} value @param {string[]} path */
	leaf(value, path) {
		if (typeof value === "string")
			return [
				this.text(value, "string", path),
				value.length <= 200 &&
					this.finder(
						path,
						JSON.stringify(value) === `"${value}"` && !looksLikeJson(value) ? quoted(value) : asText(value),
					),
			];
		return [
			h("span", { class: `tree-value ${value === null ? "null" : typeof value}` }, String(value)),
			this.finder(path, String(value)),
		];
	}

	/** @param {string} text @param {string} kind @param {string[]} path */
	text(text, kind, path) {
		const at = `text${JSON.stringify(path)}`;
		const isWhole = text.length <= LONG || this.folds.get(at) === true;
		const open = () => {
			this.folds.set(at, true);
			this.redraw();
		};
		return [
			h("bdi", { class: `tree-value ${kind}` }, isWhole ? text : `${text.slice(0, LONG)}…`),
			!isWhole &&
				h(
					"button",
					{ type: "button", class: "fold", onclick: open },
					`all ${integer(text.length)} characters`,
				),
		];
	}

	/** @param {string[]} path @param {string} written */
	finder(path, written) {
		const isPlain = path.length > 0 && path.every((each) => /^[^\s:".$\d][^\s:".]*$/.test(each));
		if (!this.canSearch || !isPlain) return null;
		const query = `payload.${path.join(".")}:${written}`;
		return link(address("tasks", { q: query }), "find", {
			class: "finder",
			"aria-label": `Find tasks with ${query}`.slice(0, 200),
		});
	}
}

/** Would a search take it for a number or the like? @param {string} text */
function looksLikeJson(text) {
	try {
		JSON.parse(text);
		return true;
	} catch {
		return false;
	}
}

/** @param {string} text */
const asText = (text) => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
