// Charts over time. Each is one control: arrow keys and the pointer choose a moment, whose
// values are read out above; charts of a group show the same moment.

import { h, island, show, svg } from "./dom.js";
import { clockTime, compact, dayTime } from "./format.js";
import { linear, logarithmic, timeTicks } from "./scale.js";

/** @typedef {{name: string, class: string, as?: "bar" | "line" | "area"}} Series */
/** @typedef {{times: number[], values: (number | null)[][], deploys?: {at: string, version: string}[], step: number}} ChartData */
/** @typedef {{label: string, series: Series[], format: (value: number) => string, isLog?: boolean, height?: number, note?: string}} ChartKind */

const MARGIN = { top: 14, right: 6, bottom: 18, left: 46 };

/** Charts that show the same moment. */
export class ChartGroup {
	constructor() {
		/** @type {Chart[]} */
		this.charts = [];
	}

	/** @param {number | null} index @param {boolean} [isKept] */
	choose(index, isKept = false) {
		for (const chart of this.charts) chart.choose(index, isKept);
	}
}

export class Chart {
	/**
	 * @param {ChartKind} kind
	 * @param {ChartGroup} group
	 */
	constructor(kind, group) {
		this.kind = kind;
		this.group = group;
		group.charts.push(this);
		/** @type {ChartData} */
		this.data = { times: [], values: [], step: 60 };
		/** @type {number | null} */
		this.chosen = null;
		this.width = 0;
		this.legend = h("div", { class: "legend" });
		this.plot = h("div", {
			class: "plot",
			tabindex: "0",
			role: "slider",
			"aria-label": `${kind.label} over time`,
			"aria-valuemin": "0",
			"aria-valuenow": "0",
			onkeydown: (event) => this.pressed(event),
			onpointermove: (event) => this.pointed(event),
			onpointerdown: (event) => this.pointed(event),
			onpointerleave: () => group.choose(null),
			onblur: () => group.choose(null),
		});
		this.node = h(
			"figure",
			{ class: "chart", key: kind.label },
			h("figcaption", null, h("h2", null, kind.label), this.legend),
			this.plot,
		);
		new ResizeObserver(() => this.resized()).observe(this.plot);
	}

	/** Where it is drawn. */
	slot() {
		return island(this.node);
	}

	/** @param {ChartData} data */
	update(data) {
		this.data = data;
		if (this.chosen !== null) this.chosen = Math.min(this.chosen, data.times.length - 1);
		this.render();
	}

	resized() {
		const width = Math.round(this.plot.clientWidth);
		if (width === this.width || width === 0) return;
		this.width = width;
		this.render();
	}

	/** @param {number | null} index @param {boolean} isKept */
	choose(index, isKept) {
		if (index === this.chosen && !isKept) return;
		this.chosen = index;
		this.readOut();
		this.plot.querySelector(".cursor")?.replaceWith(this.cursor());
	}

	/** @param {PointerEvent} event */
	pointed(event) {
		const count = this.data.times.length;
		if (count === 0) return;
		const x = event.clientX - this.plot.getBoundingClientRect().left - MARGIN.left;
		const index = Math.floor((x / this.inner().width) * count);
		this.group.choose(Math.max(0, Math.min(count - 1, index)));
	}

	/** @param {KeyboardEvent} event */
	pressed(event) {
		const last = this.data.times.length - 1;
		const at = this.chosen ?? last + 1;
		const steps = /** @type {Record<string, number>} */ ({
			ArrowLeft: at - 1,
			ArrowRight: at + 1,
			ArrowDown: at - 1,
			ArrowUp: at + 1,
			PageUp: at - 10,
			PageDown: at + 10,
			Home: 0,
			End: last,
		});
		const to = steps[event.key];
		if (to === undefined || last < 0) return;
		event.preventDefault();
		this.group.choose(Math.max(0, Math.min(last, to)));
	}

	inner() {
		const height = this.kind.height ?? 132;
		return { width: Math.max(10, this.width - MARGIN.left - MARGIN.right), height };
	}

	/** @param {number} index The middle of a step. */
	x(index) {
		return MARGIN.left + ((index + 0.5) / Math.max(1, this.data.times.length)) * this.inner().width;
	}

	scale() {
		const values = this.kind.series.map((_, at) => this.data.values[at] ?? []);
		if (this.kind.isLog) {
			const all = values
				.flat()
				.map((each) => each ?? 0)
				.filter((each) => each > 0);
			return all.length > 0 ? logarithmic(Math.min(...all), Math.max(...all)) : logarithmic(0.001, 1);
		}
		const bars = this.kind.series.flatMap((each, at) => (each.as === "bar" ? [values[at] ?? []] : []));
		const stacked = this.data.times.map((_, index) =>
			bars.reduce((sum, each) => sum + (each[index] ?? 0), 0),
		);
		const lines = values.flat().map((each) => each ?? 0);
		return linear(Math.max(1, ...stacked, ...lines));
	}

	render() {
		if (this.width === 0) return;
		const { height } = this.inner();
		const scale = this.scale();
		this.y = (/** @type {number} */ value) => MARGIN.top + (1 - Math.min(1, scale.place(value))) * height;
		const full = height + MARGIN.top + MARGIN.bottom;
		show(
			this.plot,
			svg(
				"svg",
				{ width: this.width, height: full, "aria-hidden": "true", focusable: "false" },
				this.grid(scale.ticks),
				this.timeAxis(),
				this.bars(),
				this.kind.series.map((each, at) => each.as !== "bar" && this.line(each, at)),
				this.deploys(),
				this.cursor(),
			),
		);
		this.readOut();
	}

	/** @param {number[]} ticks */
	grid(ticks) {
		return ticks.map((tick) => {
			const y = Math.round(this.y?.(tick) ?? 0) + 0.5;
			return svg(
				"g",
				null,
				svg("line", {
					class: "rule",
					x1: MARGIN.left,
					x2: this.width - MARGIN.right,
					y1: y,
					y2: y,
				}),
				svg("text", { class: "tick", x: MARGIN.left - 7, y: y + 3.5, "text-anchor": "end" }, this.tick(tick)),
			);
		});
	}

	/** @param {number} value */
	tick(value) {
		return this.kind.isLog && value >= 60 ? `${compact(value)} s` : this.kind.format(value);
	}

	timeAxis() {
		const { times, step } = this.data;
		const since = times[0];
		if (since === undefined) return null;
		const until = since + times.length * step * 1000;
		const { width, height } = this.inner();
		const { ticks, isDaily } = timeTicks(since, until, Math.max(2, Math.floor(width / 54)));
		const isLong = until - since > 86_400_000;
		return ticks.map((at) => {
			const x = MARGIN.left + ((at - since) / (until - since)) * width;
			const text = isDaily ? dayTime(at).slice(0, -6) : isLong ? dayTime(at) : clockTime(at);
			if (x < MARGIN.left + 12 || x > this.width - 16) return null;
			return svg("text", { class: "tick", x, y: MARGIN.top + height + 14, "text-anchor": "middle" }, text);
		});
	}

	bars() {
		const count = this.data.times.length;
		const wide = this.inner().width / Math.max(1, count);
		const gap = wide > 4 ? 1.5 : wide > 2 ? 0.5 : 0;
		const below = new Array(count).fill(0);
		const base = this.y?.(0) ?? 0;
		return this.kind.series.map((series, at) => {
			if (series.as !== "bar") return null;
			let d = "";
			for (const [index, value] of (this.data.values[at] ?? []).entries()) {
				if (!value) continue;
				const from = this.y?.(below[index]) ?? base;
				below[index] += value;
				const tall = Math.max(1, from - (this.y?.(below[index]) ?? base));
				const left = this.x(index) - wide / 2 + gap / 2;
				d += `M${left.toFixed(1)} ${from.toFixed(1)}v${(-tall).toFixed(1)}h${(wide - gap).toFixed(1)}v${tall.toFixed(1)}z`;
			}
			return svg("path", { class: `bar ${series.class}`, d });
		});
	}

	/** @param {Series} series @param {number} at */
	line(series, at) {
		const values = this.data.values[at] ?? [];
		const floor = MARGIN.top + this.inner().height;
		let line = "";
		let area = "";
		/** @type {number | null} */
		let start = null;
		const dots = [];
		for (let index = 0; index <= values.length; index += 1) {
			const value = values[index] ?? null;
			if (value === null) {
				if (start !== null) {
					if (start === index - 1)
						dots.push(
							svg("circle", {
								class: `point ${series.class}`,
								cx: this.x(start),
								cy: this.y?.(values[start] ?? 0) ?? 0,
								r: 1.5,
							}),
						);
					area += `L${this.x(index - 1).toFixed(1)} ${floor}z`;
				}
				start = null;
				continue;
			}
			const place = `${this.x(index).toFixed(1)} ${(this.y?.(value) ?? 0).toFixed(1)}`;
			if (start === null) area += `M${this.x(index).toFixed(1)} ${floor}L${place}`;
			else area += `L${place}`;
			line += `${start === null ? "M" : "L"}${place}`;
			start ??= index;
		}
		return svg(
			"g",
			null,
			series.as === "area" && svg("path", { class: `area ${series.class}`, d: area }),
			svg("path", { class: `line ${series.class}`, d: line }),
			dots,
		);
	}

	deploys() {
		const { times, deploys = [], step } = this.data;
		const since = times[0];
		if (since === undefined) return null;
		const until = since + times.length * step * 1000;
		const { width, height } = this.inner();
		return deploys.map(({ at, version }) => {
			const share = (Date.parse(at) - since) / (until - since);
			if (share < 0 || share > 1) return null;
			const x = Math.round(MARGIN.left + share * width) + 0.5;
			const isLate = share > 0.85;
			return svg(
				"g",
				{ class: "deploy" },
				svg("line", { x1: x, x2: x, y1: 2, y2: MARGIN.top + height }),
				svg(
					"text",
					{ x: isLate ? x - 4 : x + 4, y: 9, "text-anchor": isLate ? "end" : "start" },
					version.length > 14 ? `${version.slice(0, 13)}…` : version,
				),
				svg("title", null, `${version} first seen ${dayTime(at)}`),
			);
		});
	}

	cursor() {
		const at = this.chosen;
		if (at === null || this.width === 0) return svg("g", { class: "cursor" });
		const x = Math.round(this.x(at)) + 0.5;
		const { height } = this.inner();
		const dots = this.kind.series.map((series, index) => {
			const value = this.data.values[index]?.[at];
			if (series.as === "bar" || value === null || value === undefined) return null;
			return svg("circle", {
				class: `point ${series.class}`,
				cx: x,
				cy: this.y?.(value) ?? 0,
				r: 3,
			});
		});
		return svg(
			"g",
			{ class: "cursor" },
			svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + height }),
			dots,
		);
	}

	/** Tell the values of the chosen moment, else the last ones or the sums. */
	readOut() {
		const { times, values, step } = this.data;
		const at = this.chosen;
		const time = at === null ? null : times[at];
		const shown = this.kind.series.map((series, index) => {
			const all = values[index] ?? [];
			const value =
				at === null ? (series.as === "bar" || !this.kind.isLog ? null : lastOf(all)) : (all[at] ?? null);
			const text = value === null ? (at === null ? "" : "–") : this.kind.format(value);
			return { series, text };
		});
		show(this.legend, [
			time !== null &&
				time !== undefined &&
				h("span", { class: "moment" }, step >= 3600 ? dayTime(time) : clockTime(time)),
			shown.map(({ series, text }) =>
				h(
					"span",
					{ class: "key", key: series.name },
					h("i", { class: `swatch ${series.class} ${series.as ?? "line"}` }),
					series.name,
					text && h("b", null, text),
				),
			),
		]);
		this.plot.setAttribute("aria-valuemax", String(Math.max(0, times.length - 1)));
		this.plot.setAttribute("aria-valuenow", String(at ?? Math.max(0, times.length - 1)));
		const told = shown.filter((each) => each.text).map((each) => `${each.series.name} ${each.text}`);
		this.plot.setAttribute(
			"aria-valuetext",
			`${time ? `${dayTime(time)}: ` : "latest: "}${told.join(", ") || "use the arrow keys"}`,
		);
	}
}

/** @param {(number | null)[]} values */
function lastOf(values) {
	return values.findLast((each) => each !== null) ?? null;
}
