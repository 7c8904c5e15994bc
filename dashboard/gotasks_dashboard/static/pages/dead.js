import { address, get } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { counted } from "../lib/format.js";
import { groupList } from "../lib/groups.js";
import { Page } from "../lib/page.js";
import { pageHead } from "../lib/shell.js";
import { empty, link, segmented } from "../lib/ui.js";

export class DeadPage extends Page {
	title = "Dead letters";
	/** @type {Api.Group[]} */
	groups = [];
	/** @type {string | null} */
	next = null;

	async load() {
		const { signal } = this.abort;
		const answer = /** @type {{groups: Api.Group[], cursor: string | null}} */ (
			await get("dead", { queue: this.param("queue"), cursor: this.param("cursor") }, signal)
		);
		this.groups = answer.groups;
		this.next = answer.cursor;
	}

	/** @param {Api.Update} update */
	concerns({ changed }) {
		return changed.everything || changed.queues.length > 0;
	}

	draw() {
		const queue = this.param("queue");
		const total = this.app.overview?.totals.dead;
		return [
			pageHead("Dead letters", { note: total && `${counted(total)} in all, by cause` }),
			this.filter(queue),
			this.groups.length > 0
				? h("div", { class: "panel flush" }, groupList(this.app, this.groups))
				: this.nothing(queue),
			this.next &&
				h(
					"nav",
					{ class: "pager", "aria-label": "Pages" },
					h("span"),
					link(address("dead", { queue, cursor: this.next }), "More", { class: "button" }),
				),
		];
	}

	/** @param {string} queue */
	filter(queue) {
		const dead = (this.app.overview?.queues ?? []).filter(
			(each) => each.counts.dead.value > 0 || each.name === queue,
		);
		if (dead.length < 2 && !queue) return null;
		const choices = /** @type {[string, string][]} */ ([
			["", "All queues"],
			...dead.map((each) => [each.name, `${each.name} ${counted(each.counts.dead)}`]),
		]);
		return h(
			"div",
			null,
			segmented("Queue", choices, queue, (value) => this.app.to("dead", { queue: value })),
		);
	}

	/** @param {string} queue */
	nothing(queue) {
		return empty(
			"check",
			queue ? "Nothing is dead on this queue" : "Nothing is dead",
			"Tasks that are out of attempts come here, grouped by what they died of. Requeue a group once its cause is gone.",
		);
	}
}
