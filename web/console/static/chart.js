// Makes charts that can be explored out of those that the server drew (ui.Chart): a cursor that
// all charts of the page share, values at the cursor, and new values without a flicker. Without
// it, or without uPlot, a page keeps the server's SVG and tables.
"use strict";
if (typeof uPlot === "function") {
	const charts = new Map(); // by the figure's id
	const sync = uPlot.sync("page");

	const number = (v) => {
		if (Number.isInteger(v) || Math.abs(v) >= 100) return Math.round(v).toLocaleString("en").replaceAll(",", "\u202f");
		return v.toFixed(Math.abs(v) >= 10 ? 1 : 2);
	};
	const { duration, moment } = window.reelayTime; // of live.js
	// As ui.Figure in Go.
	const format = (v, unit) => {
		if (v === null || v === undefined) return "n/a";
		if (unit === "s") return duration(v);
		if (unit === "%") return `${number(v * 100)} %`;
		if (unit === "$") return `$${v < 10 ? Number(v.toFixed(4)) : v.toFixed(2)}`;
		if (unit === "$/h") return `$${v.toFixed(2)}/h`;
		return number(v) + (unit === "" || unit.startsWith("/") ? unit : ` ${unit}`);
	};
	const tick = (v, unit, step) => {
		if (unit === "s") {
			// In the unit of the steps, so that all are whole.
			const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([size]) => step >= size) ?? [1, "s"];
			return `${+(v / size).toPrecision(3)} ${name}`;
		}
		if (unit === "%") return `${+(v * 100).toPrecision(3)} %`;
		return String(+v.toPrecision(3));
	};

	// Times as the rest of the page has them: see live.js.
	const time = (t, options) => new Intl.DateTimeFormat("en-GB", { ...options, timeZone: document.documentElement.dataset.zone === "utc" ? "UTC" : undefined }).format(t * 1000);
	const day = (t) => time(t, { day: "numeric", month: "short" }).replace("Sept", "Sep");
	const hour = (t) => time(t, { hour: "2-digit", minute: "2-digit" });
	// The steps of an axis of seconds are round in the unit that it shows.
	const whole = Array.from({ length: 8 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat(); // of counts
	const seconds = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

	const read = (figure) => {
		const data = JSON.parse(figure.dataset.chart);
		const points = Math.max(0, ...data.series.map((s) => s.values.length));
		data.x = Array.from({ length: points }, (_, i) => data.from + i * data.step);
		return data;
	};
	// Figures of one shape differ in their values only.
	const shape = (figure) => {
		const data = read(figure);
		return JSON.stringify([known(data), data.series.map((s) => s.label)]);
	};
	const columns = (data) => [data.x, ...data.series.map((s) => data.x.map((_, i) => s.values[i] ?? null))];
	const known = (data) => data.series.some((s) => s.values.some((v) => v !== null));
	// The newest known value, and when that was unless it is of the last two steps: as ChartData.newest in Go.
	const newest = (data, values) => {
		const at = values.findLastIndex((v) => v !== null);
		return format(values[at], data.unit) + (at >= 0 && at < data.x.length - 2 ? ` at ${moment(new Date(data.x[at] * 1000))}` : "");
	};

	// What was changed between a point and the next one.
	const marksAt = (data, at) => (data.marks ?? []).filter((m) => m.at >= data.x[at] && m.at < data.x[at] + data.step).map((m) => m.text);
	const drawMarks = (u, data, colour) => {
		const { ctx, bbox } = u;
		ctx.save();
		ctx.strokeStyle = colour;
		ctx.lineWidth = devicePixelRatio;
		ctx.setLineDash([2 * devicePixelRatio, 2 * devicePixelRatio]);
		for (const m of data.marks ?? []) {
			// A point stands for the time until the next one, and is drawn at its beginning.
			const x = Math.round(u.valToPos(Math.min(m.at, data.x.at(-1)), "x", true));
			ctx.beginPath();
			ctx.moveTo(x, bbox.top);
			ctx.lineTo(x, bbox.top + bbox.height);
			ctx.stroke();
		}
		ctx.restore();
	};

	const legend = (chart, at) => {
		const values = chart.figure.querySelectorAll(".chart-legend b");
		chart.data.series.forEach((s, i) => {
			if (values[i]) values[i].textContent = at === null ? newest(chart.data, s.values) : format(s.values[at] ?? null, chart.data.unit);
		});
		const ends = chart.figure.querySelectorAll(".chart-scale span");
		if (ends.length !== 2) return;
		const clock = (t) => moment(new Date(t * 1000));
		ends[0].textContent = at === null ? clock(chart.data.x[0]) : clock(chart.data.x[at]);
		ends[1].textContent = at === null ? clock(chart.data.x.at(-1) + chart.data.step) : marksAt(chart.data, at).join("; ");
	};

	const options = (chart) => {
		const { figure, data } = chart;
		const style = getComputedStyle(figure);
		const colour = (name) => style.getPropertyValue(name).trim();
		const quiet = getComputedStyle(figure.querySelector(".chart-scale")).color;
		const line = getComputedStyle(figure.querySelector(".chart-plot")).borderBottomColor;
		const swatches = figure.querySelectorAll(".chart-swatch");
		const axis = { stroke: quiet, font: `11px ${colour("font-family") || "system-ui"}`, grid: { stroke: line, width: 1 }, ticks: { show: false } };
		return {
			width: Math.max(chart.plot.clientWidth, 80),
			height: Math.max(chart.plot.clientHeight, 80),
			cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: false, y: false }, points: { size: 6 } },
			legend: { show: false },
			padding: [8, 16, 0, 0],
			scales: { y: { range: (_, __, most) => [0, data.unit === "" ? Math.max(most * 1.08, 1) : most > 0 ? most * 1.08 : 1] } },
			axes: [
				{ ...axis, size: 26, gap: 9, space: 70, values: (_, all, __, ___, step) => all.map((t) => (step >= 86400 ? day(t) : hour(t))) },
				{ ...axis, size: 48, gap: 4, space: 34, ...(data.unit === "s" ? { incrs: seconds } : data.unit === "" ? { incrs: whole } : {}), values: (_, all, __, ___, step) => all.map((v) => tick(v, data.unit, step)) },
			],
			series: [
				{},
				...data.series.map((s, i) => ({
					label: s.label,
					stroke: getComputedStyle(swatches[i]).color,
					width: 1.75,
					dash: [[], [6, 3], [2, 3]][i % 3],
					points: { show: data.x.length < 2, size: 4 },
				})),
			],
			hooks: { draw: [(u) => drawMarks(u, chart.data, quiet)], setCursor: [(u) => legend(chart, u.cursor.left >= 0 ? (u.cursor.idx ?? null) : null)] },
		};
	};

	const draw = (figure) => {
		const plot = figure.querySelector(".chart-plot");
		let chart = charts.get(figure.id);
		const drawn = chart && chart.figure === figure && plot.contains(chart.uplot.root);
		if (drawn && chart.raw === figure.dataset.chart) return;
		const data = read(figure);
		if (!known(data)) return;
		if (drawn) {
			const same = chart.data.series.map((s) => s.label).join("\n") === data.series.map((s) => s.label).join("\n");
			if (same) {
				chart.raw = figure.dataset.chart;
				Object.assign(chart.data, data);
				chart.uplot.setData(columns(data));
				if (!(chart.uplot.cursor.left >= 0)) legend(chart, null);
				return;
			}
		}
		chart?.uplot.destroy();
		chart?.resized.disconnect();
		chart = { figure, plot, data, raw: figure.dataset.chart };
		plot.replaceChildren();
		plot.tabIndex = 0;
		plot.setAttribute("role", "img");
		plot.setAttribute("aria-label", figure.querySelector("h3").textContent.trim() + ". Arrow keys move the cursor; the table below has the values.");
		chart.uplot = new uPlot(options(chart), columns(data), plot);
		chart.resized = new ResizeObserver(() => chart.uplot.setSize({ width: Math.max(plot.clientWidth, 80), height: Math.max(plot.clientHeight, 80) }));
		chart.resized.observe(plot);
		charts.set(figure.id, chart);
		figure.dataset.drawn = data.series.length;
		legend(chart, null);
	};

	const drawAll = () => {
		for (const figure of document.querySelectorAll("figure[data-chart]")) draw(figure);
	};

	document.addEventListener("keydown", (event) => {
		const chart = event.target.matches?.(".chart-plot") && charts.get(event.target.parentElement.id);
		const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (!chart || !by) return;
		event.preventDefault();
		const u = chart.uplot;
		const at = Math.min(Math.max((u.cursor.left >= 0 ? (u.cursor.idx ?? 0) : chart.data.x.length - (by < 0 ? 0 : 1)) + by, 0), chart.data.x.length - 1);
		u.setCursor({ left: u.valToPos(chart.data.x[at], "x"), top: 10 }, true, true);
	});

	// A new theme has other colours.
	const again = () => {
		for (const chart of charts.values()) chart.uplot.destroy();
		for (const chart of charts.values()) chart.resized.disconnect();
		charts.clear();
		drawAll();
	};
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
	new MutationObserver(again).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });

	// Figures change when a live part is swapped.
	const watcher = new MutationObserver((changes) => {
		if (changes.some((c) => c.type === "attributes" || [...c.addedNodes].some((n) => n.nodeType === 1 && (n.matches("svg, figure, section, div") || n.querySelector("figure[data-chart]"))))) drawAll();
	});
	watcher.observe(document.querySelector("#content"), { subtree: true, childList: true, attributes: true, attributeFilter: ["data-chart"] });
	drawAll();

	// Charts that no stream keeps current are fetched again: data-refresh has their address.
	for (const part of document.querySelectorAll("[data-refresh]")) {
		setInterval(async () => {
			if (document.hidden || part.contains(document.activeElement)) return;
			const answer = await fetch(part.dataset.refresh, { headers: { Accept: "text/html" } }).catch(() => null);
			if (!answer?.ok || answer.redirected) return;
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
			for (const next of fresh.querySelectorAll("figure[data-chart]")) {
				const figure = document.getElementById(next.id);
				if (!figure) continue;
				if (shape(figure) !== shape(next)) {
					// It has other lines now, or its first values.
					next.querySelector(".chart-table")?.toggleAttribute("open", figure.querySelector(".chart-table")?.open ?? false);
					figure.replaceWith(document.adoptNode(next));
					continue;
				}
				figure.querySelector(".chart-table table")?.replaceWith(next.querySelector(".chart-table table"));
				figure.dataset.chart = next.dataset.chart;
			}
		}, 30_000);
	}
}
