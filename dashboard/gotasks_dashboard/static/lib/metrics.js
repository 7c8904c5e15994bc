// The charts of what was done and how long it took, of everything, a queue or a type.

import { get, isAbort, messageOf } from "./api.js";
import { Chart } from "./charts.js";
import { h } from "./dom.js";
import { compact, span } from "./format.js";
import { notice, segmented } from "./ui.js";

/** @typedef {{queue?: string, type?: string}} About */

/** @type {[string, string][]} */
export const RANGES = [
	["1h", "1 h"],
	["6h", "6 h"],
	["24h", "24 h"],
	["7d", "7 d"],
];
const AGAIN_MS = /** @type {Record<string, number>} */ ({
	"1h": 10_000,
	"6h": 30_000,
	"24h": 60_000,
	"7d": 120_000,
});
const PROBLEM_MS = 2_000;

export class MetricCharts {
	/**
	 * @param {import("./page.js").Page} page
	 * @param {About} about
	 * @param {import("./charts.js").ChartGroup} group
	 */
	constructor(page, about, group) {
		this.page = page;
		this.about = about;
		this.range = page.param("range") || "1h";
		/** @type {Error | null} */
		this.problem = null;
		this.loadedAt = 0;
		this.isEmpty = false;
		this.throughput = new Chart(
			{
				label: "Throughput",
				format: compact,
				series: [
					{ name: "done", class: "done", as: "bar" },
					{ name: "failed", class: "failed", as: "bar" },
					{ name: "dead", class: "dead", as: "bar" },
					{ name: "enqueued", class: "enqueued", as: "line" },
				],
			},
			group,
		);
		const quantiles = /** @type {import("./charts.js").Series[]} */ ([
			{ name: "p50", class: "p50", as: "area" },
			{ name: "p95", class: "p95", as: "line" },
			{ name: "p99", class: "p99", as: "line" },
		]);
		this.wait = new Chart({ label: "Wait", format: span, isLog: true, series: quantiles }, group);
		this.run = new Chart({ label: "Run time", format: span, isLog: true, series: quantiles }, group);
		this.timer = 0;
	}

	async load() {
		const range = this.range;
		this.loadedAt = Date.now();
		try {
			/** @type {Api.Metrics} */
			const metrics = await get("metrics", { range, ...this.about }, this.page.abort.signal);
			if (range !== this.range) return;
			this.problem = null;
			this.put(metrics);
			if (!metrics.is_complete) this.timer = setTimeout(() => void this.load(), 2000);
		} catch (error) {
			if (isAbort(error)) return;
			this.problem = error instanceof Error ? error : new Error(String(error));
		}
		this.page.redraw();
	}

	/** Load again once that may show more. */
	async touch() {
		const wait = this.problem ? PROBLEM_MS : (AGAIN_MS[this.range] ?? 10_000);
		if (Date.now() - this.loadedAt >= wait) await this.load();
	}

	leave() {
		clearTimeout(this.timer);
	}

	/** @param {Api.Metrics} metrics */
	put({ points, deploys, step_seconds: step }) {
		const times = points.map((each) => Date.parse(each.at));
		const of = (/** @type {(point: Api.Point) => number | null} */ read) => points.map(read);
		const common = { times, deploys, step };
		this.throughput.update({
			...common,
			values: [of((p) => p.done), of((p) => p.failed), of((p) => p.dead), of((p) => p.enqueued)],
		});
		for (const [chart, name] of /** @type {[Chart, "wait" | "run"][]} */ ([
			[this.wait, "wait"],
			[this.run, "run"],
		])) {
			chart.update({
				...common,
				values: [
					of((p) => p[name]?.p50 ?? null),
					of((p) => p[name]?.p95 ?? null),
					of((p) => p[name]?.p99 ?? null),
				],
			});
		}
	}

	ranges() {
		return segmented("Range", RANGES, this.range, (range) => this.choose(range));
	}

	/** @param {string} range */
	choose(range) {
		this.range = range;
		const url = new URL(location.href);
		url.searchParams.set("range", range);
		history.replaceState(null, "", url);
		this.page.redraw();
		void this.load();
	}

	draw() {
		if (!this.page.app.session.features.metrics) return null;
		return [
			this.problem && !this.page.app.tells(this.problem) && notice("warning", messageOf(this.problem)),
			h("div", { class: "charts" }, this.throughput.slot(), this.wait.slot(), this.run.slot()),
		];
	}

	shortcuts() {
		return RANGES.map(([range, label], at) => ({
			keys: String(at + 1),
			does: `Show the last ${label}`,
			run: () => this.choose(range),
		}));
	}
}
