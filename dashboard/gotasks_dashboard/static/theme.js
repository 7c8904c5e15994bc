// Run before anything is painted, so that a chosen theme does not flash.
try {
	const chosen = localStorage.getItem("gotasks.theme");
	if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
	// Storage is denied: the system's preference holds.
}
