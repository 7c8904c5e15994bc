// A form made of a JSON schema. It draws itself from the value that it edits.

import { h } from "./dom.js";
import { Beyond, parseExact, scalarText, wholeNumber, written } from "./exact.js";
import { hintOf, initial, kindOf, looksLike, resolved, variantsOf } from "./schema.js";
import { button, controlOf, faint, iconButton, notice, segmented, tie, wrongLine } from "./ui.js";

/** @typedef {Api.Tagged | undefined} Value */
/** @typedef {{schema: Schema, value: Value, path: string, label: string, isRequired: boolean, set: (value: Value) => void, extra?: Dom.Child}} Part */

const MOST_BUTTONS = 4;

export class SchemaForm {
	/**
	 * @param {Schema} root
	 * @param {Value} value
	 * @param {() => void} redraw
	 */
	constructor(root, value, redraw) {
		this.root = root;
		this.value = value;
		this.redraw = redraw;
		/** What was typed and cannot be read yet, by path. @type {Map<string, {text: string, why: string}>} */
		this.drafts = new Map();
		/** @type {Api.FieldError[]} */
		this.errors = [];
		/** @type {Set<Api.FieldError>} */
		this.told = new Set();
	}

	/** Can it be sent? */
	isReadable() {
		return this.drafts.size === 0;
	}

	draw() {
		this.told.clear();
		const set = (/** @type {Value} */ value) => {
			this.value = value;
			this.redraw();
		};
		const schema = resolved(this.root, this.root);
		const part = { schema, value: this.value, path: "", label: "Payload", isRequired: true, set };
		const hasFields = ["object", "map", "array", "tuple"].includes(kindOf(schema, this.root));
		const body = hasFields
			? this.control(part)
			: h("div", { class: "form" }, this.field({ ...part, label: schema.title ?? "Value" }));
		const rest = this.errors.filter((each) => !this.told.has(each));
		return [
			rest.map((each) => notice("error", each.path ? `${each.path}: ${each.message}` : each.message)),
			body,
		];
	}

	/** The errors of a place, or of all below it that nothing else has told. @param {string} path @param {boolean} isDeep */
	claim(path, isDeep) {
		const above = path ? `${path}.` : "";
		const found = this.errors.filter(
			(each) => !this.told.has(each) && (each.path === path || (isDeep && each.path.startsWith(above))),
		);
		for (const each of found) this.told.add(each);
		return found.map((each) =>
			each.path === path ? each.message : `${each.path.slice(above.length)}: ${each.message}`,
		);
	}

	/** A value with its name, what is said about it, and what is wrong with it. @param {Part} part */
	field(part) {
		const { schema, path, label, isRequired, extra } = part;
		const kind = kindOf(schema, this.root);
		const control = this.control(part);
		const draft = this.drafts.get(path);
		const wrong = [
			...(draft ? [draft.why] : []),
			...this.claim(path, !["object", "map", "array", "tuple"].includes(kind)),
		];
		const hint = hintOf(schema);
		const isOne = isOneControl(schema, kind);
		const id = idOf(path);
		const notes = [hint ? `${id}-hint` : "", ...wrong.map((_, at) => `${id}-error${at || ""}`)];
		tie(control, id, notes, wrong.length > 0);
		return h(
			"div",
			{
				class: `field ${wrong.length > 0 ? "wrong" : ""}`,
				key: path,
				role: isOne ? null : "group",
				"aria-label": isOne ? null : label,
				"aria-describedby": isOne ? null : notes.filter(Boolean).join(" ") || null,
			},
			h(
				"div",
				{ class: "field-head" },
				isOne ? h("label", { for: id }, label) : h("span", { class: "label" }, label),
				isRequired && h("span", { class: "required", title: "required" }, "*"),
				h("span", { class: "spacer" }),
				extra,
			),
			hint && h("p", { class: "hint", id: `${id}-hint` }, hint),
			control,
			wrong.map((each, at) => wrongLine(id, each, at)),
		);
	}

	/** @param {Part} part @returns {Dom.Child} */
	control(part) {
		const { schema, value, set, path } = part;
		switch (kindOf(schema, this.root)) {
			case "const":
				return h("code", null, JSON.stringify(schema.const));
			case "enum":
				return this.choice(part);
			case "union":
				return this.union(part);
			case "object":
				return this.object(part);
			case "map":
				return this.map(part);
			case "array":
			case "tuple":
				return this.list(part);
			case "boolean":
				return segmented(
					part.label,
					[
						["true", "Yes"],
						["false", "No"],
					],
					String(value),
					(chosen) => set(chosen === "true"),
				);
			case "null":
				return faint("nothing");
			case "integer":
				return this.text(
					part,
					scalarText(value) ?? "",
					(text) => (/^[-+]?\d+$/.test(text) ? wholeNumber(text.replace(/^\+/, "")) : fail("a whole number")),
					{ inputmode: "numeric" },
				);
			case "number":
				return this.text(
					part,
					scalarText(value) ?? "",
					(text) => {
						const number = Number(text);
						if (text === "" || Number.isNaN(number)) return fail("a number");
						if (!Number.isFinite(number)) throw new Beyond(text);
						return parseExact(String(number) === text || !/^-?\d/.test(text) ? String(number) : text);
					},
					{ inputmode: "decimal" },
				);
			case "string":
				return this.string(part);
			default:
				return h("textarea", {
					class: "code",
					rows: "3",
					id: idOf(path),
					"aria-label": `${part.label} as JSON`,
					spellcheck: "false",
					value: this.drafts.get(path)?.text ?? (value === undefined ? "" : written(value)),
					oninput: (event) => this.typed(part, event.target.value, parseExact),
				});
		}
	}

	/** @param {Part} part @param {string} text @param {(text: string) => Value} read */
	typed(part, text, read) {
		try {
			const value = read(text);
			this.drafts.delete(part.path);
			part.set(value);
		} catch (error) {
			const needed = error instanceof Expected ? error.message : "JSON";
			this.drafts.set(part.path, {
				text,
				why: error instanceof Beyond ? error.message : `needs ${needed}`,
			});
			this.redraw();
		}
	}

	/** @param {Part} part @param {string} shown @param {(text: string) => Value} read @param {Dom.Props} [props] */
	text(part, shown, read, props = {}) {
		const value = this.drafts.get(part.path)?.text ?? shown;
		return h("input", {
			type: "text",
			id: idOf(part.path),
			autocomplete: "off",
			"aria-required": String(part.isRequired),
			value,
			oninput: (event) => this.typed(part, event.target.value.trim(), read),
			...props,
		});
	}

	/** @param {Part} part */
	string(part) {
		const { schema, value, path, set } = part;
		const text = scalarText(value) ?? "";
		const take = (/** @type {any} */ event) => set(event.target.value);
		if (schema.format === "date-time") {
			const now = button("Now", () => set(new Date().toISOString()), { kind: "small" });
			return h(
				"div",
				{ class: "item" },
				h("input", {
					type: "text",
					id: idOf(path),
					value: text,
					placeholder: "2026-01-31T12:00:00Z",
					autocomplete: "off",
					oninput: take,
				}),
				now,
			);
		}
		if (schema.format === "date")
			return h("input", { type: "date", id: idOf(path), value: text, oninput: take });
		if ((schema.maxLength ?? 0) > 200 || text.includes("\n") || text.length > 120)
			return h("textarea", { rows: "4", id: idOf(path), value: text, oninput: take });
		return h("input", {
			type: "text",
			id: idOf(path),
			value: text,
			autocomplete: "off",
			"aria-required": String(part.isRequired),
			oninput: take,
		});
	}

	/** @param {Part} part */
	choice({ schema, value, set, path, label }) {
		/** @type {[string, string][]} */
		const choices = schema.enum.map((/** @type {Api.Tagged} */ each) => [
			JSON.stringify(each),
			typeof each === "string" ? each : JSON.stringify(each),
		]);
		const chosen = JSON.stringify(value);
		const take = (/** @type {string} */ text) => set(JSON.parse(text));
		if (choices.length <= MOST_BUTTONS) return segmented(label, choices, chosen, take);
		return h(
			"select",
			{ id: idOf(path), value: chosen, onchange: (event) => take(event.target.value) },
			choices.map(([code, text]) => h("option", { value: code, selected: code === chosen }, text)),
		);
	}

	/** @param {Part} part */
	union(part) {
		const { schema, value, set, path, label } = part;
		const variants = variantsOf(schema, this.root);
		const at = Math.max(
			0,
			variants.findIndex((each) => looksLike(each, value, this.root)),
		);
		const choices = variants.map(
			(each, index) =>
				/** @type {[string, string]} */ ([String(index), each.type === "null" ? "none" : each.label]),
		);
		const choose = (/** @type {string} */ index) => {
			this.drafts.delete(path);
			set(initial(variants[Number(index)] ?? {}, this.root));
		};
		return [
			segmented(`Kind of ${label}`, choices, String(at), choose),
			variants[at]?.type !== "null" && this.named(part, variants[at] ?? {}),
		];
	}

	/** The control of an alternative, which no label stands for. @param {Part} part @param {Schema} schema */
	named(part, schema) {
		const control = this.control({ ...part, schema });
		if (isOneControl(schema, kindOf(schema, this.root)))
			controlOf(control, idOf(part.path))?.setAttribute("aria-label", part.label);
		return control;
	}

	/** @param {Part} part */
	object(part) {
		const { schema, path, set } = part;
		const value = /** @type {Record<string, Api.Tagged>} */ (part.value ?? {});
		const required = new Set(schema.required ?? []);
		const fields = Object.entries(schema.properties).map(([name, each]) => {
			const inner = resolved(/** @type {Schema} */ (each), this.root);
			const at = join(path, name);
			const put = (/** @type {Value} */ next) =>
				set(next === undefined ? omit(value, name) : { ...value, [name]: next });
			const isRequired = required.has(name) || inner.const !== undefined;
			const label = name;
			if (!isRequired && !(name in value) && !this.drafts.has(at))
				return this.unset(inner, label, at, () => put(begun(initial(inner, this.root))));
			const drop = () => {
				this.drafts.delete(at);
				put(undefined);
			};
			const extra = !isRequired && button("Leave out", drop, { kind: "small plain" });
			return this.field({ schema: inner, value: value[name], path: at, label, isRequired, set: put, extra });
		});
		const more = Object.keys(value).filter((key) => !(key in schema.properties));
		const others = more.map((key) =>
			this.field({
				schema: {},
				value: value[key],
				path: join(path, key),
				label: key,
				isRequired: false,
				set: (next) => set({ ...value, [key]: next ?? null }),
				extra: button("Remove", () => set(omit(value, key)), { kind: "small plain" }),
			}),
		);
		const all = [fields, others];
		return path === "" ? h("div", { class: "form" }, all) : h("div", { class: "group" }, all);
	}

	/** A field that is left out, so that the type's own default holds. @param {Schema} schema @param {string} label @param {string} path @param {() => void} put */
	unset(schema, label, path, put) {
		const { default: given } = schema;
		const text = given === null ? "none" : (scalarText(given) ?? JSON.stringify(given)) || '""';
		const told = given === undefined ? "left out" : text;
		const wrong = this.claim(path, true);
		return h(
			"div",
			{ class: "field-head unset", key: path },
			h("span", { class: "label" }, label),
			faint(`= ${told.slice(0, 60)}`),
			h("span", { class: "spacer" }),
			button("Set", put, { kind: "small", title: `Set ${label}` }),
			wrong.map((each, at) => wrongLine(idOf(path), each, at)),
		);
	}

	/** @param {Part} part */
	map(part) {
		const { path, set, schema } = part;
		const value = /** @type {Record<string, Api.Tagged>} */ (part.value ?? {});
		const inner = resolved(schema.additionalProperties, this.root);
		const entries = Object.entries(value);
		const rows = entries.map(([key, each], at) => {
			const rename = (/** @type {any} */ event) =>
				set(
					Object.fromEntries(
						entries.map(([old, kept], index) => [
							index === at ? unused(event.target.value, value, old) : old,
							kept,
						]),
					),
				);
			const put = (/** @type {Value} */ next) => set({ ...value, [key]: next ?? null });
			return h(
				"div",
				{ class: "item pair", key: String(at) },
				h(
					"div",
					{ class: "field" },
					h("div", { class: "field-head" }, h("label", { for: `${idOf(path)}-name-${at}` }, "Name")),
					h("input", { type: "text", id: `${idOf(path)}-name-${at}`, value: key, onchange: rename }),
				),
				this.field({
					schema: inner,
					value: each,
					path: join(path, key),
					label: key || "value",
					isRequired: false,
					set: put,
				}),
				iconButton(`Remove ${key}`, "close", () => set(omit(value, key))),
			);
		});
		const add = () => set({ ...value, [unused("name", value, "")]: initial(inner, this.root) ?? null });
		return h(
			"div",
			{ class: "items" },
			rows,
			h("div", null, button("Add", add, { icon: "plus", kind: "small" })),
		);
	}

	/** @param {Part} part */
	list(part) {
		const { schema, path, set, label } = part;
		const value = Array.isArray(part.value) ? part.value : [];
		const fixed = /** @type {Schema[]} */ (schema.prefixItems ?? []);
		const rows = value.map((each, at) => {
			const inner = resolved(fixed[at] ?? schema.items, this.root);
			const put = (/** @type {Value} */ next) => set(value.with(at, next ?? null));
			const drop = () => {
				this.drafts.clear();
				set(value.toSpliced(at, 1));
			};
			return h(
				"div",
				{ class: "item", key: String(at) },
				this.field({
					schema: inner,
					value: each,
					path: join(path, String(at)),
					label: `${label} ${at + 1}`,
					isRequired: false,
					set: put,
				}),
				at >= fixed.length && iconButton(`Remove ${label} ${at + 1}`, "close", drop),
			);
		});
		const inner = resolved(schema.items, this.root);
		const canAdd = schema.items !== false && (fixed.length === 0 || schema.items !== undefined);
		return h(
			"div",
			{ class: "items" },
			rows,
			canAdd &&
				h(
					"div",
					null,
					button("Add", () => set([...value, initial(inner, this.root) ?? null]), {
						icon: "plus",
						kind: "small",
						title: `Add to ${label}`,
					}),
				),
		);
	}
}

/** Is it a single control, to which a label can lead? @param {Schema} schema @param {string} kind */
const isOneControl = (schema, kind) =>
	["string", "integer", "number", "any"].includes(kind) ||
	(kind === "enum" && schema.enum.length > MOST_BUTTONS);

class Expected extends Error {}

/** @param {string} what @returns {never} */
function fail(what) {
	throw new Expected(what);
}

/** What is set is there, if only as 0. @param {Value} value */
const begun = (value) => (value === undefined ? 0 : value);

/** @param {string} path @param {string} name */
const join = (path, name) => (path ? `${path}.${name}` : name);

/** @param {string} path */
const idOf = (path) => `payload-${path.replaceAll(/\s/g, "_")}`;

/** @param {Record<string, Api.Tagged>} value @param {string} name */
const omit = (value, name) => Object.fromEntries(Object.entries(value).filter(([key]) => key !== name));

/** A name that is not taken yet. @param {string} name @param {Record<string, Api.Tagged>} taken @param {string} own */
function unused(name, taken, own) {
	let found = name;
	for (let at = 2; found in taken && found !== own; at += 1) found = `${name}${at}`;
	return found;
}
