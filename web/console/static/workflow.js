// Draws the graph of a workflow, laid out by dagre. Without it, the table has the same.
"use strict";
if (typeof dagre === "object") {
	const NS = "http://www.w3.org/2000/svg";
	const WIDTH = 150;
	const HEIGHT = 40;
	let layout = { key: "", graph: null };

	const element = (name, attributes, ...children) => {
		const e = document.createElementNS(NS, name);
		for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
		e.append(...children);
		return e;
	};
	const clip = (s) => (s.length > 20 ? `${s.slice(0, 9)}…${s.slice(-9)}` : s);

	// lay places the nodes. The states change often, the shape does not.
	const lay = (data) => {
		const key = JSON.stringify([data.nodes.map((n) => n.key), data.edges]);
		if (layout.key === key) return layout.graph;
		const graph = new dagre.graphlib.Graph();
		graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 46, marginx: 8, marginy: 8 });
		graph.setDefaultEdgeLabel(() => ({}));
		data.nodes.forEach((n, i) => graph.setNode(String(i), { width: WIDTH, height: HEIGHT }));
		(data.edges ?? []).forEach(([from, to]) => graph.setEdge(String(from), String(to)));
		dagre.layout(graph);
		layout = { key, graph };
		return graph;
	};

	const draw = (box) => {
		if (box.drawn === box.dataset.graph && box.firstChild) return;
		box.drawn = box.dataset.graph;
		const data = JSON.parse(box.dataset.graph);
		if (!data.nodes) return;
		const graph = lay(data);
		const { width, height } = graph.graph();
		const svg = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
		for (const e of graph.edges()) {
			const points = graph.edge(e).points;
			svg.append(element("polyline", { class: "edge", points: points.map((p) => `${p.x},${p.y}`).join(" ") }));
		}
		data.nodes.forEach((n, i) => {
			const { x, y } = graph.node(String(i));
			const title = element("title", {}, `${n.key}: ${n.note}`);
			const rect = element("rect", { x: x - WIDTH / 2, y: y - HEIGHT / 2, width: WIDTH, height: HEIGHT, rx: 6 });
			const name = element("text", { class: "name", x, y: y - 3 }, clip(n.key));
			const note = element("text", { class: "note", x, y: y + 13 }, n.note);
			const node = element("g", { class: `node is-${n.state}` }, title, rect, name, note);
			svg.append(n.link ? element("a", { href: n.link, tabindex: "-1" }, node) : node);
		});
		box.replaceChildren(svg);
	};

	const all = () => document.querySelectorAll(".workflow-graph").forEach(draw);
	all();
	const live = document.querySelector("#live");
	if (live) new MutationObserver(all).observe(live, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-graph"] });
}
