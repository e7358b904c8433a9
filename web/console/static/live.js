// What keeps a page current between the messages of its stream: it counts times up, shows
// them in the zone of the person, says so when the stream is gone, and pauses updates. Every
// page works without it, in UTC.
//
// What a page gives:
//   time[data-ago], time[data-elapsed]          as ui.Time and ui.Elapsed write them
//   time[data-at=clock], time[data-at=moment], time[data-at=full]   as ui.Clock, ui.At and ui.InFull write them
//   data-select     on the checkboxes of rows: updates pause while one is checked
// The document dispatches "reelay:paused" and "reelay:resumed", and "reelay:zone" after the
// switch between local times and UTC; document.documentElement.dataset.zone is utc or local.
"use strict";
{
	// The browser's clock may be wrong: times count from the server's.
	const skew = Date.parse(document.documentElement.dataset.now) - Date.now();
	const now = () => Date.now() + skew;
	const two = (n) => String(n).padStart(2, "0");

	// As text.Duration and text.Since in Go.
	const duration = (seconds) => {
		if (seconds < 9.95) return `${+seconds.toFixed(1)} s`;
		const n = Math.round(seconds);
		if (n < 60) return `${n} s`;
		if (n < 3600) return `${Math.floor(n / 60)} min ${two(n % 60)} s`;
		if (n < 48 * 3600) return `${Math.floor(n / 3600)} h ${two(Math.floor(n / 60) % 60)} min`;
		return `${Math.floor(n / 86400)} days ${two(Math.floor(n / 3600) % 24)} h`;
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

	const root = document.documentElement;
	root.dataset.zone = /(^|; )zone=utc(;|$)/.test(document.cookie) ? "utc" : "local";
	const zones = {};
	const format = (at, options) => {
		const key = root.dataset.zone + JSON.stringify(options);
		zones[key] ??= new Intl.DateTimeFormat("en-GB", { ...options, timeZone: root.dataset.zone === "utc" ? "UTC" : undefined });
		return zones[key].format(at);
	};
	const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
	const date = { day: "numeric", month: "short" };
	const minute = { hour: "2-digit", minute: "2-digit" };
	const year = { year: "numeric" };
	// As text.Moment in Go.
	const moment = (at) => {
		const of = format(at, year);
		return `${format(at, date).replace("Sept", "Sep")} ${of === format(new Date(now()), year) ? "" : of + " "}${format(at, minute)}${root.dataset.zone === "utc" ? " UTC" : ""}`;
	};
	// As text.MomentInFull in Go: a schedule, for one, may have another zone than the person.
	const inFull = (at) => {
		const of = format(at, year), zone = format(at, { ...minute, timeZoneName: "short" }).split(" ").at(-1);
		return `${format(at, date).replace("Sept", "Sep")} ${of === format(new Date(now()), year) ? "" : of + " "}${format(at, at.getUTCSeconds() === 0 ? minute : clock)} ${zone}`;
	};
	const full = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
	const title = (at) => (root.dataset.zone === "utc" ? "" : format(at, full) + "\n") + at.toISOString();

	const count = () => {
		for (const time of document.querySelectorAll("time")) {
			const at = new Date(time.dateTime);
			if (Number.isNaN(at.getTime())) continue;
			const seconds = (now() - at.getTime()) / 1000;
			if ("ago" in time.dataset) show(time, since(seconds));
			else if ("elapsed" in time.dataset) show(time, duration(Math.max(Math.floor(seconds), 0)));
			else if (time.dataset.at === "clock") show(time, format(at, clock));
			else if (time.dataset.at === "moment") show(time, moment(at));
			else if (time.dataset.at === "full") show(time, inFull(at));
			else continue;
			const exact = title(at);
			if (time.title !== exact) time.title = exact;
		}
	};
	const labelZone = () => {
		const tool = document.querySelector("[data-do=zone]");
		if (!tool) return;
		const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
		show(tool, root.dataset.zone === "utc" ? "Times: UTC" : "Times: local");
		tool.title = root.dataset.zone === "utc" ? "Show times in your zone (z)" : `Your zone is ${name}. Show times in UTC (z)`;
	};
	document.addEventListener("click", (event) => {
		if (event.target.closest("[data-do]")?.dataset.do !== "zone") return;
		root.dataset.zone = root.dataset.zone === "utc" ? "local" : "utc";
		document.cookie = `zone=${root.dataset.zone}; path=/; samesite=lax; max-age=31536000`;
		labelZone();
		count();
		document.dispatchEvent(new Event("reelay:zone"));
	});

	// A stream beats every 5 s: see beatEvery in Go.
	const silence = 15_000;
	const live = document.querySelector("#live");
	const stale = document.querySelector("#stale");
	let heard = Date.now();
	let connection = null;
	const pulse = document.querySelector("#pulse");
	let state = "current"; // or interrupted; or over: the session ended; or done: nothing more happens
	let paused = false; // on demand
	let selected = false; // rows, which must not move
	let resume = null; // lets the message through that waits for the end of the pause
	const still = () => paused || selected;
	let waiting = 0; // for a connection that is being made

	const become = (next) => {
		clearTimeout(waiting);
		if (state === "over" || state === "done") return;
		state = next;
		tell();
	};
	const words = () => {
		if (state === "over") return ["Ended", "Your session ended."];
		if (selected) return ["Paused", "Updates paused while rows are selected."];
		if (paused) return ["Paused", "Updates paused."];
		if (state === "interrupted") return ["Offline", "Live updates interrupted. Reconnecting…"];
		return ["Live", ""];
	};
	const tell = () => {
		stale.hidden = state === "done" || state === "current" && !still();
		const [text] = stale.getElementsByTagName("strong");
		const [login] = stale.getElementsByTagName("a");
		const [again] = stale.getElementsByTagName("button");
		const [short, long] = words();
		show(text, stale.hidden ? "" : long);
		again.hidden = !paused || state === "over";
		if (pulse) {
			pulse.hidden = state === "done";
			pulse.dataset.state = short.toLowerCase();
			show(pulse.lastElementChild, short);
		}
		login.hidden = state !== "over";
		login.href = "/login?next=" + encodeURIComponent(location.pathname + location.search);
		age();
	};
	const age = () => {
		const seconds = (Date.now() - heard) / 1000;
		const last = `Last update ${since(seconds)}.`;
		show(stale.querySelector(".age"), last + (resume ? " Newer data are waiting." : ""));
		if (pulse) pulse.title = `${last} ${paused ? "Resume" : "Pause"} updates (.)`;
	};
	const settle = (was) => {
		if (was === still()) return;
		if (!still() && resume) {
			resume();
			resume = null;
			heard = Date.now();
		}
		tell();
		document.dispatchEvent(new Event(still() ? "reelay:paused" : "reelay:resumed"));
	};
	const pause = (next) => {
		const was = still();
		paused = next;
		settle(was);
		tell();
	};
	// An update that arrives during a pause waits for its end, and the stream is closed: the
	// next one begins with the newest state.
	const hold = (update) => {
		update.waitUntil(new Promise((done) => (resume = done)));
		update.connection.reader?.cancel();
		age();
	};
	const hear = () => {
		heard = Date.now();
		become("current");
	};
	const look = () => {
		if (document.hidden) return;
		if (state === "current" && !still() && Date.now() - heard > silence) {
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
		live.addEventListener("htmx:sse:before:message", (event) => {
			if (!still() || event.detail.message.event) hear();
			else hold(event.detail);
		});
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

		document.addEventListener("click", (event) => {
			if (event.target.closest("[data-do]")?.dataset.do === "pause") pause(!paused);
		});
		const select = () => {
			const was = still();
			selected = live.querySelector("[data-select]:checked") !== null;
			settle(was);
		};
		document.addEventListener("change", (event) => event.target.matches("[data-select]") && select());
		document.addEventListener("reelay:selection", select);
		new MutationObserver(count).observe(live, { childList: true, subtree: true, characterData: true });
		pulse?.removeAttribute("hidden");
		tell();
		select();
	}
	window.reelayTime = { duration, moment };
	setInterval(count, 1000);
	count();
	labelZone();
}
