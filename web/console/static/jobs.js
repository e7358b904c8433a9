// What scripts add to the lists of jobs and workers: selection with ranges, and rows to click on. Without
// it, the checkboxes and buttons are a plain form.
"use strict";
{
	document.documentElement.classList.add("picks");
	const boxes = () => [...document.querySelectorAll("[data-select]")];
	const bar = document.querySelector("[data-bulk]");
	const all = bar?.querySelector("[data-bulk-all]");
	let last = null; // the box that was changed last

	const count = () => {
		const picked = boxes().filter((box) => box.checked);
		for (const box of boxes()) box.closest("[data-row]").toggleAttribute("data-picked", box.checked);
		const head = document.querySelector("[data-select-all]");
		if (head) {
			head.hidden = false;
			head.checked = picked.length > 0 && picked.length === boxes().length;
			head.indeterminate = picked.length > 0 && !head.checked;
		}
		if (!bar) return;
		const text = all?.checked ? "Selected:" : `${picked.length} selected`;
		const label = bar.querySelector("[data-bulk-count]");
		if (label.textContent !== text) label.textContent = text;
		if (picked.length === 0 && all?.checked) all.checked = false;
		bar.toggleAttribute("data-open", picked.length > 0);
		document.dispatchEvent(new Event("reelay:selection"));
	};

	document.addEventListener("click", (event) => {
		const box = event.target.closest("[data-select]");
		if (box) {
			const between = boxes();
			const [from, to] = [between.indexOf(last), between.indexOf(box)];
			if (event.shiftKey && from >= 0) {
				for (const other of between.slice(Math.min(from, to), Math.max(from, to) + 1)) other.checked = box.checked;
			}
			last = box;
			count();
			return;
		}
		const row = event.target.closest("tr[data-href]");
		if (!row || event.defaultPrevented || event.target.closest("a, button, input, label, summary")) return;
		if (String(getSelection())) return; // somebody marks text
		if (event.metaKey || event.ctrlKey) open(row.dataset.href);
		else location.assign(row.dataset.href);
	});

	document.addEventListener("change", (event) => {
		if (event.target.matches("[data-select-all]")) {
			for (const box of boxes()) box.checked = event.target.checked;
			count();
		}
		if (all && event.target === all) count();
	});

	// A page from the browser's history shows the boxes as they were left.
	addEventListener("pageshow", count);
	document.querySelector("#live")?.addEventListener("htmx:after:swap", count);
	count();
}
