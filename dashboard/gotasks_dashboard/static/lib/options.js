// How a new task is to be treated: what was typed, and what it says.

import { messageOf } from "./api.js";
import { h } from "./dom.js";
import { parseExact, written } from "./exact.js";
import { localInput, now } from "./format.js";
import { field } from "./ui.js";

/** @typedef {{name: string, label: string, hint: string, as?: "time" | "json", read: (text: string) => unknown}} Option */

/** @type {Option[]} */
const OPTIONS = [
	{ name: "delay_seconds", label: "Delay (s)", hint: "from now", read: number },
	{ name: "run_at", label: "Or run at", hint: "in your time zone", as: "time", read: time },
	{ name: "priority", label: "Priority", hint: "higher ones first", read: number },
	{ name: "unique_key", label: "Unique key", hint: "one task at a time has it", read: String },
	{
		name: "tags",
		label: "Tags",
		hint: "with commas between; one that has a comma in quotes",
		read: readTags,
	},
	{ name: "max_attempts", label: "Attempts", hint: "else the queue's", read: number },
	{ name: "timeout_seconds", label: "Time limit (s)", hint: "of one attempt", read: number },
	{ name: "retry_until", label: "Retried until", hint: "in your time zone", as: "time", read: time },
	{
		name: "ttl_seconds",
		label: "Kept for (s)",
		hint: "from when it is to run, whatever becomes of it; 0: for ever",
		read: number,
	},
	{
		name: "backoff",
		label: "Back-off",
		hint: 'else the queue\'s; such as {"kind": "fixed", "delay_ms": 5000}',
		as: "json",
		read: object,
	},
	{ name: "metadata", label: "Metadata", hint: "an object that travels with it", as: "json", read: object },
];

/** How many of them are there at once; the others have to be asked for. */
const COMMON = 5;

export class TaskOptions {
	/** @type {Record<string, string>} */
	typed = {};
	/** What else is said of an option. @type {Record<string, string>} */
	notes = {};

	/** What is wrong with them. @type {Record<string, string>} */
	errors = {};

	/** Begin with those of another task; a key that it still holds is left to it. @param {Api.Task} task */
	take(task) {
		const isActive = task.status === "pending" || task.status === "running";
		const isOver = task.retry_until !== null && Date.parse(task.retry_until) <= now();
		const holdsKey = isActive && task.unique_key !== null;
		this.typed = {
			priority: task.priority ? String(task.priority) : "",
			unique_key: holdsKey ? "" : (task.unique_key ?? ""),
			tags: tagsText(task.tags),
			max_attempts: String(task.max_attempts),
			timeout_seconds: String(task.timeout_seconds ?? ""),
			retry_until: task.retry_until && !isOver ? localInput(new Date(task.retry_until), 19) : "",
			backoff: task.backoff === null ? "" : written(task.backoff),
			metadata: isEmpty(task.metadata) ? "" : written(task.metadata),
		};
		this.notes = {
			...(holdsKey
				? { unique_key: `The task that is cloned holds ${task.unique_key} until it is final.` }
				: {}),
			...(isOver ? { retry_until: "That of the task that is cloned has passed." } : {}),
		};
	}

	draw() {
		const rest = OPTIONS.slice(COMMON);
		const isOpen = rest.some(({ name }) => this.typed[name] || this.notes[name]);
		return h(
			"div",
			{ class: "form" },
			this.row(OPTIONS.slice(0, COMMON)),
			h("details", { open: isOpen }, h("summary", null, "More options"), this.row(rest)),
		);
	}

	/** @param {Option[]} options */
	row(options) {
		return h(
			"div",
			{ class: "form-row" },
			options.map((each) =>
				h("div", { key: each.name, class: each.as === "json" ? "whole-row" : "" }, this.field(each)),
			),
		);
	}

	/** @param {Option} option */
	field({ name, label, hint, as }) {
		const id = `policy-${name}`;
		const common = {
			id,
			autocomplete: "off",
			value: this.typed[name] ?? "",
			oninput: (/** @type {any} */ event) => {
				this.typed[name] = event.target.value;
				delete this.errors[name];
			},
		};
		const control =
			as === "json"
				? h("textarea", { ...common, class: "code low", rows: "2", spellcheck: "false" })
				: h("input", { ...common, type: as === "time" ? "datetime-local" : "text", step: as ? "1" : null });
		const note = this.notes[name];
		const error = this.errors[name] ?? null;
		return field(label, control, { id, hint: note ? [hint, ". ", note] : hint, error });
	}

	/** Take in what the server says of them; tell what it says of something else. @param {Api.FieldError[]} errors */
	claim(errors) {
		const rest = [];
		for (const each of errors) {
			const [part, name = "", ...below] = each.path.split(".");
			if (part !== "policy" || !OPTIONS.some((option) => option.name === name)) rest.push(each);
			else this.errors[name] ??= [below.join("."), each.message].filter(Boolean).join(": ");
		}
		return rest;
	}

	/** What was given, as far as it can be read; the rest is marked. */
	read() {
		this.errors = {};
		/** @type {Record<string, unknown>} */
		const found = {};
		for (const { name, read } of OPTIONS) {
			const text = (this.typed[name] ?? "").trim();
			if (!text) continue;
			try {
				found[name] = read(text);
			} catch (error) {
				this.errors[name] = messageOf(error);
			}
		}
		return found;
	}

	/** Can all of it be read? */
	isReadable() {
		return Object.keys(this.errors).length === 0;
	}
}

/** @param {string} text */
function number(text) {
	const value = Number(text);
	if (!Number.isFinite(value)) throw new Error("a number is needed");
	return value;
}

/** @param {string} text */
function time(text) {
	return new Date(text).toISOString();
}

/** @param {string} text */
function object(text) {
	const value = parseExact(text);
	if (value === null || typeof value !== "object" || Array.isArray(value))
		throw new Error('an object is needed, such as {"name": "value"}');
	return value;
}

/** @param {string[]} tags */
export const tagsText = (tags) =>
	tags.map((each) => (/[,"]/.test(each) ? JSON.stringify(each) : each)).join(", ");

/** @param {string} text @returns {string[]} */
export function readTags(text) {
	const found = [];
	for (const [piece] of text.matchAll(/\s*"(?:[^"\\]|\\.)*"\s*(?=,|$)|[^,]+/g)) {
		const tag = piece.trim();
		if (tag) found.push(/^".*"$/.test(tag) ? JSON.parse(tag) : tag);
	}
	return found;
}

/** @param {Api.Tagged} value */
const isEmpty = (value) => value === null || (typeof value === "object" && Object.keys(value).length === 0);
