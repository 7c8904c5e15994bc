// The table of queues.

import { address } from "./api.js";
import { h } from "./dom.js";
import { counted, rate, span } from "./format.js";
import { icon } from "./icons.js";
import { sparkline } from "./spark.js";
import { ago, badge, countLink, faint, link, meter, name, table, written } from "./ui.js";

/** @param {string} queue */
export const queueAddress = (queue) => address("queues", { queue });

/** The search for what is due, on one queue or on all. @param {string} [queue] */
export const waiting = (queue) => written({ ...of(queue), status: "pending", before: "now" });

/** The search for what is to run later. @param {string} [queue] */
export const scheduled = (queue) => written({ ...of(queue), status: "pending", after: "now" });

/** @param {string | undefined} queue @returns {Record<string, string>} */
const of = (queue) => (queue === undefined ? {} : { queue });

/** @param {App} app @param {number | null} seconds */
export function age(app, seconds) {
	if (seconds === null) return faint("–");
	const { oldest_due_warning_seconds: warning, oldest_due_critical_seconds: critical } = app.session;
	const level = seconds >= critical ? "bad" : seconds >= warning ? "warn" : "";
	const told = { bad: "critical", warn: "late", "": "" }[level];
	return h(
		"span",
		{ class: `age ${level}` },
		told && icon("dead"),
		span(seconds),
		told && h("span", { class: "unseen" }, ` (${told})`),
	);
}

/** @param {Api.Queue} queue */
export function pauseMark(queue) {
	const { pause } = queue;
	if (!pause) return null;
	return badge(
		[icon("pause"), "paused", pause.until && [", resumes ", ago(pause.until)]],
		"warn",
		pause.by ? `by ${pause.by}` : undefined,
	);
}

/** What should be none at all. @param {number} value @param {"warn" | "bad"} level */
export const perMinute = (value, level) => (value ? h("span", { class: level }, rate(value)) : faint("0"));

/** What became of a queue's tasks, minute by minute. @param {Api.Queue} queue */
export const queueSpark = ({ name: queue, spark }) =>
	sparkline(spark.done, spark.failed, { label: `Done and failed of ${queue} in the last half hour` });

/**
 * @param {App} app
 * @param {Api.Queue[]} queues
 * @param {string} [chosen]
 */
export function queueTable(app, queues, chosen = "") {
	/** @type {Column<Api.Queue>[]} */
	const columns = [
		{
			head: "Queue",
			class: "lead",
			cell: (each) => [
				link(queueAddress(each.name), name(each.name)),
				" ",
				pauseMark(each),
				each.nodes === 0 && badge("no node", "bad", "No manager works on this queue"),
			],
		},
		{ head: "Oldest due", class: "number", cell: (each) => age(app, each.oldest_due_seconds) },
		{
			head: "Backlog",
			class: "number",
			cell: (each) => countLink(each.backlog, waiting(each.name)),
		},
		{
			head: "Scheduled",
			class: "number",
			cell: (each) => countLink(each.scheduled, scheduled(each.name)),
		},
		{
			head: "Running",
			class: "running",
			cell: (each) => [
				countLink(each.counts.running, written({ queue: each.name, status: "running" })),
				meter(
					each.counts.running.value,
					each.capacity,
					`${counted(each.counts.running)} of ${each.capacity}`,
				),
				faint(`/ ${each.capacity}`),
			],
		},
		{ head: "Done/min", class: "number", cell: (each) => rate(each.rates.done) },
		{ head: "Failed/min", class: "number", cell: (each) => perMinute(each.rates.failed, "warn") },
		{ head: "Dead/min", class: "number", cell: (each) => perMinute(each.rates.dead, "bad") },
		{
			head: "Dead",
			class: "number",
			cell: (each) =>
				h(
					"span",
					{ class: each.counts.dead.value ? "bad" : "" },
					countLink(each.counts.dead, written({ queue: each.name, status: "dead" })),
				),
		},
		{
			head: "30 min",
			class: "chart-cell",
			cell: queueSpark,
		},
	];
	return table("Queues", columns, queues, (each) => each.name, {
		row: (each) => ({ class: each.name === chosen ? "chosen" : "" }),
	});
}
