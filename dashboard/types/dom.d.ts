/** What elements are made of. */
declare namespace Dom {
	/** What an element can contain; nothing at all of `null`, `undefined` and `false`. */
	type Child = Node | string | number | null | undefined | false | Children;
	interface Children extends Array<Child> {}
	type Handler = (event: any) => void;
	type Props = {
		onclick?: Handler;
		oninput?: Handler;
		onchange?: Handler;
		onsubmit?: Handler;
		onkeydown?: Handler;
		onpointermove?: Handler;
		onpointerdown?: Handler;
		[name: string]: any;
	};
}
/** The frame around the pages. */
type App = import("../gotasks_dashboard/static/lib/app.js").App;
/** A column of a table: how its head reads, and what a row shows there. */
type Column<T> = {
	head: string;
	cell: (row: T) => Dom.Child;
	class?: string;
	hideHead?: boolean;
};
type Schema = Api.Schema;
