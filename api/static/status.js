"use strict";
// Loads the page again when something changes, and now and then for the ages, and puts its main part in the place of ours.
(() => {
	const connection = document.getElementById("connection");
	const refreshEvery = 10000;
	const reconnectAfter = 5000;
	const settle = 200; // several events of one poll cause one load
	let timer = 0;
	let waiting = false; // for events to settle
	let loading = false;
	let again = false; // something has changed while the page was loading
	let streaming = false;
	let answered = true;

	function tell() {
		document.body.dataset.stale = answered ? "" : "true";
		if (!answered) {
			connection.textContent = "The exporter does not answer: what is shown is old.";
		} else if (streaming) {
			connection.textContent = "Live";
		} else {
			connection.textContent = "The stream of changes is interrupted; trying again.";
		}
	}

	async function refresh() {
		waiting = false;
		loading = true;
		try {
			const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(refreshEvery) });
			if (!answer.ok) {
				throw new Error(answer.statusText);
			}
			const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
			const live = document.getElementById("live");
			const open = [...live.querySelectorAll("details")].map((d) => d.open);
			next.querySelectorAll("details").forEach((d, i) => { d.open = Boolean(open[i]); });
			live.replaceWith(next);
			answered = true;
		} catch {
			answered = false;
		}
		loading = false;
		tell();
		timer = setTimeout(refresh, refreshEvery);
		if (again) {
			soon();
		}
	}

	// Loads the page after a moment, which later events do not put off.
	function soon() {
		again = loading;
		if (loading || waiting) {
			return;
		}
		waiting = true;
		clearTimeout(timer);
		timer = setTimeout(refresh, settle);
	}

	// A browser connects again by itself, but not after an answer such as 503 or 401.
	function connect() {
		const events = new EventSource("api/v1/events");
		events.onopen = () => { streaming = true; tell(); };
		events.onerror = () => {
			streaming = false;
			tell();
			if (events.readyState === EventSource.CLOSED) {
				setTimeout(connect, reconnectAfter);
			}
		};
		for (const name of ["reset", "lock", "term", "removed"]) {
			events.addEventListener(name, soon);
		}
	}

	connect();
	timer = setTimeout(refresh, refreshEvery);
})();
