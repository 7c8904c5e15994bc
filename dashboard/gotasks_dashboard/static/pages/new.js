import { Problem, address, get, messageOf, post } from "../lib/api.js";
import { h, island } from "../lib/dom.js";
import { parseExact, written, writtenLarge } from "../lib/exact.js";
import { SchemaForm } from "../lib/form.js";
import { TaskOptions } from "../lib/options.js";
import { Page } from "../lib/page.js";
import { initial, resolved } from "../lib/schema.js";
import { pageHead } from "../lib/shell.js";
import { button, empty, faint, field, link, notice, panel, segmented, taskAddress, tie } from "../lib/ui.js";

/** What has more values than this, or more text, is edited as text. */
const MOST_VALUES = 1_000;
const MOST_LETTERS = 100_000;
const MOST_ERRORS = 10;

export class NewPage extends Page {
	title = "New task";
	queue = this.param("queue");
	type = this.param("type");
	/** @type {Api.TypeRow[]} */
	types = [];
	/** @type {Api.Schema | null} */
	schema = null;
	/** @type {SchemaForm | null} */
	form = null;
	/** Is the payload edited as text? */
	isText = true;
	area = h("textarea", {
		id: "payload-json",
		key: "payload-json",
		class: "code",
		rows: "12",
		spellcheck: "false",
		value: "{}",
		oninput: () => this.edited(),
	});
	/** Is it too large to have a field for each value? */
	isLarge = false;
	options = new TaskOptions();
	/** Has somebody entered a payload? It is kept whatever type is chosen then. */
	isEdited = false;
	/** @type {Problem | Error | null} */
	refusal = null;
	/** What is wrong with something else than an option. @type {Api.FieldError[]} */
	errors = [];
	said = "";
	cloned = "";

	/** What is edited as text, as long as it is. @returns {string | null} */
	get text() {
		return this.isText ? this.area.value : null;
	}

	set text(text) {
		this.isText = text !== null;
		if (text !== null) this.area.value = text;
	}

	/** A draft outlives whatever happens to the rest. */
	isGone() {
		return true;
	}

	async load() {
		const { signal } = this.abort;
		const from = this.param("from");
		const answer = /** @type {{types: Api.TypeRow[]}} */ (await get("types", { range: "24h" }, signal));
		this.types = answer.types;
		if (from && this.cloned !== from) await this.clone(from, signal);
		else if (!this.isLoaded && this.queue && this.type) await this.describe(undefined);
	}

	/** @param {string} id @param {AbortSignal} signal */
	async clone(id, signal) {
		/** @type {Api.Task} */
		const task = await get(`tasks/${id}`, {}, signal);
		this.cloned = id;
		this.queue = task.queue;
		this.type = task.type;
		this.options.take(task);
		this.isEdited = true;
		await this.describe(task.payload);
	}

	/** Make the form of the type. @param {Api.Tagged | undefined} payload */
	async describe(payload) {
		const { queue, type } = this;
		this.schema = null;
		if (queue && type) {
			const answer = /** @type {{schema: Api.Schema | null}} */ (
				await get("schema", { queue, type }, this.abort.signal, parseExact)
			);
			if (queue !== this.queue || type !== this.type) return;
			this.schema = answer.schema;
		}
		this.refusal = null;
		const schema = this.schema;
		const begun = schema && initial(resolved(schema, schema), schema);
		this.isLarge = payload !== undefined && isLarge(payload);
		const fits = schema && !this.isLarge && (payload === undefined || isOfKind(payload, begun));
		this.form =
			schema && !this.isLarge
				? new SchemaForm(schema, fits && payload !== undefined ? payload : begun, () => this.edited())
				: null;
		this.area.wrap = this.isLarge ? "off" : "soft";
		this.text = fits
			? null
			: payload === undefined
				? "{}"
				: this.isLarge
					? writtenLarge(payload)
					: written(payload);
	}

	edited() {
		this.said = "";
		this.isEdited = true;
		this.redraw();
	}

	/** What was entered, however; undefined as long as nothing was, null for what is no JSON. */
	entered() {
		if (!this.isEdited) return undefined;
		if (!this.isText) return this.form?.value;
		try {
			return parseExact(this.area.value);
		} catch {
			return null;
		}
	}

	/** @param {string} queue @param {string} type */
	async choose(queue, type) {
		this.queue = queue;
		this.type = type;
		this.said = "";
		history.replaceState(null, "", new URL(address("new", { queue, type }), document.baseURI));
		const [entered, text] = [this.entered(), this.text];
		try {
			await this.describe(entered);
			// What is no JSON yet is not touched.
			if (entered === null && text !== null) this.text = text;
		} catch (error) {
			this.refusal = error instanceof Error ? error : new Error(String(error));
		}
		this.redraw();
	}

	draw() {
		const crumbs = this.cloned
			? ["Clone of ", link(taskAddress(this.cloned), h("code", null, this.cloned))]
			: null;
		return [
			pageHead("New task", { crumbs }),
			h(
				"form",
				{
					class: "columns",
					onsubmit: (event) => {
						event.preventDefault();
						void this.send("tasks");
					},
				},
				h(
					"div",
					{ class: "wide" },
					panel("Type", this.chooser()),
					panel("Payload", this.payload(), {
						actions: this.form && this.switcher(),
						note: this.schema?.description,
					}),
				),
				h("div", { class: "narrow" }, panel("Options", this.options.draw()), this.outcome(), this.buttons()),
			),
		];
	}

	chooser() {
		const queues = [
			...new Set([
				...this.types.map((each) => each.queue),
				...(this.app.overview?.queues ?? []).map((each) => each.name),
			]),
		].sort();
		const types = this.types.filter((each) => each.queue === this.queue).map((each) => each.type);
		const input = (
			/** @type {string} */ id,
			/** @type {string} */ value,
			/** @type {(text: string) => void} */ take,
			/** @type {string[]} */ known,
		) => [
			h("input", {
				id,
				type: "text",
				list: `${id}-known`,
				value,
				autocomplete: "off",
				required: true,
				maxlength: "200",
				onchange: (event) => take(event.target.value.trim()),
			}),
			h(
				"datalist",
				{ id: `${id}-known` },
				known.map((each) => h("option", { value: each })),
			),
		];
		const known = this.types.filter((each) => each.schema).slice(0, 12);
		return h(
			"div",
			{ class: "form" },
			known.length > 0 &&
				!this.type &&
				h(
					"div",
					{ class: "actions" },
					known.map((each) => {
						const title = `${each.queue} / ${each.type}`;
						return button(title, () => void this.choose(each.queue, each.type), {
							kind: "small",
							key: `${each.queue} ${each.type}`,
							title,
						});
					}),
				),
			h(
				"div",
				{ class: "form-row" },
				field(
					"Queue",
					input("new-queue", this.queue, (text) => void this.choose(text, this.type), queues),
					{ id: "new-queue" },
				),
				field(
					"Type",
					input("new-type", this.type, (text) => void this.choose(this.queue, text), types),
					{ id: "new-type" },
				),
			),
		);
	}

	switcher() {
		return segmented(
			"Edit as",
			[
				["form", "Form"],
				["json", "JSON"],
			],
			this.isText ? "json" : "form",
			(chosen) => this.turn(chosen === "json"),
		);
	}

	/** @param {boolean} isText */
	turn(isText) {
		const { form } = this;
		if (!form || isText === this.isText) return;
		if (isText) this.text = written(form.value ?? null);
		else {
			try {
				const value = parseExact(this.area.value);
				if (isLarge(value)) throw new Error("This is too large for a form.");
				form.value = value;
				form.drafts.clear();
				this.text = null;
				this.refusal = null;
			} catch (error) {
				const isJson = !(error instanceof SyntaxError);
				this.refusal = new Error(isJson ? messageOf(error) : `This is no JSON yet: ${messageOf(error)}`);
			}
		}
		this.redraw();
	}

	payload() {
		if (!this.isText && this.form) return this.form.draw();
		if (!this.type && this.types.some((each) => each.schema))
			return empty("types", "Choose a type first", "Its payload's form appears here.");
		const large = this.isLarge && "It is too large to have a field for each value. ";
		const hint =
			'Whole numbers of up to 64 bits are kept as they are; other values by tags: {"$date": "2026-01-31T12:00:00Z"}, {"$bytes": "base64"}, {"$float": "NaN"}.';
		const errors = this.errors.map((each) => (each.path ? `${each.path}: ${each.message}` : each.message));
		const error = errors.slice(0, MOST_ERRORS).join("\n");
		const id = "payload-json";
		tie(this.area, id, [`${id}-hint`, error && `${id}-error`], error !== "");
		return h("div", { class: "form" }, field("JSON", island(this.area), { id, hint: [large, hint], error }));
	}

	outcome() {
		const { refusal } = this;
		if (this.said) return notice("info", this.said);
		if (!refusal) return null;
		const existing = refusal instanceof Problem && refusal.existingId;
		const isTold = refusal instanceof Problem && refusal.errors.length > 0;
		const isOfPayload = refusal instanceof Problem && refusal.code === "bad_payload";
		const what = isOfPayload && this.options.isReadable() ? "The payload" : "Some of it";
		const text = isTold ? `${what} does not fit: see what is marked.` : refusal.message;
		return notice(
			"error",
			text,
			existing && link(taskAddress(existing), "See the task that has it", { class: "button small" }),
		);
	}

	buttons() {
		return h(
			"div",
			{ class: "actions" },
			h("button", { type: "submit", class: "button primary" }, "Enqueue"),
			button("Check the payload", () => void this.send("tasks/validate")),
			!this.app.may("enqueue") && faint("This takes the permission enqueue."),
		);
	}

	/** The payload, of text as it was typed, which loses nothing of it; null if that is no JSON, which is told. */
	written() {
		if (!this.isText && this.form) return JSON.stringify(this.form.value ?? null);
		try {
			parseExact(this.area.value);
			return this.area.value;
		} catch (error) {
			this.errors = [{ path: "", message: `this is no JSON: ${messageOf(error)}` }];
			return null;
		}
	}

	/** A request. @param {string | null} payload  JSON; null: none. @param {Record<string, unknown>} [policy] */
	body(payload, policy = undefined) {
		const head = JSON.stringify({ queue: this.queue, type: this.type, policy });
		return payload === null ? head : `${head.slice(0, -1)},"payload":${payload}}`;
	}

	/** @param {"tasks" | "tasks/validate"} path */
	async send(path) {
		this.said = "";
		this.refuse(null);
		const policy = path === "tasks" ? this.options.read() : undefined;
		const payload = this.written();
		try {
			if (!this.queue || !this.type) throw new Error("Which queue, and which type?");
			if (!this.isReadable()) throw new Error("Some of what was typed cannot be read: see what is marked.");
			/** @type {{id?: string}} */
			const answer = await post(path, this.body(payload, policy));
			if (answer.id) {
				this.app.toast("Enqueued");
				this.app.to(taskAddress(answer.id));
				return;
			}
			this.said = "The payload fits.";
		} catch (error) {
			this.refuse(error instanceof Error ? error : new Error(String(error)));
			if (!this.isReadable()) await this.judge(payload, policy);
		}
		this.redraw();
		/** @type {HTMLElement | null} */
		const first = document.querySelector(".wrong input, .wrong textarea");
		for (const folded of document.querySelectorAll("details:has(.wrong)")) folded.setAttribute("open", "");
		first?.focus();
	}

	/** Is nothing told yet of what was typed? */
	isReadable() {
		const isUnread = !this.isText && this.form && !this.form.isReadable();
		return !isUnread && this.errors.length === 0 && this.options.isReadable();
	}

	/** Ask what else is wrong, so that all of it is told at once. @param {string | null} payload @param {Record<string, unknown> | undefined} policy */
	async judge(payload, policy) {
		const asked = [
			[policy && this.body(null, policy), "bad_request"],
			[payload !== null && this.body(payload), "bad_payload"],
		];
		for (const [body, code] of asked) {
			try {
				if (body) await post("tasks/validate", body);
			} catch (error) {
				if (error instanceof Problem && error.code === code) this.mark(error.errors);
			}
		}
	}

	/** Take in what is wrong, each where it is told. @param {Problem | Error | null} refusal */
	refuse(refusal) {
		this.refusal = refusal;
		if (!refusal) {
			this.options.errors = {};
			this.errors = [];
		}
		this.mark(refusal instanceof Problem ? refusal.errors : []);
	}

	/** @param {Api.FieldError[]} errors */
	mark(errors) {
		const isNew = (/** @type {Api.FieldError} */ each) =>
			(this.isText || !this.form?.drafts.has(each.path)) &&
			!this.errors.some((old) => old.path === each.path && old.message === each.message);
		this.errors.push(...this.options.claim(errors).filter(isNew));
		if (this.form) this.form.errors = this.errors;
	}
}

/** @param {Api.Tagged} value */
function isLarge(value) {
	let left = MOST_VALUES;
	let letters = MOST_LETTERS;
	/** @param {Api.Tagged} each @returns {boolean} */
	const fits = (each) => {
		if ((left -= 1) < 0) return false;
		if (typeof each === "string") return (letters -= each.length) >= 0;
		return each === null || typeof each !== "object" || Object.values(each).every(fits);
	};
	return !fits(value);
}

/** Can a form that begins with one value show another? @param {Api.Tagged} value @param {Api.Tagged | undefined} begun */
const isOfKind = (value, begun) =>
	begun === undefined || begun === null
		? true
		: typeof begun === typeof value && Array.isArray(begun) === Array.isArray(value) && value !== null;
