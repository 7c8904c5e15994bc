import { Page } from "../lib/page.js";
import { pageHead } from "../lib/shell.js";
import { empty, link } from "../lib/ui.js";

export class LostPage extends Page {
	title = "Not found";

	draw() {
		const back = link("./", "Go to the overview", { class: "button" });
		return [
			pageHead(this.title),
			empty("search", "There is no such page", "The address may be mistyped, or from another version.", back),
		];
	}
}
