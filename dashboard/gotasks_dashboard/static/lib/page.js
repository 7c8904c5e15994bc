// What every page is: it loads, draws itself whole, and is told what changed.

import { Problem, isAbort } from "./api.js";

const QUIET_MS = 1500;

/** @typedef {{keys: string, does: string, run: () => void}} Shortcut */

export class Page {
	/**
	 * @param {App} app
	 * @param {URL} url
	 */
	constructor(app, url) {
		this.app = app;
		this.url = url;
		this.title = "";
		/** @type {Problem | Error | null} */
		this.problem = null;
		this.isLoaded = false;
		/** Does it draw something before all of it is there? */
		this.isBare = false;
		this.isLeft = false;
		this.abort = new AbortController();
		this.loadedAt = 0;
		this.timer = 0;
		this.isLoading = false;
	}

	/** @param {string} name */
	param(name) {
		return this.url.searchParams.get(name) ?? "";
	}

	/** Read what is shown. Overridden. */
	async load() {}

	/** Draw all of it. Overridden. @returns {Dom.Child} */
	draw() {
		return null;
	}

	/** Does a change concern what is shown? Overridden. @param {Api.Update} _update */
	concerns(_update) {
		return false;
	}

	/** Shortcuts of this page alone. Overridden. @returns {Shortcut[]} */
	shortcuts() {
		return [];
	}

	/** The same page under another address. @param {URL} url */
	async go(url) {
		this.url = url;
		this.abort.abort();
		this.abort = new AbortController();
		await this.reload();
	}

	async reload() {
		clearTimeout(this.timer);
		this.timer = 0;
		this.isLoading = true;
		const { signal } = this.abort;
		try {
			await this.load();
			this.problem = null;
			this.isLoaded = true;
		} catch (error) {
			if (isAbort(error)) return;
			this.problem = error instanceof Error ? error : new Error(String(error));
		} finally {
			if (!signal.aborted) this.isLoading = false;
		}
		this.loadedAt = Date.now();
		this.redraw();
	}

	/** Load again soon: what comes in bursts is loaded once. */
	touch() {
		if (this.timer || this.isLeft) return;
		const wait = this.isLoading ? QUIET_MS : Math.max(0, this.loadedAt + QUIET_MS - Date.now());
		this.timer = setTimeout(() => void this.reload(), wait);
	}

	redraw() {
		if (!this.isLeft) this.app.redraw(this);
	}

	/** Told of each update. @param {Api.Update} update */
	updated(update) {
		if (this.isGone()) return;
		if (this.problem || this.concerns(update)) this.touch();
	}

	/** What is not there will not come back. */
	isGone() {
		return this.problem instanceof Problem && [404, 409].includes(this.problem.status);
	}

	leave() {
		this.isLeft = true;
		this.abort.abort();
		clearTimeout(this.timer);
	}
}
