// What the keyboard adds to the console. Every page works without it.
"use strict";
{
	const typing = (element) => element.closest("input, textarea, select, [contenteditable]");
	let first = "";

	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
		if (event.key === "/") {
			const search = document.querySelector("[data-search]");
			if (!search) return;
			event.preventDefault();
			search.focus();
			return;
		}
		const keys = first + event.key;
		first = event.key === "g" ? "g " : "";
		const link = document.querySelector(`[data-keys="${CSS.escape(keys)}"]`);
		if (link) location.assign(link.href);
	});

	document.addEventListener("change", (event) => {
		if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
	});

	document.addEventListener("click", (event) => {
		const id = event.target.closest("[data-copy]");
		if (!id || !navigator.clipboard) return;
		navigator.clipboard.writeText(id.dataset.copy).then(() => {
			id.classList.add("copied");
			setTimeout(() => id.classList.remove("copied"), 1000);
		});
	});
}
