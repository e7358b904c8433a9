// What a job's page adds with JavaScript: buttons that copy texts. Every page works without it.
"use strict";
{
	const buttons = document.querySelectorAll("[data-copy-from], [data-copy-text]");
	for (const button of buttons) button.hidden = false;

	const textOf = async (button) => {
		if (button.dataset.copyText) return document.querySelector(button.dataset.copyText).textContent;
		const answer = await fetch(button.dataset.copyFrom);
		if (!answer.ok) throw new Error(answer.statusText);
		return answer.text();
	};

	document.addEventListener("click", async (event) => {
		const button = event.target.closest("[data-copy-from], [data-copy-text]");
		if (!button) return;
		try {
			button.dataset.copy = await textOf(button);
		} catch {
			button.textContent = "Could not copy";
			return;
		}
		delete button.dataset.copyFrom;
		delete button.dataset.copyText;
		button.click(); // console.js copies
	});

	// A log that is read anew stays where the reader is: at its end, unless they scrolled up.
	let shown, top = 0, atEnd = true;
	document.addEventListener("scroll", (event) => {
		if (event.target !== shown) return;
		top = shown.scrollTop;
		atEnd = shown.scrollHeight - top - shown.clientHeight < 30;
	}, true);
	const keepPlace = () => {
		const log = document.querySelector("pre.log-text");
		if (!log || log === shown) return;
		shown = log;
		log.scrollTop = atEnd ? log.scrollHeight : top;
	};
	new MutationObserver(keepPlace).observe(document.querySelector("main"), { childList: true, subtree: true });
	keepPlace();

	// Another model is used as soon as it is chosen; its button is for browsers without scripts.
	for (const select of document.querySelectorAll("[data-press]")) {
		const button = document.getElementById(select.dataset.press);
		button.hidden = true;
		select.addEventListener("change", () => select.form.requestSubmit(button));
	}

	// A file that is too large is refused before it is sent.
	for (const input of document.querySelectorAll("[data-largest]")) {
		const largest = Number(input.dataset.largest);
		input.addEventListener("change", () => {
			const large = [...input.files].some((file) => file.size > largest);
			input.setCustomValidity(large ? `A file may have ${largest >> 20} MB here.` : "");
			input.reportValidity();
		});
	}

	// A form that is sent twice acts once.
	document.addEventListener("submit", (event) => {
		const form = event.target.closest("[data-once]");
		if (!form) return;
		if (form.dataset.sent) {
			event.preventDefault();
			return;
		}
		form.dataset.sent = "true";
	});
	window.addEventListener("pageshow", () => {
		for (const form of document.querySelectorAll("[data-sent]")) delete form.dataset.sent;
	});
}
