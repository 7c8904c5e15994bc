// Staying up to date: server-sent events while the tab is seen, polling where there are none.

import { Problem, get } from "./api.js";

/** @typedef {"live" | "polling" | "paused" | "away" | "stopped" | "starting"} LiveState */

const EVERYTHING = { everything: true, queues: [], ids: [], nodes: true };
const MISSES = 3;
const SILENT_MS = 5000;

export class Live {
	/**
	 * @param {{sse: boolean, poll_seconds: number}} settings
	 * @param {(update: Api.Update) => void} onUpdate
	 * @param {(state: LiveState, detail: string) => void} onState
	 */
	constructor(settings, onUpdate, onState) {
		this.settings = settings;
		this.onUpdate = onUpdate;
		this.onState = onState;
		/** @type {EventSource | null} */
		this.source = null;
		this.timer = 0;
		this.misses = 0;
		this.hasSse = settings.sse && "EventSource" in window;
		document.addEventListener("visibilitychange", () => this.follow());
		// A page that goes into the back-forward cache must not keep its connection.
		window.addEventListener("pagehide", () => this.close());
		window.addEventListener("pageshow", (event) => event.persisted && this.follow());
	}

	/** Listen while the tab is seen, else rest. */
	follow() {
		this.close();
		if (document.hidden) this.onState("paused", "Paused while this tab is hidden");
		else if (this.hasSse) this.listen();
		else void this.poll();
	}

	close() {
		this.source?.close();
		this.source = null;
		clearTimeout(this.timer);
	}

	listen() {
		const source = new EventSource("api/events");
		this.source = source;
		this.expect();
		source.addEventListener("update", (event) => {
			clearTimeout(this.timer);
			this.misses = 0;
			this.onState("live", "Live: changes appear by themselves");
			this.onUpdate(JSON.parse(event.data));
		});
		source.addEventListener("problem", (event) => {
			clearTimeout(this.timer);
			this.onState("away", JSON.parse(event.data).detail ?? "The database is away");
		});
		source.addEventListener("error", () => {
			this.misses += 1;
			const isRefused = source.readyState === EventSource.CLOSED;
			if (!isRefused && this.misses < MISSES) {
				this.onState("away", "The connection is lost; trying again");
				this.expect();
				return;
			}
			this.giveUp();
		});
	}

	/** A proxy may keep what is sent to itself, and never say so. */
	expect() {
		clearTimeout(this.timer);
		this.timer = setTimeout(() => this.giveUp(), SILENT_MS);
	}

	/** Poll where events are not to be had. */
	giveUp() {
		this.close();
		this.hasSse = false;
		void this.poll();
	}

	async poll() {
		clearTimeout(this.timer);
		let wait = this.settings.poll_seconds;
		try {
			/** @type {Api.Overview} */
			const overview = await get("overview");
			if (document.hidden || this.source) return;
			this.misses = 0;
			this.onState("polling", `Asks again every ${wait} seconds: the event stream is not to be had`);
			this.onUpdate({ at: overview.at, changed: EVERYTHING, overview, jobs: [] });
		} catch (error) {
			if (error instanceof Problem && (error.status === 403 || error.status === 401)) {
				this.onState("stopped", "You may not see this any more; load the page again to sign in");
				return;
			}
			this.misses += 1;
			wait = Math.min(30, wait * 2 ** Math.min(this.misses, 4));
			this.onState("away", error instanceof Error ? error.message : String(error));
		}
		if (!document.hidden) this.timer = setTimeout(() => this.again(), wait * 1000);
	}

	/** Poll on, and try once a minute whether events can be had again. */
	again() {
		const isTime = this.settings.sse && Date.now() - (this.tried ?? Date.now()) > 60_000;
		this.tried ??= Date.now();
		if (!isTime) return void this.poll();
		this.tried = Date.now();
		this.misses = MISSES - 1;
		this.hasSse = true;
		return this.follow();
	}
}
