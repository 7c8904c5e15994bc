// From values to places on a chart.

/** @typedef {{place: (value: number) => number, ticks: number[]}} Scale  Places are 0 (bottom) to 1. */

/** @param {number} most @returns {Scale} */
export function linear(most) {
	const step = niceStep(Math.max(most, 1e-9) / 3);
	const top = Math.max(step, Math.ceil(most / step - 1e-9) * step);
	const count = Math.round(top / step);
	return {
		place: (value) => value / top,
		ticks: Array.from({ length: count + 1 }, (_, index) => index * step),
	};
}

/** @param {number} rough */
function niceStep(rough) {
	const unit = 10 ** Math.floor(Math.log10(rough));
	const factor = [1, 2, 5, 10].find((each) => each * unit >= rough) ?? 10;
	return factor * unit;
}

/**
 * By orders of magnitude: a median and its outliers are both to be read.
 * @param {number} least
 * @param {number} most
 * @returns {Scale}
 */
export function logarithmic(least, most) {
	const low = Math.floor(Math.log10(Math.max(least, 1e-6)));
	const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(most, 1e-6)) - 1e-9));
	const every = Math.ceil((high - low) / 4);
	const ticks = [];
	for (let power = low; power <= high; power += every) ticks.push(10 ** power);
	return {
		place: (value) => Math.max(0, (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)),
		ticks,
	};
}

/**
 * Round moments within a time, at most so many.
 * @param {number} since
 * @param {number} until
 * @param {number} most
 */
export function timeTicks(since, until, most) {
	const minutes = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880];
	const found = minutes.find((each) => (until - since) / (each * 60_000) <= most) ?? 2880;
	const step = found * 60_000;
	const zone = new Date(since).getTimezoneOffset() * 60_000;
	const ticks = [];
	for (let at = Math.ceil((since - zone) / step) * step + zone; at <= until; at += step) ticks.push(at);
	return { ticks, isDaily: found >= 1440 };
}
