// Completes the term at the cursor of a search field: an ARIA combobox. Without it, the field
// is a plain one.
"use strict";
for (const field of document.querySelectorAll("[data-suggest]")) {
	const list = document.getElementById(field.dataset.suggestList);
	let options = [];
	let chosen = -1;
	let asked = 0;

	field.setAttribute("role", "combobox");
	field.setAttribute("aria-autocomplete", "list");
	field.setAttribute("aria-controls", list.id);
	field.setAttribute("aria-expanded", "false");

	// The term at the cursor: from the last space outside of quotation marks on.
	const term = () => {
		const before = field.value.slice(0, field.selectionStart);
		let from = 0;
		let quoted = false;
		for (let i = 0; i < before.length; i++) {
			if (before[i] === '"') quoted = !quoted;
			if (before[i] === " " && !quoted) from = i + 1;
		}
		return [from, before.slice(from)];
	};
	const close = () => {
		asked++;
		options = [];
		chosen = -1;
		list.hidden = true;
		field.setAttribute("aria-expanded", "false");
		field.removeAttribute("aria-activedescendant");
	};
	const mark = (next) => {
		chosen = next;
		[...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
		if (chosen < 0) field.removeAttribute("aria-activedescendant");
		else {
			field.setAttribute("aria-activedescendant", list.children[chosen].id);
			list.children[chosen].scrollIntoView({ block: "nearest" });
		}
	};
	const take = (i) => {
		const [from, typed] = term();
		const text = options[i].text;
		const space = text.endsWith(":") ? "" : " ";
		const behind = field.value.slice(from + typed.length).replace(/^\S*\s?/, "");
		field.value = field.value.slice(0, from) + text + space + behind;
		field.selectionStart = field.selectionEnd = from + text.length + space.length;
		if (space) close();
		else ask();
	};
	const ask = async () => {
		const ticket = ++asked;
		const [, typed] = term();
		let found = [];
		try {
			const answer = await fetch(field.dataset.suggest + "?term=" + encodeURIComponent(typed), { headers: { Accept: "application/json" } });
			if (answer.ok) found = await answer.json();
		} catch {
			// the field works without suggestions
		}
		if (ticket !== asked || document.activeElement !== field) return;
		if (found.length === 0 || (found.length === 1 && found[0].text === typed)) return close();
		options = found;
		list.replaceChildren(...found.map((option, i) => {
			const row = document.createElement("span");
			row.id = `${list.id}-${i}`;
			row.setAttribute("role", "option");
			const help = document.createElement("span");
			help.className = "quiet";
			help.textContent = option.help;
			row.append(option.text, help);
			row.addEventListener("mousedown", (event) => {
				event.preventDefault();
				take(i);
			});
			return row;
		}));
		list.hidden = false;
		field.setAttribute("aria-expanded", "true");
		mark(-1);
	};

	field.addEventListener("input", ask);
	field.addEventListener("focus", () => field.value === "" && ask());
	field.addEventListener("blur", close);
	field.addEventListener("keydown", (event) => {
		if (list.hidden) {
			if (event.key === "ArrowDown") ask();
			return;
		}
		const steps = { ArrowDown: 1, ArrowUp: -1 };
		if (event.key in steps) {
			event.preventDefault();
			const n = options.length;
			mark(chosen < 0 && event.key === "ArrowUp" ? n - 1 : (chosen + steps[event.key] + n) % n);
		} else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
			event.preventDefault();
			take(chosen);
		} else if (event.key === "Escape") {
			event.preventDefault();
			close();
		}
	});
}
