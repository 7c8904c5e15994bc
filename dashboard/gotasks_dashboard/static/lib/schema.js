// What a JSON schema says about a value: what it may be, and what it begins as.

import { scalarText, tagOf } from "./exact.js";

const DEEPEST = 6;

/**
 * Follow references, and merge what has to fit all at once.
 * @param {Schema | boolean | undefined} schema
 * @param {Schema} root
 * @returns {Schema}
 */
export function resolved(schema, root) {
	let found = typeof schema === "object" ? schema : {};
	for (let depth = 0; depth < 20; depth += 1) {
		if (typeof found.$ref === "string") found = { ...at(root, found.$ref), ...without(found, "$ref") };
		else if (Array.isArray(found.allOf) && found.allOf.length === 1)
			found = { ...found.allOf[0], ...without(found, "allOf") };
		else break;
	}
	return found;
}

/** @param {Schema} root @param {string} reference @returns {Schema} */
function at(root, reference) {
	/** @type {any} */
	let found = root;
	for (const part of reference.replace(/^#\/?/, "").split("/").filter(Boolean)) {
		found = found?.[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")];
	}
	return found ?? {};
}

/** @param {Schema} schema @param {string} name */
const without = (schema, name) => Object.fromEntries(Object.entries(schema).filter(([key]) => key !== name));

/** The alternatives of a union; none for what is no union. @param {Schema} schema @param {Schema} root @returns {Schema[]} */
export function variantsOf(schema, root) {
	const listed = schema.anyOf ?? schema.oneOf;
	if (Array.isArray(listed)) {
		return listed.flatMap((each) => {
			const found = resolved(each, root);
			const inner = variantsOf(found, root);
			return inner.length > 0 ? inner : [{ ...found, label: labelOf(each, root) }];
		});
	}
	if (Array.isArray(schema.type)) return schema.type.map((type) => ({ ...schema, type, label: type }));
	return [];
}

/** @param {Schema} schema @param {Schema} root */
function labelOf(schema, root) {
	const found = resolved(schema, root);
	if (found.const !== undefined) return JSON.stringify(found.const);
	return found.title ?? found.format ?? found.type ?? "any";
}

/** @typedef {"enum" | "const" | "union" | "object" | "map" | "array" | "tuple" | "string" | "integer" | "number" | "boolean" | "null" | "any"} Kind */

/** @param {Schema} schema @param {Schema} root @returns {Kind} */
export function kindOf(schema, root) {
	if (schema.const !== undefined) return "const";
	if (Array.isArray(schema.enum)) return "enum";
	if (variantsOf(schema, root).length > 0) return "union";
	if (schema.type === "object") return schema.properties ? "object" : "map";
	if (schema.type === "array") return Array.isArray(schema.prefixItems) ? "tuple" : "array";
	const isKnown = ["string", "integer", "number", "boolean", "null"].includes(schema.type);
	return isKnown ? schema.type : "any";
}

/**
 * What a value begins as; undefined where somebody has to say it.
 * @param {Schema} schema
 * @param {Schema} root
 * @param {number} [depth]
 * @returns {Api.Tagged | undefined}
 */
export function initial(schema, root, depth = 0) {
	if (schema.default !== undefined) return structuredClone(schema.default);
	switch (kindOf(schema, root)) {
		case "const":
			return schema.const;
		case "enum":
			return schema.enum[0];
		case "union":
			return initial(variantsOf(schema, root)[0] ?? {}, root, depth + 1);
		case "object":
			return depth > DEEPEST ? {} : required(schema, root, depth);
		case "tuple":
			return schema.prefixItems.map(
				(/** @type {Schema} */ each) => initial(resolved(each, root), root, depth + 1) ?? null,
			);
		case "map":
			return {};
		case "array":
			return [];
		case "string":
			return "";
		case "boolean":
			return false;
		case "integer":
		case "number":
			return undefined;
		default:
			return null;
	}
}

/** @param {Schema} schema @param {Schema} root @param {number} depth */
function required(schema, root, depth) {
	/** @type {Record<string, Api.Tagged>} */
	const found = {};
	const needed = new Set(schema.required ?? []);
	for (const name of Object.keys(schema.properties)) {
		// What tells the alternatives of a union apart has to be said, required or not.
		if (!needed.has(name) && schema.properties[name].const === undefined) continue;
		const value = initial(resolved(schema.properties[name], root), root, depth + 1);
		if (value !== undefined) found[name] = value;
	}
	return found;
}

/** Could this value be of this schema? Enough to choose the alternative of a union. @param {Schema} schema @param {Api.Tagged | undefined} value @param {Schema} root @returns {boolean} */
export function looksLike(schema, value, root) {
	const tag = tagOf(value)?.[0];
	switch (kindOf(schema, root)) {
		case "const":
			return JSON.stringify(schema.const) === JSON.stringify(value);
		case "enum":
			return schema.enum.some(
				(/** @type {Api.Tagged} */ each) => JSON.stringify(each) === JSON.stringify(value),
			);
		case "union":
			return variantsOf(schema, root).some((each) => looksLike(each, value, root));
		case "object":
		case "map":
			return (
				isObject(value) &&
				(!tag || tag === "$object") &&
				fitsProperties(schema, /** @type {Record<string, Api.Tagged>} */ (value), root)
			);
		case "array":
		case "tuple":
			return Array.isArray(value);
		case "integer":
			return value === undefined || tag === "$int" || (typeof value === "number" && Number.isInteger(value));
		case "number":
			return value === undefined || tag === "$int" || tag === "$float" || typeof value === "number";
		case "string":
			return (
				typeof value === "string" ||
				tag === "$date" ||
				tag === "$uuid" ||
				tag === "$decimal" ||
				tag === "$bytes" ||
				tag === "$id"
			);
		case "boolean":
			return typeof value === "boolean";
		case "null":
			return value === null;
		default:
			return true;
	}
}

/** @param {Api.Tagged | undefined} value */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** @param {Schema} schema @param {Record<string, Api.Tagged>} value @param {Schema} root */
function fitsProperties(schema, value, root) {
	if (!schema.properties) return true;
	const isKnown = Object.keys(value).every(
		(key) => key in schema.properties || schema.additionalProperties !== false,
	);
	const hasAll = (schema.required ?? []).every(
		(/** @type {string} */ key) =>
			key in value || kindOf(resolved(schema.properties[key], root), root) === "integer",
	);
	const fixed = Object.entries(schema.properties).filter(
		([, each]) => typeof each === "object" && each !== null && "const" in each,
	);
	return (
		isKnown &&
		hasAll &&
		fixed.every(
			([key, each]) =>
				value[key] === undefined ||
				JSON.stringify(/** @type {Schema} */ (each).const) === JSON.stringify(value[key]),
		)
	);
}

/** What is said about a value besides its type. @param {Schema} schema */
export function hintOf(schema) {
	const bounds = [
		["at least", schema.minimum],
		["more than", schema.exclusiveMinimum],
		["at most", schema.maximum],
		["less than", schema.exclusiveMaximum],
		["characters from", schema.minLength],
		["characters up to", schema.maxLength],
		["items from", schema.minItems],
		["items up to", schema.maxItems],
		["like", schema.pattern],
	];
	const told = bounds
		.filter(([, bound]) => bound !== undefined)
		.map(([words, bound]) => `${words} ${scalarText(bound)}`);
	return [schema.description, schema.format, ...told].filter(Boolean).join(" · ");
}
