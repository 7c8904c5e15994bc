// The frame around the pages: addresses, navigation, dialogs, messages, bulk jobs.

import { Problem, address, get, messageOf, post } from "./api.js";
import { h, show } from "./dom.js";
import { tick } from "./format.js";
import { Jobs } from "./jobs.js";
import { Keys } from "./keys.js";
import { Live } from "./live.js";
import { pathOf, routeOf } from "./routes.js";
import { shell } from "./shell.js";
import { button, faint, notice, problemNotice } from "./ui.js";

/** @typedef {import("./page.js").Page} Page */

const TOAST_MS = 5000;

export class App {
	/**
	 * @param {HTMLElement} root
	 * @param {Api.Session} session
	 */
	constructor(root, session) {
		this.root = root;
		this.session = session;
		/** @type {Page | null} */
		this.page = null;
		/** @type {Api.Overview | null} */
		this.overview = null;
		this.liveState = { state: "starting", detail: "Connecting" };
		this.isMenuOpen = false;
		this.visit = 0;
		this.jobs = new Jobs(this);
		this.keys = new Keys(this);
		this.toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });
		this.dock = h("div", { class: "dock" });
		this.live = new Live(
			session.live,
			(update) => this.updated(update),
			(state, detail) => this.followed(state, detail),
		);
	}

	async start() {
		document.body.append(this.toasts, this.dock);
		document.addEventListener("click", (event) => this.clicked(event));
		window.addEventListener("popstate", () => void this.open(new URL(location.href)));
		setInterval(() => document.hidden || tick(), 1000);
		await this.open(new URL(location.href));
		this.live.follow();
	}

	/** @param {string} permission */
	may(permission) {
		return this.session.permissions.includes(permission);
	}

	/**
	 * Go to an address below the base.
	 * @param {string} to
	 * @param {{replace?: boolean}} [how]
	 */
	navigate(to, how = {}) {
		const url = new URL(to, document.baseURI);
		if (how.replace) history.replaceState(null, "", url);
		else if (url.href !== location.href) history.pushState(null, "", url);
		return this.open(url);
	}

	/** @param {URL} url */
	async open(url) {
		const visit = ++this.visit;
		const { panel, make } = routeOf(pathOf(url));
		const PageOf = await make();
		if (visit !== this.visit) return;
		this.isMenuOpen = false;
		const before = this.page;
		if (before && before instanceof PageOf && pathOf(before.url) === pathOf(url)) {
			await before.go(url);
			return;
		}
		before?.leave();
		const page = new PageOf(this, url);
		this.page = page;
		this.panel = panel;
		// What comes at once needs no sign that it is coming.
		const waiting = setTimeout(() => page.redraw(), before ? 120 : 0);
		await page.reload();
		clearTimeout(waiting);
		if (before && visit === this.visit) this.arrive();
	}

	/** Tell where one has come to, as loading a page would. */
	arrive() {
		window.scrollTo(0, 0);
		if (document.querySelector("dialog[open]")) return;
		/** @type {HTMLElement | null} */ (this.root.querySelector("h1"))?.focus({
			preventScroll: true,
		});
	}

	/** @param {Page} page */
	redraw(page) {
		if (page !== this.page) return;
		const { title } = this.session;
		document.title = page.title ? `${page.title} · ${title}` : title;
		show(this.root, shell(this, this.contentOf(page)));
	}

	/** Draw the frame again around the page as it is. */
	refresh() {
		if (this.page) this.redraw(this.page);
	}

	/** Does the frame tell of a problem already, which is over by itself? @param {unknown} problem */
	tells(problem) {
		const isPassing = problem instanceof Problem && ["store_unavailable", "offline"].includes(problem.code);
		return isPassing && this.liveState.state === "away";
	}

	/** @param {Page} page @returns {Dom.Child} */
	contentOf(page) {
		const isTold = page.isLoaded && this.tells(page.problem);
		const problem = page.problem && !isTold && problemNotice(page.problem, () => void page.reload());
		if (page.isLoaded || (problem && page.isBare)) return [problem, page.draw()];
		if (problem) return [h("h1", { tabindex: "-1" }, page.title || "Something went wrong"), problem];
		return h(
			"div",
			{ class: "skeleton", "aria-busy": "true" },
			h("h1", { tabindex: "-1" }, page.title || "Loading"),
		);
	}

	/** @param {MouseEvent} event */
	clicked(event) {
		const anchor = event.target instanceof Element ? event.target.closest("a[href]") : null;
		if (!(anchor instanceof HTMLAnchorElement) || anchor.target || event.defaultPrevented) return;
		if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		if (!anchor.href.startsWith(document.baseURI)) return;
		event.preventDefault();
		void this.navigate(anchor.href);
	}

	/** Read what everything shows, now. */
	async reloadOverview() {
		this.overview = await get("overview").catch(() => this.overview);
		this.refresh();
	}

	/** @param {Api.Update} update */
	updated(update) {
		if (update.overview) this.overview = update.overview;
		this.jobs.updated(update.jobs);
		this.page?.updated(update);
		if (update.overview) this.refresh();
	}

	/** @param {string} state @param {string} detail */
	followed(state, detail) {
		if (this.liveState.state === state && this.liveState.detail === detail) return;
		this.liveState = { state, detail };
		this.refresh();
	}

	/** @param {string} text @param {string} [kind] @param {Dom.Child} [action] */
	toast(text, kind = "", action = null) {
		const toast = h("div", { class: `toast ${kind}` }, h("span", null, text), action);
		this.toasts.append(toast);
		setTimeout(() => toast.remove(), kind === "error" ? TOAST_MS * 2 : TOAST_MS);
	}

	/**
	 * Send a mutation, and tell how it went.
	 * @template T
	 * @param {string} path
	 * @param {object} body
	 * @param {string} told
	 * @returns {Promise<T | null>}
	 */
	async send(path, body, told) {
		try {
			/** @type {T} */
			const answer = await post(path, body);
			this.toast(told);
			return answer;
		} catch (error) {
			this.toast(messageOf(error), "error");
			return null;
		} finally {
			if (this.page) void this.page.reload();
		}
	}

	/**
	 * Ask before something is done; what goes wrong is told where it was asked.
	 * @param {{title: string, body: Dom.Child, action: string, kind?: string, icon?: string, run: (dialog: HTMLDialogElement) => Promise<void> | void}} what
	 */
	ask(what) {
		const told = h("div", { role: "status" });
		const dialog = h("dialog", { "aria-label": what.title });
		const confirm = button(what.action, () => void act(), {
			kind: what.kind ?? "primary",
			...(what.icon ? { icon: what.icon } : {}),
		});
		const act = async () => {
			confirm.setAttribute("disabled", "");
			show(told, faint("Waiting for an answer…"));
			try {
				await what.run(dialog);
				dialog.close();
			} catch (error) {
				show(told, notice("error", messageOf(error)));
			} finally {
				confirm.removeAttribute("disabled");
			}
		};
		dialog.append(
			h(
				"form",
				{
					onsubmit: (event) => {
						event.preventDefault();
						void act();
					},
				},
				h("h2", null, what.title),
				h("div", { class: "dialog-body" }, what.body, told),
				h(
					"footer",
					null,
					button("Close", () => dialog.close()),
					confirm,
				),
			),
		);
		this.openDialog(dialog);
		return dialog;
	}

	/** @param {HTMLDialogElement} dialog */
	openDialog(dialog) {
		const before = document.activeElement;
		dialog.addEventListener("close", () => {
			dialog.remove();
			if (before instanceof HTMLElement) before.focus();
		});
		document.body.append(dialog);
		dialog.showModal();
	}

	/** @param {string} path @param {import("./api.js").Query} [query] */
	to(path, query = {}) {
		return void this.navigate(address(path, query));
	}
}
