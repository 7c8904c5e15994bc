// Elements are made by h() and drawn anew as a whole; morph() brings what is on screen in line
// with what was drawn, so that focus, scrolling, selection and what was typed stay. Text becomes
// text nodes: nothing is ever parsed as markup.

/** @typedef {{on: Record<string, (event: any) => void>, style: Record<string, string>, set: Record<string, unknown>}} Record_ */

/** @type {WeakMap<Element, Record_>} */
const records = new WeakMap();
const PROPERTIES = new Set(["value", "checked", "indeterminate", "selected"]);
const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. `onclick` and the like are listeners, `style` is an object (the content
 * security policy allows no style attributes), and `key` tells siblings apart when drawn again.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Dom.Props | null} [props]
 * @param {...Dom.Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
	return fill(document.createElement(tag), props, children);
}

/**
 * Make an element of a drawing.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Dom.Props | null} [props]
 * @param {...Dom.Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, props, ...children) {
	return fill(document.createElementNS(SVG, tag), props, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Dom.Props | null | undefined} props
 * @param {Dom.Child[]} children
 * @returns {E}
 */
function fill(element, props, children) {
	for (const [name, value] of Object.entries(props ?? {})) apply(element, name, value);
	append(element, children);
	return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {any} value
 */
function apply(element, name, value) {
	if (value === null || value === undefined || value === false) {
		if (PROPERTIES.has(name) && value === false) set(element, name, false);
	} else if (name.startsWith("on")) {
		listen(element, name.slice(2), value);
	} else if (name === "style") {
		const style = recordOf(element).style;
		Object.assign(style, value);
		paint(element, style);
	} else if (PROPERTIES.has(name)) {
		set(element, name, value);
	} else if (name === "key") {
		element.setAttribute("data-key", String(value));
	} else {
		element.setAttribute(name, value === true ? "" : String(value));
	}
}

/** @param {Element} element */
function recordOf(element) {
	let record = records.get(element);
	if (!record) records.set(element, (record = { on: {}, style: {}, set: {} }));
	return record;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
function set(element, name, value) {
	recordOf(element).set[name] = value;
	/** @type {any} */ (element)[name] = value;
}

/**
 * @param {Element} element
 * @param {string} type
 * @param {(event: any) => void} handler
 */
function listen(element, type, handler) {
	const { on } = recordOf(element);
	if (!(type in on)) element.addEventListener(type, (event) => recordOf(element).on[type]?.(event));
	on[type] = handler;
}

/**
 * @param {Element} element
 * @param {Record<string, string>} style
 */
function paint(element, style) {
	const target = /** @type {HTMLElement} */ (element).style;
	for (const [name, value] of Object.entries(style)) target.setProperty(name, value);
}

/**
 * @param {Element} parent
 * @param {Dom.Child} child
 */
export function append(parent, child) {
	if (Array.isArray(child)) for (const each of child) append(parent, each);
	else if (child instanceof Node) parent.append(child);
	else if (child !== null && child !== undefined && child !== false) parent.append(String(child));
}

/**
 * Show other children in an element, touching only what differs.
 * @param {Element} parent
 * @param {Dom.Child} children
 */
export function show(parent, children) {
	const next = document.createElement("div");
	append(next, children);
	morphChildren(parent, next);
}

/** What is drawn in the place of elements that keep themselves. @type {WeakMap<Node, Element>} */
const islands = new WeakMap();

/**
 * Say where an element stands that keeps itself: however what is around it is drawn, the same
 * one is shown there, and nothing in it is touched.
 * @param {Element} node
 */
export function island(node) {
	const place = h("div", { "data-island": true, key: keyOf(node) });
	islands.set(place, node);
	return place;
}

/** Put islands where they were drawn, for a part that is new on screen. @param {ChildNode} drawn @returns {ChildNode} */
function landed(drawn) {
	if (!(drawn instanceof Element)) return drawn;
	for (const place of drawn.querySelectorAll("[data-island]")) place.replaceWith(islands.get(place) ?? place);
	return islands.get(drawn) ?? drawn;
}

/** @param {Node} node */
const keyOf = (node) => (node instanceof Element ? node.getAttribute("data-key") : null);

/** What else tells siblings apart, as far as it goes. @param {Node} node */
function kinOf(node) {
	if (!(node instanceof Element)) return node.nodeName;
	return [node.nodeName, node.id, node.classList[0], node.getAttribute("aria-label")].join(" ");
}

/** How many there are of each kin among those without a key. */
class Tally {
	/** @param {Iterable<Node>} nodes */
	constructor(nodes) {
		/** @type {Map<string, number>} */
		this.counts = new Map();
		for (const node of nodes) this.add(node, 1);
	}

	/** @param {Node} node @param {number} by */
	add(node, by) {
		if (keyOf(node) !== null) return;
		const kin = kinOf(node);
		this.counts.set(kin, (this.counts.get(kin) ?? 0) + by);
	}

	/** @param {Node} node */
	has(node) {
		return (this.counts.get(kinOf(node)) ?? 0) > 0;
	}
}

/**
 * @param {ChildNode} old
 * @param {ChildNode} next
 */
function morph(old, next) {
	if (!(old instanceof Element && next instanceof Element)) {
		if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
		return;
	}
	morphAttributes(old, next);
	morphRecord(old, next);
	morphChildren(old, next);
}

/**
 * @param {Element} old
 * @param {Element} next
 */
function morphAttributes(old, next) {
	const isOpener = old.nodeName === "DETAILS" || old.nodeName === "DIALOG";
	for (const { name } of [...old.attributes]) {
		if (name === "style" || (isOpener && name === "open")) continue;
		if (!next.hasAttribute(name)) old.removeAttribute(name);
	}
	for (const { name, value } of next.attributes) {
		if (name === "style" || (isOpener && name === "open")) continue;
		if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	}
}

/**
 * @param {Element} old
 * @param {Element} next
 */
function morphRecord(old, next) {
	const to = records.get(next);
	if (!to && !records.has(old)) return;
	const from = recordOf(old);
	const { on = {}, style = {}, set: values = {} } = to ?? {};
	for (const type of Object.keys(from.on)) if (!(type in on)) from.on[type] = () => {};
	for (const [type, handler] of Object.entries(on)) listen(old, type, handler);
	for (const name of Object.keys(from.style)) {
		if (!(name in style)) /** @type {HTMLElement} */ (old).style.removeProperty(name);
	}
	from.style = { ...style };
	paint(old, style);
	for (const [name, value] of Object.entries(values)) {
		// What somebody is typing is theirs.
		if (name === "value" && old === document.activeElement) continue;
		set(old, name, value);
	}
}

/**
 * Siblings are matched by their keys, else by what they are and their order: what comes or goes
 * before them makes them no others.
 * @param {Element} parent
 * @param {Element} next
 */
function morphChildren(parent, next) {
	const wanted = [...next.childNodes];
	const wantedKeys = new Set(wanted.map(keyOf));
	const coming = new Tally(wanted);
	const there = new Tally(parent.childNodes);
	/** @type {Map<string, ChildNode>} */
	const kept = new Map();
	for (const child of parent.childNodes) {
		const key = keyOf(child);
		if (key !== null) kept.set(key, child);
	}
	let at = /** @type {ChildNode | null} */ (parent.firstChild);
	const pass = () => {
		const passed = /** @type {ChildNode} */ (at);
		at = passed.nextSibling;
		there.add(passed, -1);
		return passed;
	};
	for (const want of wanted) {
		const key = keyOf(want);
		coming.add(want, -1);
		const isGone = (/** @type {ChildNode} */ child) =>
			keyOf(child) !== null
				? !wantedKeys.has(keyOf(child))
				: key === null && kinOf(child) !== kinOf(want) && there.has(want) && !coming.has(child);
		while (at && isGone(at)) pass().remove();
		const have = key === null ? at : kept.get(key);
		const isOther = key === null && have && kinOf(have) !== kinOf(want) && coming.has(have);
		if (!have || keyOf(have) !== key || isOther || !isMorphable(have, want)) {
			parent.insertBefore(landed(want), at);
			continue;
		}
		if (have === at) pass();
		else parent.insertBefore(have, at);
		if (key !== null) kept.delete(key);
		if (have !== islands.get(want)) morph(have, want);
	}
	while (at) pass().remove();
}

/** @param {ChildNode} have @param {ChildNode} want */
function isMorphable(have, want) {
	const island = islands.get(want);
	return island ? have === island : have.nodeName === want.nodeName;
}
