// Where the page begins.

import { get, messageOf, setCsrf } from "./lib/api.js";
import { App } from "./lib/app.js";
import { h, show } from "./lib/dom.js";
import { setClock } from "./lib/format.js";
import { button } from "./lib/ui.js";

const root = /** @type {HTMLElement} */ (document.getElementById("app"));

async function begin() {
	try {
		/** @type {Api.Session} */
		const session = await get("session");
		setClock(session.now);
		setCsrf(session.csrf);
		await new App(root, session).start();
	} catch (error) {
		show(
			root,
			h(
				"main",
				{ class: "alone" },
				h("h1", null, "The dashboard cannot be shown"),
				h("p", { role: "alert" }, messageOf(error)),
				button("Try again", () => location.reload(), { icon: "retry", kind: "primary" }),
			),
		);
	}
}

void begin();
