// Small drawings: a sparkline for a table, a histogram of durations.

import { h, svg } from "./dom.js";
import { integer, plural, span } from "./format.js";

/**
 * @param {number[]} done
 * @param {number[]} failed
 * @param {{width?: number, height?: number, label: string}} how
 */
export function sparkline(done, failed, how) {
	const { width = 96, height = 22 } = how;
	const most = Math.max(1, ...done.map((each, at) => each + (failed[at] ?? 0)));
	const wide = width / Math.max(1, done.length);
	const tall = (/** @type {number} */ value) =>
		value === 0 ? 0 : Math.max(1.5, (value / most) * (height - 1));
	let good = "";
	let bad = "";
	for (const [at, value] of done.entries()) {
		const lost = failed[at] ?? 0;
		const x = (at * wide + 0.4).toFixed(1);
		const broad = (wide - 0.8).toFixed(1);
		const up = tall(value);
		if (value) good += `M${x} ${height}v${(-up).toFixed(1)}h${broad}v${up.toFixed(1)}z`;
		const above = tall(lost);
		if (lost) bad += `M${x} ${(height - up).toFixed(1)}v${(-above).toFixed(1)}h${broad}v${above.toFixed(1)}z`;
	}
	return svg(
		"svg",
		{
			class: "spark",
			viewBox: `0 0 ${width} ${height}`,
			width,
			height,
			role: "img",
			"aria-label": how.label,
			preserveAspectRatio: "none",
		},
		svg("path", { class: "ground", d: `M0 ${height - 0.5}H${width}` }),
		svg("path", { class: "bar done", d: good }),
		svg("path", { class: "bar failed", d: bad }),
	);
}

/** @param {Api.Bucket[]} buckets */
export function histogram(buckets) {
	const total = buckets.reduce((sum, each) => sum + each.count, 0);
	const most = Math.max(1, ...buckets.map((each) => each.count));
	return h(
		"ul",
		{ class: "histogram", "aria-label": `Run times of ${plural(total, "run")}` },
		buckets.map((each, at) => {
			const text = `${span(each.from_seconds)} to ${span(each.to_seconds)}: ${integer(each.count)}`;
			const isTold = at % Math.max(1, Math.ceil(buckets.length / 8)) === 0;
			return h(
				"li",
				{ key: String(each.from_seconds), title: text },
				h("i", {
					style: { height: `${each.count === 0 ? 0 : Math.max(1.5, (each.count / most) * 100)}%` },
				}),
				h("span", { class: "unseen" }, text),
				h("span", { class: "tick", "aria-hidden": "true" }, isTold ? span(each.from_seconds) : ""),
			);
		}),
	);
}
