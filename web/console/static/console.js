// The clipboard, and forms. Every page works without it.
"use strict";
{
	document.addEventListener("change", (event) => {
		if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
	});

	// Browsers have navigator.clipboard at localhost and over HTTPS only.
	const copy = async (text) => {
		if (navigator.clipboard) return navigator.clipboard.writeText(text);
		const field = document.createElement("textarea");
		field.value = text;
		document.body.append(field);
		field.select();
		document.execCommand("copy");
		field.remove();
	};

	document.addEventListener("click", async (event) => {
		const id = event.target.closest("[data-copy]");
		if (!id) return;
		await copy(id.dataset.copy);
		id.focus();
		id.classList.add("copied");
		setTimeout(() => id.classList.remove("copied"), 1000);
	});

	// What was typed into a form outlives a login in between.
	const draft = document.querySelector("form[data-draft]");
	const kept = JSON.parse(sessionStorage.getItem("draft") ?? "null");
	const otherModel = draft && kept && kept.model !== draft.elements.model.value;
	if (otherModel) {
		location.replace("/jobs/new?model=" + encodeURIComponent(kept.model));
	} else if (draft && kept && !draft.hasAttribute("data-sent-values")) {
		for (const [name, value] of Object.entries(kept)) {
			const field = draft.elements[name];
			if (field && !["hidden", "file"].includes(field.type)) field.value = value;
		}
	}
	if (!otherModel && location.pathname !== "/login") sessionStorage.removeItem("draft");
	draft?.addEventListener("submit", (event) => {
		const typed = Object.fromEntries(new FormData(draft));
		sessionStorage.setItem("draft", JSON.stringify(typed));
	});
}
