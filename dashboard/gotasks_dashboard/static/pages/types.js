import { address, get } from "../lib/api.js";
import { ChartGroup } from "../lib/charts.js";
import { h } from "../lib/dom.js";
import { compact, counted, integer, percent, plural, span } from "../lib/format.js";
import { groupList } from "../lib/groups.js";
import { MetricCharts, RANGES } from "../lib/metrics.js";
import { Page } from "../lib/page.js";
import { queueAddress } from "../lib/queues.js";
import { pageHead } from "../lib/shell.js";
import { histogram } from "../lib/spark.js";
import { badge, empty, facts, faint, link, name, panel, searchAddress, segmented, table } from "../lib/ui.js";

export class TypesPage extends Page {
	title = "Types";
	range = this.param("range") || "1h";
	/** @type {Api.TypeRow[]} */
	rows = [];
	/** @type {Api.TypeDetail | null} */
	detail = null;
	/** @type {MetricCharts | null} */
	charts = null;

	async load() {
		const { signal } = this.abort;
		const [queue, type] = [this.param("queue"), this.param("type")];
		if (!queue || !type) {
			this.detail = null;
			this.charts?.leave();
			this.charts = null;
			this.title = "Types";
			const answer = /** @type {{types: Api.TypeRow[]}} */ (
				await get("types", { range: this.range }, signal)
			);
			this.rows = answer.types;
			return;
		}
		const isSame = this.detail?.queue === queue && this.detail.type === type;
		const { summary, ...found } = await get("types/detail", { queue, type, range: this.range }, signal);
		this.detail = { ...summary, ...found };
		this.title = type;
		if (isSame || !this.app.session.features.metrics) return;
		this.charts = new MetricCharts(this, { queue, type }, new ChartGroup());
		this.charts.range = this.range;
		void this.charts.load();
	}

	/** @param {Api.Update} update */
	concerns({ changed }) {
		if (Date.now() - this.loadedAt < 5000) return false;
		const queue = this.param("queue");
		return changed.everything || (queue ? changed.queues.includes(queue) : changed.queues.length > 0);
	}

	leave() {
		super.leave();
		this.charts?.leave();
	}

	/** @param {string} range */
	choose(range) {
		this.range = range;
		this.charts?.choose(range);
		void this.reload();
	}

	ranges() {
		return segmented("Range", RANGES, this.range, (range) => this.choose(range));
	}

	draw() {
		return this.detail ? this.one(this.detail) : this.all();
	}

	all() {
		const hint = "A type appears here when a manager has a handler for it, or a task of it has run.";
		return [
			pageHead("Types", { note: plural(this.rows.length, "type"), actions: this.ranges() }),
			this.rows.length > 0
				? h("div", { class: "panel flush" }, this.list())
				: empty("types", "No type yet", hint),
		];
	}

	list() {
		/** @type {Column<Api.TypeRow>[]} */
		const columns = [
			{
				head: "Type",
				class: "lead",
				cell: (each) => [
					link(address("types", { queue: each.queue, type: each.type }), name(each.type)),
					" ",
					each.nodes === 0 && badge("no handler", "warn", "No manager that runs has a handler for it"),
				],
			},
			{ head: "Queue", cell: (each) => link(queueAddress(each.queue), name(each.queue)) },
			{ head: "Enqueued", class: "number", cell: (each) => compact(each.enqueued) },
			{ head: "Done", class: "number", cell: (each) => compact(each.done) },
			{ head: "Failed", class: "number", cell: (each) => compact(each.failed) },
			{ head: "Failure rate", class: "number", cell: (each) => failureRate(each.failure_rate) },
			{
				head: "Dead",
				class: "number",
				cell: (each) => (each.dead ? h("span", { class: "bad" }, compact(each.dead)) : faint("0")),
			},
			{ head: "Run p50", class: "number", cell: (each) => span(each.run?.p50) },
			{ head: "p95", class: "number", cell: (each) => span(each.run?.p95) },
			{ head: "p99", class: "number", cell: (each) => span(each.run?.p99) },
			{ head: "Wait p95", class: "number", cell: (each) => span(each.wait?.p95) },
		];
		return table("Types", columns, this.rows, (each) => JSON.stringify([each.queue, each.type]));
	}

	/** @param {Api.TypeDetail} detail */
	one(detail) {
		const crumbs = [link("types", "Types"), " / ", link(queueAddress(detail.queue), name(detail.queue))];
		const add =
			this.app.may("enqueue") &&
			link(address("new", { queue: detail.queue, type: detail.type }), "New task", {
				class: "button",
			});
		const actions = [
			link(searchAddress({ queue: detail.queue, type: detail.type }), "Tasks", { class: "button" }),
			add,
			this.ranges(),
		];
		return [
			pageHead(name(detail.type), { crumbs, actions }),
			...(isUnheardOf(detail)
				? [unheardOf()]
				: [
						this.charts?.draw(),
						h("div", { class: "halves" }, runTimes(detail), panel("In this time", numbers(detail))),
						this.failures(detail),
					]),
			detail.schema &&
				panel(
					"Payload's schema",
					h("pre", { tabindex: "0", "aria-label": "JSON schema" }, JSON.stringify(detail.schema, null, 2)),
				),
		];
	}

	/** @param {Api.TypeDetail} detail */
	failures(detail) {
		if (detail.failures.length + detail.others.value > 0)
			return panel("Failures", [groupList(this.app, detail.failures), others(detail)], { class: "flush" });
		return panel(
			"Failures",
			empty(
				"check",
				"Nothing is dead",
				"Tasks of this type that are out of attempts appear here, grouped by their cause.",
			),
		);
	}
}

/** Has nobody a handler for it, and has nothing of it happened? @param {Api.TypeDetail} detail */
const isUnheardOf = ({ nodes, schema, enqueued, done, failed, failures, others: { value } }) =>
	nodes + enqueued + done + failed + failures.length + value === 0 && !schema;

const unheardOf = () =>
	empty("types", "Nothing is known of this type", [
		"No manager that runs has a handler for it, and nothing of it has happened in this time. ",
		"Choose a longer time above, or look at its tasks.",
	]);

/** The dead letters of causes that are too rare to be listed. @param {Api.TypeDetail} detail */
const others = ({ queue, type, others: count }) =>
	(count.value > 0 || !count.is_exact) &&
	h(
		"p",
		{ class: "note-line" },
		count.value > 0 ? `${counted(count)} more are dead of other causes. ` : "There may be more. ",
		link(searchAddress({ queue, type, status: "dead" }), "See all that are dead"),
	);

/** @param {number | null} rate */
function failureRate(rate) {
	if (!rate) return faint(percent(rate));
	return h("span", { class: rate >= 0.5 ? "bad" : "warn" }, percent(rate));
}

/** @param {Api.TypeDetail} detail */
function runTimes(detail) {
	const count = detail.histogram.reduce((sum, each) => sum + each.count, 0);
	if (count === 0) return panel("Run times", empty("types", "Nothing ran", "Choose a longer time above."));
	return panel("Run times", histogram(detail.histogram), { note: plural(count, "run") });
}

/** @param {Api.TypeDetail} detail */
const numbers = (detail) =>
	facts([
		["Enqueued", integer(detail.enqueued)],
		["Done", integer(detail.done)],
		["Failed", [integer(detail.failed), " ", failureRate(detail.failure_rate)]],
		["Dead", integer(detail.dead)],
		["Run time", quantiles(detail.run)],
		["Wait", quantiles(detail.wait)],
		["Nodes", integer(detail.nodes)],
	]);

/** @param {Api.Latency | null} latency */
const quantiles = (latency) =>
	latency
		? `p50 ${span(latency.p50)} · p95 ${span(latency.p95)} · p99 ${span(latency.p99)}${latency.mean === undefined ? "" : ` · mean ${span(latency.mean)}`}`
		: "–";
