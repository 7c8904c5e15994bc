// JSON that loses nothing: what JavaScript would round is kept in tags, as the API writes it.

const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const EXACT = 2 ** 53 - 1;

/**
 * Read JSON that somebody has typed.
 * @param {string} text
 * @returns {Api.Tagged}
 */
export function parseExact(text) {
	JSON.parse(text); // What is wrong is told of what was typed.
	return JSON.parse(
		text.replaceAll(TOKEN, (token) => {
			if (token.startsWith('"')) return token;
			if (/^-?\d+$/.test(token)) return isExact(token) ? token : `{"$int":"${token}"}`;
			if (!Number.isFinite(Number(token))) throw new Beyond(token);
			return Number.isInteger(Number(token)) ? `{"$float":"${token}"}` : token;
		}),
	);
}

/** A number that would be read as an infinite one. */
export class Beyond extends SyntaxError {
	/** @param {string} token */
	constructor(token) {
		super(`${token} is beyond what a number can be`);
	}
}

/** Can JavaScript hold this whole number? @param {string} digits */
export const isExact = (digits) => Math.abs(Number(digits)) <= EXACT && digits !== "-0";

/** @param {string} digits @returns {Api.Tagged} */
export const wholeNumber = (digits) => (isExact(digits) ? Number(digits) : { $int: digits });

/** @param {Api.Tagged} value */
export const written = (value) => JSON.stringify(value, null, 2);

/**
 * Write a large value on few lines, which browsers lay out many times as fast.
 * @param {Api.Tagged} value
 * @param {number} [depth]  How deep values have lines of their own.
 * @returns {string}
 */
export function writtenLarge(value, depth = 2) {
	if (depth === 0 || value === null || typeof value !== "object") return JSON.stringify(value);
	const [lines, ends] = Array.isArray(value)
		? [value.map((each) => writtenLarge(each, depth - 1)), "[]"]
		: [
				Object.entries(value).map(
					([key, each]) => `${JSON.stringify(key)}: ${writtenLarge(each, depth - 1)}`,
				),
				"{}",
			];
	return `${ends[0]}\n${lines.join(",\n")}\n${ends[1]}`;
}

/**
 * The tag of a value and what is tagged; an object that only looks like a tag is none.
 * @param {Api.Tagged | undefined} value
 * @returns {[string, Api.Tagged] | null}
 */
export function tagOf(value) {
	if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
	const keys = Object.keys(value);
	const key = keys[0];
	if (keys.length !== 1 || key === undefined || !key.startsWith("$")) return null;
	return [key, value[key] ?? null];
}

/** The text of a scalar, tagged or not; null for what is none. @param {Api.Tagged | undefined} value */
export function scalarText(value) {
	const tag = tagOf(value);
	if (tag && typeof tag[1] === "string") return tag[1];
	return value !== null && typeof value === "object" ? null : String(value ?? "");
}
