// Icons, as paths on a grid of 16.

import { svg } from "./dom.js";

const PATHS = {
	overview: "M2 13V8m4 5V3m4 10V6m4 7v-3",
	queues: "M2.500 4h11M2.500 8h11M2.500 12h7",
	tasks: "M2.500 4.500 4 6l2.500-3M9 4.500h4.500M2.500 11 4 12.500l2.500-3M9 11.500h4.500",
	types: "M8 2 2.500 5v6L8 14l5.500-3V5L8 2Zm0 6L2.700 5.100M8 8l5.300-2.900M8 8v5.800",
	dead: "M8 5v3.500M8 11v.2M8 1.800 14.500 13.500h-13L8 1.800Z",
	nodes: "M3 3h10v4H3zM3 9h10v4H3zM5.500 5h.1M5.500 11h.1",
	system: "M2 8h3l1.500-4 3 8L11 8h3",
	audit: "M4 2h6l2.500 2.500V14H4zM6.500 7h4M6.500 10h4",
	jobs: "M8 2a6 6 0 1 1-5.600 3.900M2 2.500v3.600h3.600",
	schedules: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2 1.500",
	limits: "M2.500 12a6 6 0 1 1 11 0M8 10l2.500-4",
	workflows: "M4 3v4a2 2 0 0 0 2 2h4a2 2 0 0 1 2 2v2M4 3h.1M12 13h.1",
	menu: "M2 4h12M2 8h12M2 12h12",
	search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.600-1.400L14 14",
	plus: "M8 3v10M3 8h10",
	pause: "M5.500 3.500v9M10.500 3.500v9",
	play: "M5 3.200v9.600L12.500 8 5 3.200Z",
	close: "M3.500 3.500l9 9M12.500 3.500l-9 9",
	check: "M3 8.500 6.500 12 13 4.500",
	retry: "M13 8a5 5 0 1 1-1.500-3.600M13 2v3h-3",
	trash: "M3 4.500h10M6 4.500V3h4v1.500M4.500 4.500l.5 9h6l.5-9",
	stop: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM3.800 3.800l8.400 8.400",
	copy: "M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3",
	sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
	moon: "M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7Z",
	auto: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 2v12",
	keyboard: "M1.500 4h13v8h-13zM4 6.500h.1M7 6.500h.1M10 6.500h.1M12.500 6.500h.1M4.500 9.500h7",
	chevron: "M6 3.500 10.500 8 6 12.500",
	link: "M6 3H3v10h10v-3M9 3h4v4M13 3 7.500 8.500",
	info: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 7.500V11M8 5.200v.1",
	lock: "M4 7.500h8v6H4zM5.500 7.500V5a2.500 2.500 0 0 1 5 0v2.500",
	flag: "M4 14V2.500M4 3h8l-2 2.500L12 8H4",
};

/** @typedef {keyof typeof PATHS} Icon */

/** @param {string} name */
export function icon(name) {
	const d = PATHS[/** @type {Icon} */ (name)] ?? PATHS.tasks;
	return svg(
		"svg",
		{ class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
		svg("path", { d }),
	);
}
