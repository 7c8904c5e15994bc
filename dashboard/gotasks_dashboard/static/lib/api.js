// The JSON API. Addresses are relative to the page's base, so that any mount prefix works.

/** @type {Api.Session["csrf"]} */
let csrf = null;

/** @param {Api.Session["csrf"]} names */
export function setCsrf(names) {
	csrf = names;
}

/** What went wrong, as the server has told it. */
export class Problem extends Error {
	/**
	 * @param {number} status
	 * @param {string} code
	 * @param {string} detail
	 * @param {{errors?: Api.FieldError[], existing_id?: string, permission?: string}} [more]
	 */
	constructor(status, code, detail, more = {}) {
		super(detail);
		this.status = status;
		this.code = code;
		this.errors = more.errors ?? [];
		this.existingId = more.existing_id ?? null;
	}
}

/** @typedef {Record<string, string | number | null | undefined>} Query */

/**
 * An address below the base, such as `tasks?q=status%3Adead`.
 * @param {string} path
 * @param {Query} [query]
 */
export function address(path, query = {}) {
	const search = new URLSearchParams();
	for (const [name, value] of Object.entries(query)) {
		if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
	}
	const text = search.toString();
	return text ? `${path}?${text}` : path;
}

/**
 * @template T
 * @param {string} path
 * @param {Query} [query]
 * @param {AbortSignal} [signal]
 * @param {(text: string) => any} [parse]
 * @returns {Promise<T>}
 */
export function get(path, query = {}, signal = undefined, parse = JSON.parse) {
	return send(`api/${address(path, query)}`, { signal: signal ?? null }, parse);
}

/**
 * @template T
 * @param {string} path
 * @param {object | string} body  JSON text is sent as it stands, whatever numbers it holds.
 * @returns {Promise<T>}
 */
export function post(path, body = {}) {
	/** @type {Record<string, string>} */
	const headers = { "Content-Type": "application/json", "X-Gotasks": "1" };
	const token = csrf && cookie(csrf.cookie);
	if (csrf && token) headers[csrf.header] = token;
	const text = typeof body === "string" ? body : JSON.stringify(body);
	return send(`api/${path}`, { method: "POST", headers, body: text });
}

/**
 * @template T
 * @param {string} url
 * @param {RequestInit} init
 * @param {(text: string) => any} [parse]
 * @returns {Promise<T>}
 */
async function send(url, init, parse = JSON.parse) {
	let response;
	try {
		response = await fetch(url, { credentials: "same-origin", ...init });
	} catch (error) {
		if (error instanceof DOMException && error.name === "AbortError") throw error;
		throw new Problem(0, "offline", "The server cannot be reached. It is asked again by itself.");
	}
	const body = await response
		.text()
		.then(parse)
		.catch(() => null);
	if (response.ok && body !== null) return body;
	const detail = body?.detail ?? `The server answered ${response.status} without saying why.`;
	throw new Problem(response.status, body?.code ?? "unknown", detail, body ?? {});
}

/** @param {string} name */
function cookie(name) {
	for (const each of document.cookie.split("; ")) {
		const at = each.indexOf("=");
		if (each.slice(0, at) === name) return each.slice(at + 1);
	}
	return null;
}

/** @param {unknown} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/** @param {unknown} error */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));
