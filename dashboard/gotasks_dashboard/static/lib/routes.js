// Which page an address shows, and how the pages are reached.

/** @typedef {typeof import("./page.js").Page} PageClass */
/** @typedef {{label: string, icon: string, path: string, key: string}} Panel */
/** @typedef {{panel: string, make: () => Promise<PageClass>}} Route */

/** @type {Record<string, Panel>} */
export const PANELS = {
	overview: { label: "Overview", icon: "overview", path: "./", key: "o" },
	queues: { label: "Queues", icon: "queues", path: "queues", key: "q" },
	tasks: { label: "Tasks", icon: "tasks", path: "tasks", key: "t" },
	types: { label: "Types", icon: "types", path: "types", key: "y" },
	dead: { label: "Dead letters", icon: "dead", path: "dead", key: "d" },
	schedules: { label: "Schedules", icon: "schedules", path: "schedules", key: "c" },
	limits: { label: "Limits", icon: "limits", path: "limits", key: "l" },
	workflows: { label: "Workflows", icon: "workflows", path: "workflows", key: "w" },
	nodes: { label: "Nodes", icon: "nodes", path: "nodes", key: "n" },
	jobs: { label: "Bulk jobs", icon: "jobs", path: "jobs", key: "j" },
	system: { label: "System", icon: "system", path: "system", key: "s" },
	audit: { label: "Audit", icon: "audit", path: "audit", key: "a" },
};

/** @type {Record<string, () => Promise<PageClass>>} */
const PAGES = {
	"": async () => (await import("../pages/overview.js")).OverviewPage,
	queues: async () => (await import("../pages/queues.js")).QueuesPage,
	tasks: async () => (await import("../pages/tasks.js")).TasksPage,
	new: async () => (await import("../pages/new.js")).NewPage,
	types: async () => (await import("../pages/types.js")).TypesPage,
	dead: async () => (await import("../pages/dead.js")).DeadPage,
	nodes: async () => (await import("../pages/nodes.js")).NodesPage,
	system: async () => (await import("../pages/system.js")).SystemPage,
	audit: async () => (await import("../pages/audit.js")).AuditPage,
	jobs: async () => (await import("../pages/jobs.js")).JobsPage,
};

/** The path below the base. @param {URL} url */
export function pathOf(url) {
	const base = new URL(document.baseURI).pathname;
	return url.pathname.startsWith(base) ? url.pathname.slice(base.length) : "";
}

/** @param {string} path @returns {Route} */
export function routeOf(path) {
	if (/^tasks\/[^/]+$/.test(path)) {
		return { panel: "tasks", make: async () => (await import("../pages/task.js")).TaskPage };
	}
	const make = PAGES[path];
	if (make) return { panel: path === "new" ? "tasks" : path || "overview", make };
	return { panel: "", make: async () => (await import("../pages/lost.js")).LostPage };
}
