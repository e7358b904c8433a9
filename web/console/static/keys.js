// The keyboard, the command palette, and the theme. Every page works without it.
//
// What a page gives:
//   data-search     on its search field: the key /
//   data-keys="g x" on a link: these keys open it
//   data-key="r"    on a button or link: the key clicks that of the selected row, or else
//                   that of the page outside of rows. It must ask first or be harmless.
//                   data-label says in the palette what it does, if its text does not.
//   rows            of a table in main, and elements with data-row: j and k move over those
//                   that have a link, by focusing it ([data-open], .main-link or the first);
//                   x clicks the row's checkbox.
"use strict";
{
	const typing = (element) => element.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
	const rowOf = (element) => element?.closest("main tbody tr, main [data-row]");
	const linkOf = (row) => row.querySelector("[data-open]") ?? row.querySelector(".main-link") ?? row.querySelector("a[href]");
	const named = (element) => element.dataset.label ?? element.textContent.trim();
	const usable = (element) => element && !element.disabled && element.ariaDisabled !== "true" && element.checkVisibility();
	const modal = () => document.querySelector("dialog[open]");

	let place = -1; // of the selected row, for when it leaves the page
	const move = (by) => {
		const rows = [...document.querySelectorAll("main tbody tr, main [data-row]")].filter((row) => linkOf(row) && row.checkVisibility());
		if (rows.length === 0) return;
		const now = rows.indexOf(rowOf(document.activeElement));
		const next = now < 0 ? (place < 0 ? 0 : place) : now + by;
		place = Math.max(0, Math.min(next, rows.length - 1));
		linkOf(rows[place]).focus({ preventScroll: true });
		rows[place].scrollIntoView({ block: "nearest" });
	};
	const act = (key) => {
		const wanted = `[data-key="${CSS.escape(key)}"]`;
		const own = rowOf(document.activeElement)?.querySelector(wanted);
		const action = own ?? [...document.querySelectorAll(`main ${wanted}`)].find((element) => !rowOf(element));
		if (!usable(action)) return false;
		action.click();
		return true;
	};

	// The theme is a cookie, so that the server sends the page in it.
	const themes = ["auto", "dark", "light"];
	const theme = () => document.documentElement.dataset.theme ?? "auto";
	const nextTheme = () => {
		const next = themes[(themes.indexOf(theme()) + 1) % themes.length];
		document.cookie = `theme=${next}; path=/; samesite=lax; max-age=${next === "auto" ? 0 : 31536000}`;
		if (next === "auto") delete document.documentElement.dataset.theme;
		else document.documentElement.dataset.theme = next;
		document.querySelector("meta[name=color-scheme]").content = next === "auto" ? "light dark" : next;
		document.dispatchEvent(new Event("reelay:theme"));
		labelTheme();
	};
	const labelTheme = () => {
		for (const button of document.querySelectorAll("[data-do=theme]")) button.textContent = `Theme: ${theme()}`;
	};

	const element = (name, attributes, text) => {
		const made = document.createElement(name);
		for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
		if (text) made.textContent = text;
		return made;
	};
	const dialog = (id, label) => {
		const made = element("dialog", { id, "aria-label": label, closedby: "any" });
		made.addEventListener("close", () => made.remove());
		document.body.append(made);
		return made;
	};

	const help = async () => {
		const response = await fetch("/keyboard", { headers: { Accept: "text/html" } });
		if (!response.ok || modal()) return;
		const page = new DOMParser().parseFromString(await response.text(), "text/html");
		const shown = dialog("keys", "Keyboard shortcuts");
		shown.append(page.querySelector("#keyboard"));
		const close = element("button", { type: "button" }, "Close");
		close.addEventListener("click", () => shown.close());
		shown.append(close);
		shown.showModal();
	};

	const commands = () => {
		const found = [];
		const add = (text, hint, run) => text && found.push({ text, hint, run });
		for (const action of document.querySelectorAll("main [data-key]")) {
			if (usable(action) && !rowOf(action)) add(named(action), action.dataset.key, () => action.click());
		}
		for (const link of document.querySelectorAll("a[data-keys]")) add(named(link), link.dataset.keys, () => location.assign(link.href));
		for (const tool of document.querySelectorAll("[data-do]:not([data-do=palette], [hidden])")) add(tool.dataset.label, tool.dataset.hint, () => tool.click());
		for (const link of document.querySelectorAll(".session p a:not([data-do])")) add(named(link), "", () => location.assign(link.href));
		const logout = document.querySelector(".session form");
		if (logout) add("Log out", "", () => logout.requestSubmit());
		return found;
	};
	const homes = { job: "/jobs/", wrk: "/workers/", pol: "/pools/", tak: "/takes/", bulk: "/bulk/", sch: "/schedules/", dead: "/dead-letters/" };
	const matches = (all, query) => {
		const words = query.toLowerCase().split(/\s+/).filter(Boolean);
		const found = all.filter(({ text }) => words.every((word) => text.toLowerCase().includes(word)));
		const first = ({ text }) => (words.length > 0 && text.toLowerCase().startsWith(words[0]) ? 0 : 1);
		found.sort((a, b) => first(a) - first(b));
		const id = query.match(/^([a-z]+)_[0-9a-f-]{36}$/);
		if (id && homes[id[1]]) return [{ text: `Open ${query}`, hint: "", run: () => location.assign(homes[id[1]] + query) }];
		if (query) found.push({ text: `Find jobs: ${query}`, hint: "", run: () => location.assign("/jobs?q=" + encodeURIComponent(query)) });
		return found;
	};
	const palette = () => {
		const all = commands();
		const shown = dialog("palette", "Go to a page or act");
		const field = element("input", {
			type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Command, page, or id of a job",
			placeholder: "Page, action, or id of a job…", autocomplete: "off", spellcheck: "false", maxlength: "200",
		});
		const list = element("ul", { id: "palette-list", role: "listbox", "aria-label": "Commands" });
		let found = [];
		let at = 0;
		const run = (command) => {
			shown.close();
			command?.run();
		};
		const select = (next) => {
			at = Math.max(0, Math.min(next, found.length - 1));
			[...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === at)));
			list.children[at]?.scrollIntoView({ block: "nearest" });
			field.setAttribute("aria-activedescendant", list.children[at]?.id ?? "");
		};
		const filter = () => {
			found = matches(all, field.value.trim());
			list.replaceChildren(...found.map((command, i) => {
				const option = element("li", { role: "option", id: `palette-${i}` });
				option.append(element("span", {}, command.text));
				if (command.hint) option.append(element("kbd", {}, command.hint));
				option.addEventListener("click", () => run(command));
				return option;
			}));
			select(0);
		};
		field.addEventListener("input", filter);
		field.addEventListener("keydown", (event) => {
			if (event.key === "ArrowDown") select(at + 1);
			else if (event.key === "ArrowUp") select(at - 1);
			else if (event.key === "Enter") run(found[at]);
			else return;
			event.preventDefault();
		});
		shown.append(field, list);
		filter();
		shown.showModal();
		field.focus();
	};

	const tools = {
		"?": help,
		j: () => move(1),
		k: () => move(-1),
		x: () => rowOf(document.activeElement)?.querySelector("input[type=checkbox]")?.click(),
		t: nextTheme,
		p: palette,
		z: () => document.querySelector("[data-do=zone]")?.click(),
		".": () => document.querySelector("[data-do=pause]:not([hidden])")?.click(),
	};
	let first = ""; // of two keys
	let forget = 0;
	document.addEventListener("keydown", (event) => {
		if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
			event.preventDefault();
			if (!modal()) palette();
			return;
		}
		if (event.ctrlKey || event.metaKey || event.altKey || event.repeat && !"jk".includes(event.key) || modal()) return;
		if (typing(event.target)) {
			if (event.key === "Escape") event.target.blur();
			return;
		}
		clearTimeout(forget);
		const keys = first + event.key;
		first = event.key === "g" && first === "" ? "g " : "";
		if (first) forget = setTimeout(() => (first = ""), 2000);
		const link = document.querySelector(`a[data-keys="${CSS.escape(keys)}"]`);
		if (link) {
			location.assign(link.href);
		} else if (keys === "/") {
			const search = document.querySelector("[data-search]");
			search?.focus();
			search?.select();
			if (!search) return;
		} else if (tools[keys]) {
			tools[keys]();
		} else if (!act(keys)) {
			return;
		}
		event.preventDefault();
	});

	document.addEventListener("click", (event) => {
		const tool = event.target.closest("[data-do]")?.dataset.do;
		if (tool === "theme") nextTheme();
		else if (tool === "palette") palette();
		else if (tool === "keys") {
			event.preventDefault(); // without this script it is a link to the page of the keys
			help();
		}
	});
	for (const tool of document.querySelectorAll("[data-do=theme], [data-do=zone], [data-do=palette]")) tool.hidden = false;
	labelTheme();
	if (/Mac|iPhone|iPad/.test(navigator.platform)) for (const kbd of document.querySelectorAll(".jump kbd")) kbd.textContent = "⌘ K";
}
