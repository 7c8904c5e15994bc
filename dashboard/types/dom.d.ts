/** What an element can contain; nothing at all of `null`, `undefined` and `false`. */
declare namespace Dom {
	type Child = Node | string | number | null | undefined | false | Children;
	interface Children extends Array<Child> {}
}
