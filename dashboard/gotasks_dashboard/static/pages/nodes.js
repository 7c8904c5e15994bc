import { get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { bytes, integer, plural, span } from "../lib/format.js";
import { Page } from "../lib/page.js";
import { queueAddress } from "../lib/queues.js";
import { pageHead } from "../lib/shell.js";
import { address } from "../lib/api.js";
import { ago, badge, button, empty, faint, link, meter, name, notice, table } from "../lib/ui.js";

const SLOW_LOOP = 0.5;

export class NodesPage extends Page {
	title = "Nodes";
	/** @type {Api.Node[]} */
	nodes = [];

	async load() {
		const answer = /** @type {{nodes: Api.Node[]}} */ (await get("nodes", {}, this.abort.signal));
		this.nodes = answer.nodes;
	}

	/** @param {Api.Update} update */
	concerns({ changed }) {
		return changed.everything || changed.nodes || Date.now() - this.loadedAt > 5000;
	}

	draw() {
		const queue = this.param("queue");
		const nodes = queue ? this.nodes.filter((each) => typesOn(each, queue)) : this.nodes;
		const versions = new Set(this.nodes.map((each) => each.version));
		const hint = [
			"Start a worker: ",
			h("code", null, "gotasks worker app:manager"),
			". It appears here with its first heartbeat.",
		];
		return [
			pageHead("Nodes", {
				note: plural(nodes.length, "manager"),
				actions: queue && ["of ", name(queue), link("nodes", "Show all", { class: "button small" })],
			}),
			versions.size > 1 &&
				notice("warning", [
					"Several versions are at work: ",
					[...versions].map((each) => badge(each || "unnamed")),
					". A deploy is under way, or stuck.",
				]),
			nodes.length > 0
				? h("div", { class: "panel flush" }, this.list(nodes))
				: empty("nodes", "No manager runs", hint),
		];
	}

	/** @param {Api.Node[]} nodes */
	list(nodes) {
		/** @type {Column<Api.Node>[]} */
		const columns = [
			{
				head: "Manager",
				class: "lead",
				cell: (each) => [name(each.id), " ", orderMark(each.order)],
			},
			{ head: "Host", cell: (each) => [name(each.host), faint(` : ${each.pid}`)] },
			{ head: "Version", cell: (each) => (each.version ? badge(each.version) : faint("–")) },
			{
				head: "Queues",
				cell: (each) =>
					h(
						"span",
						{ class: "tags" },
						each.queues.map((queue) =>
							link(queueAddress(queue), badge(name(queue)), {
								key: queue,
								title: typesOn(each, queue),
							}),
						),
					),
			},
			{
				head: "Running",
				class: "running",
				cell: (each) => [
					link(address("tasks", { q: each.query }), integer(each.running), { class: "number" }),
					meter(each.running, each.capacity, `${each.running} of ${each.capacity}`),
					faint(`/ ${each.capacity}`),
				],
			},
			{
				head: "Loop lag",
				class: "number",
				cell: (each) =>
					h("span", { class: each.loop_lag_seconds > SLOW_LOOP ? "warn" : "" }, span(each.loop_lag_seconds)),
			},
			{ head: "Memory", class: "number", cell: (each) => bytes(each.rss_bytes) },
			{ head: "Heartbeat", class: "number", cell: (each) => ago(each.beat_at) },
			{ head: "Started", class: "number", cell: (each) => ago(each.started_at) },
		];
		if (this.app.may("control_nodes") && this.app.session.features.control)
			columns.push({ head: "Orders", class: "orders", cell: (each) => this.orders(each) });
		return table("Nodes", columns, nodes, (each) => each.id);
	}

	/** @param {Api.Node} node */
	orders(node) {
		const send = (/** @type {string} */ order, /** @type {string} */ told) =>
			void this.app.send(`nodes/${order}`, { node: node.id }, told);
		if (node.order)
			return button("Wake", () => send("wake", "It claims again"), { kind: "small", icon: "play" });
		const drain = () =>
			this.app.ask({
				title: `Drain ${node.id}?`,
				body: h(
					"p",
					null,
					"It claims no more, ends what it runs, and then stops. Something else has to start it again.",
				),
				action: "Drain",
				kind: "danger",
				run: () => send("drain", "It ends what it runs, and stops"),
			});
		return h(
			"span",
			{ class: "actions" },
			button("Quiet", () => send("quiet", "It claims no more"), {
				kind: "small",
				icon: "pause",
				title: "Claim no more tasks",
			}),
			button("Drain", drain, { kind: "small", title: "End what runs, then stop" }),
		);
	}
}

/** @param {string | null} order */
function orderMark(order) {
	if (order === "quiet") return badge("quiet", "warn", "It claims no tasks");
	return order === "drain" ? badge("drains", "warn", "It ends what it runs, then stops") : null;
}

/** @param {Api.Node} node @param {string} queue */
const typesOn = (node, queue) => node.types.find((each) => each.queue === queue)?.types.join(", ") ?? "";
