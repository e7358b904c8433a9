// What keeps a page current between the messages of its stream: it counts times up,
// and says so when the stream is gone. Every page works without it.
"use strict";
{
	// The browser's clock may be wrong: times count from the server's.
	const skew = Date.parse(document.documentElement.dataset.now) - Date.now();
	const now = () => Date.now() + skew;
	const two = (n) => String(n).padStart(2, "0");

	// As ui.Duration and ui.Since in Go.
	const duration = (seconds) => {
		if (seconds < 10) return `${seconds.toFixed(1)} s`;
		if (seconds < 60) return `${seconds.toFixed(0)} s`;
		if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(Math.floor(seconds % 60))} s`;
		return `${Math.floor(seconds / 3600)} h ${two(Math.floor(seconds / 60) % 60)} min`;
	};
	const roughly = (seconds) => {
		if (seconds < 60) return `${Math.floor(seconds)} s`;
		if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
		if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
		return `${Math.floor(seconds / 86400)} days`;
	};
	const since = (seconds) => {
		if (seconds <= -48 * 3600) return `in ${roughly(-seconds)}`;
		if (seconds < 0) return `in ${duration(-seconds)}`;
		return seconds < 2 ? "just now" : `${roughly(seconds)} ago`;
	};
	const show = (element, text) => {
		if (element.textContent !== text) element.textContent = text;
	};
	const count = () => {
		for (const time of document.querySelectorAll("time[data-ago], time[data-elapsed]")) {
			const seconds = (now() - Date.parse(time.dateTime)) / 1000;
			show(time, "ago" in time.dataset ? since(seconds) : duration(Math.max(Math.floor(seconds), 0)));
		}
	};

	// A stream beats every 5 s: see beatEvery in Go.
	const silence = 15_000;
	const live = document.querySelector("#live");
	const stale = document.querySelector("#stale");
	let heard = Date.now();
	let connection = null;
	let state = "current"; // or interrupted; or over: the session ended; or done: nothing more happens
	let waiting = 0; // for a connection that is being made

	const become = (next) => {
		clearTimeout(waiting);
		if (state === "over" || state === "done") return;
		state = next;
		stale.hidden = state === "current" || state === "done";
		const [text] = stale.getElementsByTagName("strong");
		const [login] = stale.getElementsByTagName("a");
		show(text, state === "over" ? "Your session ended." : state === "interrupted" ? "Live updates interrupted. Reconnecting…" : "");
		login.hidden = state !== "over";
		login.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
		age();
	};
	const age = () => {
		const seconds = (Date.now() - heard) / 1000;
		show(stale.querySelector(".age"), `Last update ${since(seconds)}.`);
	};
	const hear = () => {
		heard = Date.now();
		become("current");
	};
	const look = () => {
		if (document.hidden) return;
		if (state === "current" && Date.now() - heard > silence) {
			become("interrupted");
			connection?.reader?.cancel(); // so that a new one is made
		}
		age();
	};

	if (stale) {
		const stop = (event) => {
			event.detail.connection.cancelled = true;
			event.preventDefault();
		};
		live.addEventListener("htmx:sse:before:connection", (event) => {
			connection = event.detail.connection;
			if (state === "over") stop(event);
			else if (connection.attempt > 0) waiting ||= setTimeout(() => become("interrupted"), 1500);
		});
		live.addEventListener("htmx:sse:after:connection", () => {
			clearTimeout(waiting);
			waiting = 0;
			hear();
		});
		live.addEventListener("htmx:sse:before:message", hear);
		live.addEventListener("htmx:sse:error", (event) => become(event.detail.status === 401 ? "over" : "interrupted"));
		live.addEventListener("logout", () => become("over"));
		live.addEventListener("htmx:sse:close", (event) => event.detail.reason === "message" && become("done"));

		// htmx makes no second try of a first connection.
		const again = (event) => {
			if (event.target !== live || event.detail.ctx?.response?.ok) return;
			become(event.detail.ctx?.response?.status === 401 ? "over" : "interrupted");
			if (state !== "over") setTimeout(() => htmx.ajax("GET", live.getAttribute("hx-sse:connect"), { source: live }), 2000);
		};
		live.addEventListener("htmx:response:error", again);
		live.addEventListener("htmx:error", again);
		setInterval(look, 1000);
	}
	setInterval(count, 1000);
}
