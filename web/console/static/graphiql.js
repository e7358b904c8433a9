// Runs GraphiQL with the key that is entered above it. The key is kept for this
// tab alone, and never in an address.
"use strict";

const slot = "reelay-key";
const form = document.querySelector("#login");
const field = document.querySelector("#key");
const root = ReactDOM.createRoot(document.querySelector("#graphiql"));
const stream = "text/event-stream";

field.value = sessionStorage.getItem(slot) ?? "";
form.addEventListener("submit", (event) => {
	event.preventDefault();
	sessionStorage.setItem(slot, field.value.trim());
	open();
});
open();

// open shows GraphiQL anew, since another key may see another schema.
function open() {
	const key = sessionStorage.getItem(slot) ?? "";
	root.render(React.createElement(GraphiQL, {
		key,
		fetcher: (request) => key ? follow(key, request) : { errors: [{ message: "Enter a key above." }] },
		isHeadersEditorEnabled: false,
		defaultQuery: "{\n  viewer {\n    role\n  }\n}\n",
	}));
}

// GraphiQL's editors have no names of their own.
const names = [
	[".graphiql-query-editor textarea", "Query"],
	[".graphiql-response textarea", "Response"],
	[".graphiql-editor-tool textarea", "Variables"],
];
new MutationObserver(() => {
	for (const [editors, name] of names) {
		for (const editor of document.querySelectorAll(editors)) {
			if (editor.getAttribute("aria-label") !== name) editor.setAttribute("aria-label", name);
		}
	}
}).observe(document.querySelector("#graphiql"), { childList: true, subtree: true });

// follow tells an observer what comes as server-sent events, until they end or
// are left. A query is answered by one, a subscription by many.
function follow(key, request) {
	return {
		subscribe(observer) {
			const leaving = new AbortController();
			read(key, request, leaving.signal, (result) => observer.next(result)).then(
				() => observer.complete(),
				(err) => leaving.signal.aborted || observer.error(err),
			);
			return { unsubscribe: () => leaving.abort() };
		},
	};
}

async function read(key, request, signal, next) {
	const answer = await fetch("/graphql", {
		method: "POST",
		headers: { Accept: stream, Authorization: "Bearer " + key, "Content-Type": "application/json" },
		body: JSON.stringify(request),
		credentials: "omit",
		signal,
	});
	if (!answer.headers.get("Content-Type").startsWith(stream)) {
		next(await answer.json());
		return;
	}
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
		const events = (rest + chunk.value).split("\n\n");
		rest = events.pop();
		for (const event of events) {
			const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n").trim();
			if (data) next(JSON.parse(data));
		}
	}
}
