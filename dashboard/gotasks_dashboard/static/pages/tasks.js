import { Problem, address, get, isAbort, messageOf } from "../lib/api.js";
import { h, show } from "../lib/dom.js";
import { counted, plural, tasksOf } from "../lib/format.js";
import { Page } from "../lib/page.js";
import { shortId, taskTable } from "../lib/rows.js";
import { SearchBox, markedQuery, qualifierOf, withQualifier } from "../lib/search.js";
import { pageHead } from "../lib/shell.js";
import {
	button,
	empty,
	faint,
	iconButton,
	link,
	name,
	segmented,
	statusMark,
	taskAddress,
} from "../lib/ui.js";

/** @type {[string, string][]} */
const STATUSES = [
	["", "All"],
	["pending", "Pending"],
	["running", "Running"],
	["done", "Done"],
	["dead", "Dead"],
	["cancelled", "Cancelled"],
];
const ACTIONS = /** @type {[string, string, string][]} */ ([
	["requeue", "Requeue", "retry"],
	["cancel", "Cancel", "stop"],
	["delete", "Delete", "trash"],
]);
/** Through how many pages it is looked further at once. */
const MOST_LOOKS = 20;

export class TasksPage extends Page {
	title = "Tasks";
	isBare = true;
	box = new SearchBox((query) => this.search(query));
	/** @type {Api.Row[]} */
	rows = [];
	/** @type {string | null} */
	next = null;
	/** @type {Api.Count | null} */
	count = null;
	/** What is selected, on this page and on others. @type {Map<string, Api.Row>} */
	selected = new Map();
	/** The search that has found the rows. */
	found = "";
	isAllMatching = false;
	lastChosen = -1;
	cursor = -1;
	isLooking = false;

	get query() {
		return this.param("q");
	}

	/** @param {URL} url */
	async go(url) {
		const isOther = url.searchParams.get("q") !== this.url.searchParams.get("q");
		if (isOther) this.unselect();
		this.cursor = -1;
		if (isOther) this.count = null;
		this.isLooking = false;
		await super.go(url);
	}

	async load() {
		const { signal } = this.abort;
		this.box.put(this.query);
		const [sort, cursor] = [this.param("sort"), this.param("cursor")];
		/** @type {Api.TaskList} */
		const list = await get("tasks", { q: this.query, sort, cursor }, signal).catch((error) => {
			if (!isAbort(error) && this.found !== this.query) this.forget();
			throw error;
		});
		this.found = this.query;
		this.rows = list.tasks;
		this.next = list.cursor;
		this.cursor = Math.min(this.cursor, this.rows.length - 1);
		void this.recount(signal);
	}

	/** Look on where nothing was found yet, for as long as somebody may want to wait. */
	async lookFurther() {
		const { query, abort } = this;
		const sort = this.param("sort");
		this.isLooking = true;
		this.redraw();
		try {
			for (let looks = 0; looks < MOST_LOOKS && this.next; looks += 1) {
				const cursor = this.next;
				/** @type {Api.TaskList} */
				const list = await get("tasks", { q: query, sort, cursor }, abort.signal);
				if (list.tasks.length > 0 || !list.cursor)
					return void this.app.to("tasks", { q: query, sort, cursor });
				this.next = list.cursor;
			}
			if (this.next) this.app.to("tasks", { q: query, sort, cursor: this.next });
		} catch (error) {
			if (!isAbort(error)) this.app.toast(messageOf(error), "error");
		} finally {
			this.isLooking = false;
			this.redraw();
		}
	}

	/** The rows do not wait for their count. @param {AbortSignal} signal */
	async recount(signal) {
		try {
			this.count = await get("tasks/count", { q: this.query }, signal);
			// A list that has ended knows what could not be counted.
			const isWhole = this.next === null && this.param("cursor") === "";
			if (isWhole && !this.count?.is_exact) this.count = { value: this.rows.length, is_exact: true };
		} catch (error) {
			if (isAbort(error)) return;
			this.count = null;
		}
		this.redraw();
	}

	/** @param {Api.Update} update */
	concerns({ changed }) {
		if (changed.everything) return true;
		const queue = qualifierOf(this.query, "queue");
		return queue ? changed.queues.includes(queue) : changed.queues.length > 0 || changed.ids.length > 0;
	}

	/** @param {string} query */
	search(query) {
		this.app.to("tasks", { q: query, sort: this.param("sort") });
	}

	/** What another search has found cannot be acted on under this one. */
	forget() {
		this.rows = [];
		this.next = null;
		this.unselect();
	}

	unselect() {
		this.selected.clear();
		this.isAllMatching = false;
		this.lastChosen = -1;
	}

	/** @param {string} id @param {boolean} on @param {boolean} isRange */
	choose(id, on, isRange) {
		const at = this.rows.findIndex((each) => each.id === id);
		const from = isRange && this.lastChosen >= 0 ? Math.min(this.lastChosen, at) : at;
		const to = isRange && this.lastChosen >= 0 ? Math.max(this.lastChosen, at) : at;
		for (const row of this.rows.slice(from, to + 1)) {
			if (on) this.selected.set(row.id, row);
			else this.selected.delete(row.id);
		}
		this.isAllMatching = false;
		this.lastChosen = at;
		this.redraw();
	}

	/** @param {boolean} on */
	choosePage(on) {
		for (const row of this.rows) {
			if (on) this.selected.set(row.id, row);
			else this.selected.delete(row.id);
		}
		this.isAllMatching = false;
		this.lastChosen = -1;
		this.redraw();
	}

	clear() {
		this.unselect();
		this.redraw();
	}

	/** What is selected and not to be seen here. */
	elsewhere() {
		const here = new Set(this.rows.map((each) => each.id));
		return [...this.selected.values()].filter((each) => !here.has(each.id));
	}

	showElsewhere() {
		const list = h("ul", { class: "picked" });
		const draw = () =>
			show(
				list,
				this.elsewhere().map((row) =>
					h(
						"li",
						{ key: row.id },
						statusMark(row.status),
						link(taskAddress(row.id), [name(row.type), " ", h("code", null, shortId(row.id))], {
							onclick: () => dialog.close(),
						}),
						iconButton(`Unselect ${row.type} ${shortId(row.id)}`, "close", () => {
							this.selected.delete(row.id);
							draw();
							this.redraw();
						}),
					),
				),
			);
		const dialog = this.app.ask({
			title: "Selected on other pages",
			body: [h("p", { class: "hint" }, "As they were when they were selected."), list],
			action: "Unselect all of these",
			kind: "",
			run: () => {
				for (const row of this.elsewhere()) this.selected.delete(row.id);
				this.redraw();
			},
		});
		draw();
	}

	actions() {
		return ACTIONS.filter(([action]) => this.app.may(action));
	}

	draw() {
		const add = this.app.may("enqueue") && link("new", "New task", { class: "button" });
		const status = qualifierOf(this.query, "status");
		return [
			pageHead("Tasks", { note: this.count && tasksOf(this.count), actions: add }),
			this.box.slot(),
			h(
				"div",
				{ class: "toolbar", key: "toolbar" },
				segmented("Status", STATUSES, status, (value) =>
					this.search(withQualifier(this.query, "status", value)),
				),
				this.sorter(),
			),
			this.misunderstood(),
			this.bulkBar(),
			this.rows.length > 0 ? this.list() : this.problem ? null : this.nothing(),
			this.pager(),
		];
	}

	sorter() {
		const sort = this.param("sort") || "newest";
		return segmented(
			"Order",
			[
				["newest", "Newest first"],
				["oldest", "Oldest first"],
			],
			sort,
			(value) => this.app.to("tasks", { q: this.query, sort: value === "newest" ? "" : value }),
		);
	}

	misunderstood() {
		const { problem } = this;
		return problem instanceof Problem && problem.code === "bad_query"
			? h("p", { class: "misread" }, markedQuery(this.query, problem.errors[0]))
			: null;
	}

	list() {
		const canChoose = this.actions().length > 0;
		return taskTable(this.rows, {
			isChosen: (id) => this.isAllMatching || this.selected.has(id),
			choose: canChoose ? (id, on, isRange) => this.choose(id, on, isRange) : null,
			cursor: this.cursor,
		});
	}

	bulkBar() {
		const actions = this.actions();
		const chosen = this.selected.size;
		const isActive = chosen > 0 || this.isAllMatching;
		const mayBeMore = this.next !== null && !this.isSettled();
		if (actions.length === 0 || !(this.rows.length > 0 || isActive || mayBeMore)) return null;
		const hasAll = this.rows.length > 0 && this.rows.every((each) => this.selected.has(each.id));
		const isPage = this.isAllMatching || hasAll;
		const elsewhere = this.isAllMatching ? 0 : this.elsewhere().length;
		const all = h("input", {
			type: "checkbox",
			id: "select-page",
			checked: isPage,
			indeterminate: chosen > 0 && !isPage,
			onclick: () => this.choosePage(!isPage),
		});
		const hasMore = this.next !== null || this.param("cursor") !== "";
		return h(
			"div",
			{
				class: `bulk ${isActive ? "active" : ""}`,
				key: "bulk",
				role: "group",
				"aria-label": "Bulk actions",
			},
			this.rows.length > 0 && h("label", { class: "check", for: "select-page" }, all, "Select page"),
			isActive &&
				h(
					"strong",
					{ role: "status" },
					this.isAllMatching ? `All ${this.counted()}matching` : `${chosen} selected`,
				),
			elsewhere > 0 &&
				button(
					elsewhere === chosen ? "all on other pages" : `${elsewhere} on other pages`,
					() => this.showElsewhere(),
					{ kind: "plain", title: "Show what is selected on other pages", key: "elsewhere" },
				),
			(chosen > 0 || this.rows.length === 0) &&
				hasMore &&
				!this.isAllMatching &&
				button(`Select all ${this.counted()}matching`, () => this.chooseAll(), { kind: "plain" }),
			isActive &&
				actions.map(([action, label, mark]) =>
					button(label, () => this.act(action), {
						icon: mark,
						kind: action === "delete" ? "danger-plain" : "",
						key: action,
					}),
				),
			isActive && button("Clear", () => this.clear(), { kind: "plain" }),
		);
	}

	/** Is it known that nothing matches? */
	isSettled() {
		return this.count !== null && this.count.is_exact && this.count.value === 0;
	}

	/** How many match, as far as that is worth telling. */
	counted() {
		return this.count && this.count.value > 0 ? `${counted(this.count)} ` : "";
	}

	chooseAll() {
		this.isAllMatching = true;
		this.redraw();
	}

	/** @param {string} action */
	act(action) {
		const done = () => {
			this.unselect();
			this.redraw();
		};
		if (!this.isAllMatching)
			return void this.app.jobs.ask({ action, ids: [...this.selected.keys()] }, { done });
		const order = { action, query: this.query, ...(this.query === "" ? { everything: true } : {}) };
		return void this.app.jobs.ask(order, { done });
	}

	nothing() {
		if (this.next !== null)
			return empty(
				"search",
				"None found yet",
				"Such a search is looked for task by task, and none of those looked through so far fits. " +
					"There are more.",
				button(this.isLooking ? "Looking…" : "Look further", () => void this.lookFurther(), {
					icon: "search",
					kind: "primary",
					disabled: this.isLooking,
					key: "look",
				}),
			);
		if (this.param("cursor"))
			return empty(
				"tasks",
				"No more tasks",
				"This is the end of the list.",
				link(address("tasks", { q: this.query }), "Back to the beginning", { class: "button" }),
			);
		if (this.query)
			return empty(
				"search",
				"No task fits",
				"Take a qualifier away, or look at another status.",
				button("Clear the search", () => this.box.clear()),
			);
		return empty(
			"tasks",
			"No task yet",
			"Tasks appear here as soon as they are enqueued.",
			this.app.may("enqueue") && link("new", "New task", { class: "button primary" }),
		);
	}

	pager() {
		const cursor = this.param("cursor");
		if (!cursor && !this.next)
			return (
				this.rows.length > 0 &&
				h("p", { class: "pager faint", key: "pager" }, `${plural(this.rows.length, "task")}, and that is all`)
			);
		const start = address("tasks", { q: this.query, sort: this.param("sort") });
		const more =
			this.next && address("tasks", { q: this.query, sort: this.param("sort"), cursor: this.next });
		return h(
			"nav",
			{ class: "pager", "aria-label": "Pages", key: "pager" },
			cursor
				? [link(start, "First page", { class: "button" }), button("Back", () => history.back())]
				: faint("First page"),
			more ? link(more, "Next page", { class: "button", rel: "next" }) : faint("The end"),
		);
	}

	/** @param {number} to */
	move(to) {
		this.cursor = Math.max(0, Math.min(this.rows.length - 1, to));
		this.redraw();
		const row = document.querySelector("tr.cursor");
		row?.scrollIntoView({ block: "nearest" });
		/** @type {HTMLElement | null | undefined} */ (row?.querySelector("a"))?.focus({
			preventScroll: true,
		});
	}

	shortcuts() {
		const row = () => this.rows[this.cursor];
		const open = () => {
			const chosen = row();
			if (chosen) this.app.to(taskAddress(chosen.id));
		};
		const flip = () => {
			const chosen = row();
			if (chosen && this.actions().length > 0) this.choose(chosen.id, !this.selected.has(chosen.id), false);
		};
		const following = this.next;
		return [
			{ keys: "j", does: "Next task", run: () => this.move(this.cursor + 1) },
			{ keys: "k", does: "Previous task", run: () => this.move(this.cursor - 1) },
			{ keys: "o", does: "Open the task", run: open },
			{ keys: "x", does: "Select the task, or not", run: flip },
			...this.actions().map(([action, label]) => ({
				keys: { requeue: "R", cancel: "C", delete: "D" }[action] ?? "",
				does: `${label} the selected tasks`,
				run: () => (this.selected.size > 0 || this.isAllMatching ? this.act(action) : undefined),
			})),
			...(following
				? [
						{
							keys: "]",
							does: "Next page",
							run: () =>
								this.app.to("tasks", {
									q: this.query,
									sort: this.param("sort"),
									cursor: following,
								}),
						},
					]
				: []),
			{ keys: "[", does: "Back", run: () => history.back() },
		];
	}
}
