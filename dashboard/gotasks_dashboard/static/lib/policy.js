// The policy of a queue, which is edited while the queue works.

import { Problem, messageOf, post } from "./api.js";
import { h } from "./dom.js";
import { span } from "./format.js";
import { badge, button, facts, faint, field, notice, panel } from "./ui.js";

/** @typedef {"weight" | "workers" | "timeout_seconds" | "ttl_seconds" | "max_attempts" | "lanes"} Name */

/** @type {{name: Name, label: string, hint: string, isWhole: boolean, least: number}[]} */
const FIELDS = [
	{
		name: "weight",
		label: "Weight",
		hint: "its share of a manager that also works on other queues",
		isWhole: true,
		least: 1,
	},
	{
		name: "workers",
		label: "Workers",
		hint: "the most tasks at once on each manager",
		isWhole: true,
		least: 1,
	},
	{
		name: "max_attempts",
		label: "Attempts",
		hint: "of tasks enqueued from now on",
		isWhole: true,
		least: 1,
	},
	{
		name: "timeout_seconds",
		label: "Time limit (s)",
		hint: "of one attempt",
		isWhole: false,
		least: 0.001,
	},
	{
		name: "ttl_seconds",
		label: "Kept for (s)",
		hint: "from when a task is to run, whatever becomes of it; 0: for ever",
		isWhole: false,
		least: 0,
	},
	{
		name: "lanes",
		label: "Lanes",
		hint: "into how many parts new tasks without a key are divided",
		isWhole: true,
		least: 1,
	},
];

export class PolicyForm {
	/**
	 * @param {App} app
	 * @param {string} queue
	 * @param {() => void} redraw
	 */
	constructor(app, queue, redraw) {
		this.app = app;
		this.queue = queue;
		this.redraw = redraw;
		/** What was typed; what was not is as the queue has it. @type {Partial<Record<Name, string>>} */
		this.typed = {};
		this.problem = "";
		/** What the server refused. @type {Partial<Record<Name, string>>} */
		this.refused = {};
	}

	/** @param {Api.Queue} queue */
	draw(queue) {
		const { policy, changed } = queue;
		const isChanged = changed.length > 0;
		const canEdit = this.app.may("edit_queues") && this.app.session.features.control;
		return panel("Policy", canEdit ? this.form(queue) : plain(policy), {
			note: isChanged
				? badge("changed here", "warn", `Changed from what is declared: ${changed.join(", ")}`)
				: "as declared",
			actions:
				canEdit &&
				isChanged &&
				button("Back to what is declared", () => void this.reset(), { kind: "small" }),
		});
	}

	/** @param {Api.Queue} queue */
	form({ policy, changed, managed }) {
		const fields = FIELDS.map((each) => {
			const id = `policy-${each.name}`;
			const value = this.typed[each.name] ?? String(policy[each.name] ?? "");
			const input = h("input", {
				id,
				type: "text",
				inputmode: each.isWhole ? "numeric" : "decimal",
				autocomplete: "off",
				value,
				oninput: (event) => this.type(each.name, /** @type {HTMLInputElement} */ (event.target).value),
			});
			const isSpan = each.name.endsWith("_seconds") && Number(value) >= 60;
			const hint = [
				changed.includes(each.name) && badge("changed", "warn"),
				" ",
				isSpan && `${span(Number(value))} `,
				each.hint,
				differing(each.name, managed),
			];
			return h(
				"div",
				{ key: each.name },
				field(each.label, input, { id, hint, error: this.wrong(each.name, value, policy) }),
			);
		});
		const count = Object.keys(this.changes(policy)).length;
		const isWrong = FIELDS.some((each) => this.wrong(each.name, this.typed[each.name] ?? "1", policy));
		return h(
			"form",
			{
				class: "form",
				onsubmit: (event) => {
					event.preventDefault();
					if (count > 0 && !isWrong) void this.save(policy);
				},
			},
			this.problem && notice("error", this.problem),
			h("div", { class: "form-row" }, fields),
			h(
				"div",
				{ class: "actions" },
				h("button", { type: "submit", class: "button primary", disabled: count === 0 || isWrong }, "Save"),
				count > 0 && button("Undo", () => this.undo(), { kind: "plain" }),
				faint("Managers follow within seconds."),
			),
		);
	}

	/** @param {Name} name @param {string} text */
	type(name, text) {
		this.typed[name] = text;
		delete this.refused[name];
		this.redraw();
	}

	undo() {
		this.typed = {};
		this.problem = "";
		this.refused = {};
		this.redraw();
	}

	/** @param {Name} name @param {string} text @param {Api.Policy} policy */
	wrong(name, text, policy) {
		const rule = FIELDS.find((each) => each.name === name);
		if (!rule || this.typed[name] === undefined) return null;
		if (text.trim() === "") return (policy[name] ?? null) === null ? null : "a number is needed";
		const refused = this.refused[name];
		if (refused) return refused;
		const value = Number(text);
		if (!Number.isFinite(value) || value < rule.least) return `a number from ${rule.least}`;
		return rule.isWhole && !Number.isInteger(value) ? "a whole number" : null;
	}

	/** @param {Api.Policy} policy */
	changes(policy) {
		/** @type {Partial<Record<Name, number>>} */
		const found = {};
		for (const [key, text] of Object.entries(this.typed)) {
			const name = /** @type {Name} */ (key);
			const value = text.trim() === "" ? null : Number(text);
			if (value !== null && value !== policy[name]) found[name] = value;
		}
		return found;
	}

	/** @param {Api.Policy} policy */
	async save(policy) {
		await this.post("queues/policy", { queue: this.queue, changes: this.changes(policy) }, "Saved");
	}

	async reset() {
		await this.post("queues/policy/reset", { queue: this.queue }, "As declared again");
	}

	/** What was typed stays where it was refused. @param {string} path @param {object} body @param {string} told */
	async post(path, body, told) {
		try {
			await post(path, body);
			this.typed = {};
			this.problem = "";
			this.app.toast(told);
		} catch (error) {
			this.refuse(error);
		}
		await this.app.reloadOverview();
	}

	/** @param {unknown} error */
	refuse(error) {
		const errors = error instanceof Problem ? error.errors : [];
		for (const { path, message } of errors) {
			const rule = FIELDS.find((each) => path === `changes.${each.name}`);
			if (rule) this.refused[rule.name] = message;
		}
		this.problem = errors.length > 0 ? "Some of it does not fit: see what is marked." : messageOf(error);
	}
}

/** Managers that were not told otherwise follow what each of them declares. @param {Name} name @param {Api.Queue["managed"]} managed */
function differing(name, managed) {
	const values = { weight: managed.weights, workers: managed.workers }[/** @type {string} */ (name)];
	return values && values.length > 1 ? `; managers differ: ${values.join(", ")}` : null;
}

/** @param {Api.Policy} policy */
const plain = (policy) =>
	facts([
		["Weight", String(policy.weight)],
		["Workers", policy.workers === null ? faint("no limit") : String(policy.workers)],
		["Attempts", String(policy.max_attempts ?? "–")],
		["Time limit", policy.timeout_seconds === null ? faint("none") : span(policy.timeout_seconds)],
		["Kept for", policy.ttl_seconds === null ? faint("ever") : span(policy.ttl_seconds)],
		["Lanes", String(policy.lanes)],
	]);
