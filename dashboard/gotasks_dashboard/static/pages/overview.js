import { get } from "../lib/api.js";
import { ChartGroup } from "../lib/charts.js";
import { h } from "../lib/dom.js";
import { counted, integer, plural, rate, span } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { MetricCharts } from "../lib/metrics.js";
import { Page } from "../lib/page.js";
import { queueTable, scheduled, waiting } from "../lib/queues.js";
import { pageHead, readOnlyHint } from "../lib/shell.js";
import { sparkline } from "../lib/spark.js";
import { ago, badge, countLink, empty, link, meter, panel, written } from "../lib/ui.js";

export class OverviewPage extends Page {
	title = "Overview";
	/** @type {MetricCharts} */
	charts = new MetricCharts(this, {}, new ChartGroup());

	async load() {
		if (!this.app.overview) this.app.overview = await get("overview", {}, this.abort.signal);
		if (this.app.session.features.metrics) void this.charts.load();
	}

	/** @param {Api.Update} update */
	updated(update) {
		if (!update.overview) return;
		this.isLoaded = true;
		this.problem = null;
		void this.charts.touch();
	}

	leave() {
		super.leave();
		this.charts.leave();
	}

	draw() {
		const overview = this.app.overview;
		if (!overview) return null;
		return [
			pageHead("Overview", {
				actions: this.app.session.features.metrics && this.charts.ranges(),
			}),
			readOnlyHint(this.app),
			overview.queues.length === 0
				? firstSteps()
				: [tiles(overview, this.app), this.charts.draw(), this.queues(overview)],
			healthOf(overview),
		];
	}

	/** @param {Api.Overview} overview */
	queues(overview) {
		return panel("Queues", queueTable(this.app, overview.queues), {
			note: plural(overview.queues.length, "queue"),
			class: "flush",
		});
	}

	shortcuts() {
		return this.charts.shortcuts();
	}
}

const firstSteps = () =>
	empty("queues", "No queue yet", [
		"A queue appears here with its first task, or when a manager that works on it starts: ",
		h("code", null, 'await manager.enqueue("emails", "welcome", {"to": "…"})'),
	]);

/** @param {Api.Overview} overview @param {App} app */
function tiles({ totals, nodes, queues }, app) {
	const oldest = queues.reduce((most, each) => Math.max(most, each.oldest_due_seconds ?? 0), 0);
	const done = sumOf(queues.map((each) => each.spark.done));
	const failed = sumOf(queues.map((each) => each.spark.failed));
	const { oldest_due_warning_seconds: warning, oldest_due_critical_seconds: critical } = app.session;
	const level = oldest >= critical ? "bad" : oldest >= warning ? "warn" : "";
	return h(
		"section",
		{ class: "tiles", "aria-label": "All queues together" },
		tile(
			"Backlog",
			countLink(totals.backlog, waiting()),
			oldest > 0 ? h("span", { class: level }, `oldest ${span(oldest)}`) : "nothing waits",
		),
		tile("Running", countLink(totals.running, written({ status: "running" })), [
			meter(totals.running.value, totals.capacity, `${counted(totals.running)} of ${totals.capacity}`),
			` of ${integer(totals.capacity)}`,
		]),
		tile("Scheduled", countLink(totals.scheduled, scheduled()), "for later"),
		tile(
			"Done per min",
			rate(totals.rates.done),
			sparkline(done, failed, {
				label: "Done and failed in the last half hour",
				width: 120,
				height: 18,
			}),
		),
		tile(
			"Failed per min",
			h("span", { class: totals.rates.failed > 0 ? "warn" : "" }, rate(totals.rates.failed)),
			`${rate(totals.rates.enqueued)} enqueued`,
		),
		tile(
			"Dead",
			h("a", { href: "dead", class: totals.dead.value > 0 ? "bad" : "" }, counted(totals.dead)),
			totals.dead.value > 0 ? `${rate(totals.rates.dead)} per minute` : "all is well",
		),
		tile(
			"Nodes",
			link("nodes", integer(nodes.count)),
			nodes.count === 0
				? h("span", { class: "bad" }, "nobody works")
				: nodes.versions.length > 1
					? `${nodes.versions.length} versions`
					: (nodes.versions[0] ?? ""),
		),
	);
}

/** @param {string} label @param {Dom.Child} value @param {Dom.Child} detail */
const tile = (label, value, detail) =>
	h(
		"div",
		{ class: "tile", key: label },
		h("h2", null, label),
		h("p", { class: "value" }, value),
		h("p", { class: "detail" }, detail),
	);

/** @param {number[][]} rows */
function sumOf(rows) {
	const length = Math.max(0, ...rows.map((each) => each.length));
	return Array.from({ length }, (_, at) => rows.reduce((sum, each) => sum + (each[at] ?? 0), 0));
}

/** @param {Api.Overview} overview */
function healthOf({ health, nodes }) {
	const stream = { following: "good", polling: "warn", idle: "", broken: "bad" }[health.stream.state] ?? "";
	/** @type {[string, string, Dom.Child, Dom.Child][]} */
	const signs = [
		["Change stream", stream, health.stream.state, health.stream.detail],
		[
			"Janitor",
			health.janitor.state === "ok" ? "good" : "bad",
			health.janitor.leader ? h("bdi", null, health.janitor.leader) : "nobody",
			health.janitor.until
				? ["its term ends ", ago(health.janitor.until)]
				: "lapsed leases and dead schedules wait for a manager",
		],
		[
			"Loop lag",
			nodes.max_loop_lag_seconds > 0.5 ? "warn" : "good",
			span(nodes.max_loop_lag_seconds),
			`the most of ${plural(nodes.count, "node")}`,
		],
		[
			"Versions",
			nodes.versions.length > 1 ? "warn" : "",
			nodes.versions.length === 0 ? "–" : nodes.versions.map((each) => badge(each)),
			nodes.versions.length > 1 ? "a deploy under way, or stuck" : "everywhere the same",
		],
	];
	return panel(
		"Health",
		h(
			"ul",
			{ class: "signs" },
			signs.map(([label, level, value, detail]) =>
				h(
					"li",
					{ key: label },
					h("span", { class: `sign ${level}` }, icon(level === "bad" || level === "warn" ? "dead" : "check")),
					h("div", null, h("h3", null, label), h("p", null, value), h("p", { class: "faint" }, detail)),
				),
			),
		),
	);
}
