// How values are written. Times are told by the server's clock, in the reader's time zone.

import { h } from "./dom.js";

const numbers = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
let offset = 0;

/** @param {string} serverNow */
export function setClock(serverNow) {
	offset = Date.parse(serverNow) - Date.now();
}

/** The server's time, in milliseconds. */
export const now = () => Date.now() + offset;

/** @param {number} value */
export const integer = (value) => numbers.format(value);

/** @param {Api.Count | null | undefined} count */
export function counted(count) {
	if (!count) return "–";
	return `${numbers.format(count.value)}${count.is_exact ? "" : "+"}`;
}

/**
 * @param {number} count
 * @param {string} noun
 * @param {string} [nouns]
 */
export const plural = (count, noun, nouns = `${noun}s`) =>
	`${numbers.format(count)} ${count === 1 ? noun : nouns}`;

/** @param {Api.Count} count */
export function tasksOf(count) {
	if (count.is_exact) return plural(count.value, "task");
	return count.value > 0 ? `${counted(count)} tasks` : "an unknown number of tasks";
}

/** A rate, short enough for a table. @param {number} value */
export function rate(value) {
	if (value === 0) return "0";
	if (value < 10) return String(Math.round(value * 10) / 10);
	return value < 10_000 ? numbers.format(Math.round(value)) : short.format(value);
}

/** @param {number} value */
export const compact = (value) =>
	value < 10_000 ? numbers.format(Math.round(value * 10) / 10) : short.format(value);

/**
 * A length of time.
 * @param {number | null | undefined} seconds
 * @returns {string}
 */
export function span(seconds) {
	if (seconds === null || seconds === undefined) return "–";
	if (seconds < 0) return `-${span(-seconds)}`;
	if (seconds === 0) return "0 s";
	if (seconds < 0.001) return `${trimmed(seconds * 1e6)} µs`;
	if (seconds < 1) return `${trimmed(seconds * 1000)} ms`;
	if (seconds < 60) return `${trimmed(seconds)} s`;
	return spanOfUnits(Math.floor(seconds));
}

/** @param {number} seconds */
function spanOfUnits(seconds) {
	const units = /** @type {const} */ ([
		[86_400, "d"],
		[3_600, "h"],
		[60, "m"],
		[1, "s"],
	]);
	const first = units.findIndex(([size]) => seconds >= size);
	const [size, name] = units[first] ?? units[3];
	const next = units[first + 1];
	const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
	return `${Math.floor(seconds / size)}${name}${next && rest ? ` ${rest}${next[1]}` : ""}`;
}

/** @param {number} value */
const trimmed = (value) => String(value < 10 ? Math.round(value * 10) / 10 : Math.round(value));

/** @param {number | null | undefined} value */
export function bytes(value) {
	if (value === null || value === undefined) return "–";
	let amount = value;
	for (const unit of ["B", "kB", "MB", "GB"]) {
		if (amount < 1000) return `${trimmed(amount)} ${unit}`;
		amount /= 1000;
	}
	return `${trimmed(amount)} TB`;
}

/** @param {number | null | undefined} value */
export const percent = (value) => (value === null || value === undefined ? "–" : `${trimmed(value * 100)} %`);

const full = new Intl.DateTimeFormat("en-GB", {
	dateStyle: "medium",
	timeStyle: "long",
});
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const precise = new Intl.DateTimeFormat("en-GB", {
	hour: "2-digit",
	minute: "2-digit",
	second: "2-digit",
	fractionalSecondDigits: 3,
});

/** @param {string | number} at */
export const clockTime = (at) => clock.format(new Date(at));

/** @param {string | number} at */
export const dayTime = (at) => `${day.format(new Date(at))} ${clockTime(at)}`;

/** A time of a timeline, to the millisecond; another day is named. @param {string} at */
export function preciseTime(at) {
	const date = new Date(at);
	const isToday = date.toDateString() === new Date(now()).toDateString();
	return `${isToday ? "" : `${day.format(date)} `}${precise.format(date)}`;
}

/** @param {string} at */
function relative(at) {
	const seconds = Math.round((Date.parse(at) - now()) / 1000);
	if (Math.abs(seconds) < 1) return "now";
	return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

/**
 * A time as its distance from now, which goes on; the time itself is its title.
 * @param {string | null | undefined} at
 */
export function ago(at) {
	if (!at) return h("span", { class: "faint" }, "–");
	const title = `${full.format(new Date(at))} · ${at}`;
	return h("time", { datetime: at, title, "data-ago": true }, relative(at));
}

/** Let all times on screen go on. */
export function tick() {
	for (const element of document.querySelectorAll("time[data-ago]")) {
		const text = relative(/** @type {HTMLTimeElement} */ (element).dateTime);
		if (element.textContent !== text) element.textContent = text;
	}
}

/**
 * A time for a `datetime-local` field: 16 characters tell the minute, 19 the second.
 * @param {Date} date
 * @param {16 | 19} [length]
 */
export function localInput(date, length = 16) {
	const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
	return local.toISOString().slice(0, length);
}
