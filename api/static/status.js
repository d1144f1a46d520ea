"use strict";
// Loads the page again when something changes, and now and then for the ages, and puts its main part in the place of ours.
(() => {
	const connection = document.getElementById("connection");
	const refreshEvery = 10000;
	const settle = 200; // several events of one poll cause one load
	let timer = 0;
	let loading = false;

	async function refresh() {
		clearTimeout(timer);
		timer = setTimeout(refresh, refreshEvery);
		if (loading) {
			return;
		}
		loading = true;
		try {
			const answer = await fetch(location.href, { cache: "no-store" });
			if (!answer.ok) {
				throw new Error(answer.statusText);
			}
			const next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
			const live = document.getElementById("live");
			const open = [...live.querySelectorAll("details")].map((d) => d.open);
			next.querySelectorAll("details").forEach((d, i) => { d.open = Boolean(open[i]); });
			live.replaceWith(next);
			document.body.dataset.stale = "";
		} catch {
			document.body.dataset.stale = "true";
			connection.textContent = "The exporter does not answer: what is shown is old.";
		} finally {
			loading = false;
		}
	}

	function soon() {
		clearTimeout(timer);
		timer = setTimeout(refresh, settle);
	}

	const events = new EventSource("api/v1/events");
	events.onopen = () => { connection.textContent = "Live"; };
	events.onerror = () => { connection.textContent = "The stream of changes is interrupted; trying again."; };
	for (const name of ["reset", "lock", "term", "removed"]) {
		events.addEventListener(name, soon);
	}
	timer = setTimeout(refresh, refreshEvery);
})();
