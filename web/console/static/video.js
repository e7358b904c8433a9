// Plays videos in the gallery, and says so where the browser cannot play a file. Without it, the
// pictures of the gallery are links to the files.
//
// What a page gives:
//   .player         a link to a video, .player-open, around its picture. It plays silently under the
//                   pointer, and with controls once it was clicked.
//   video           any other one: a file that cannot be played gives way to a note with a link.
"use strict";
{
	const make = (tag, props, ...children) => {
		const element = Object.assign(document.createElement(tag), props);
		element.append(...children);
		return element;
	};
	const note = (src) => {
		const link = make("a", { href: src, download: "", textContent: "Download" });
		return make("p", { className: "unplayable-note" }, "This browser cannot play the file. ", link);
	};

	// Videos of a page
	const failed = (video) => {
		if (!video.isConnected || video.closest(".player")) return;
		const box = make("div", { className: "unplayable" });
		if (video.classList.contains("take-picture")) box.classList.add("take-picture");
		if (video.poster) box.append(make("img", { src: video.poster, alt: video.getAttribute("aria-label") ?? "" }));
		box.append(note(video.currentSrc || video.src));
		video.replaceWith(box);
	};
	document.addEventListener("error", (event) => {
		if (event.target.matches?.("video")) failed(event.target);
		if (event.target.matches?.(".player img")) noPicture(event.target);
	}, true);

	// The gallery
	const noPicture = (img) => img.replaceWith(make("span", { className: "no-picture", textContent: "No thumbnail" }));
	const playing = new Map(); // the video of each player that plays
	const stop = (player) => {
		playing.get(player)?.remove();
		playing.delete(player);
		player.classList.remove("playing", "pinned");
	};
	const refuse = (player) => {
		const link = player.querySelector(".player-open");
		stop(player);
		player.querySelector(".first-frame")?.replaceWith(make("span", { className: "no-picture", textContent: "No thumbnail" }));
		player.classList.add("unplayable");
		link.removeAttribute("href");
		link.setAttribute("aria-disabled", "true");
		player.append(note(link.dataset.src));
	};
	const play = (player, pinned) => {
		if (player.classList.contains("unplayable")) return;
		for (const other of playing.keys()) if (other !== player) stop(other);
		const link = player.querySelector(".player-open");
		let video = playing.get(player);
		if (!video) {
			video = make("video", { className: "player-video", muted: true, playsInline: true, loop: true, src: link.dataset.src });
			video.setAttribute("aria-label", link.dataset.name);
			const picture = player.querySelector("img");
			if (picture) video.poster = picture.src;
			video.addEventListener("error", () => refuse(player));
			playing.set(player, video);
			player.append(video);
		}
		player.classList.add("playing");
		if (pinned) {
			player.classList.add("pinned");
			Object.assign(video, { controls: true, muted: false, loop: false });
			video.focus();
		}
		video.play().catch(() => {}); // stopped before it began, or refused: see error
	};

	const calm = matchMedia("(prefers-reduced-motion: reduce)");
	for (const player of document.querySelectorAll(".player")) {
		const link = player.querySelector(".player-open");
		link.dataset.src = link.getAttribute("href");
		let soon = 0;
		player.addEventListener("pointerenter", (event) => {
			if (event.pointerType === "mouse" && !calm.matches) soon = setTimeout(play, 250, player, false);
		});
		player.addEventListener("pointerleave", () => {
			clearTimeout(soon);
			if (!player.classList.contains("pinned")) stop(player);
		});
		link.addEventListener("click", (event) => {
			if (event.ctrlKey || event.metaKey || event.shiftKey || !link.hasAttribute("href")) return;
			event.preventDefault();
			clearTimeout(soon);
			play(player, true);
		});
		const picture = link.querySelector("img");
		if (picture?.complete && picture.naturalWidth === 0) noPicture(picture);
		if (picture) continue;
		// Its first frame stands for the picture that it lacks.
		const frame = make("video", { className: "first-frame", muted: true, playsInline: true, preload: "metadata", src: link.dataset.src });
		frame.addEventListener("error", () => refuse(player));
		frame.addEventListener("loadeddata", () => player.classList.add("has-frame"));
		frame.setAttribute("aria-hidden", "true");
		link.prepend(frame);
	}
	for (const video of document.querySelectorAll("video")) if (video.error) failed(video);
}
