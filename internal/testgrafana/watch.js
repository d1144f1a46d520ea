// Runs in each page before its own scripts. The names of elements are those of @grafana/e2e-selectors 12.3.
(() => {
  const watch = { asked: 0, open: 0, failed: [], still: 0 };
  window.panelWatch = watch;
  const fetch = window.fetch;

  // An answer of 200 may have an error for each of its queries.
  async function judge(response) {
    const text = await response.clone().text();
    if (!response.ok) {
      watch.failed.push(`${response.url}: ${response.status} ${text.slice(0, 300)}`);
      return;
    }
    let results = {};
    try {
      results = JSON.parse(text).results ?? {};
    } catch {
      // not an answer to queries
    }
    for (const [ref, { error }] of Object.entries(results)) {
      if (error) {
        watch.failed.push(`query ${ref}: ${error}`);
      }
    }
  }

  window.fetch = async (...args) => {
    const url = String(args[0] instanceof Request ? args[0].url : args[0]);
    if (!/\/api\/(ds\/query|datasources\/)/.test(url)) {
      return fetch(...args);
    }
    watch.open++;
    try {
      const response = await fetch(...args);
      await judge(response);
      if (url.includes('/api/ds/query')) {
        watch.asked++;
      }
      return response;
    } catch (error) {
      if (error.name !== 'AbortError') {
        watch.failed.push(`${url}: ${error}`); // a query that a newer one replaces is aborted
      }
      throw error;
    } finally {
      watch.open--;
    }
  };

  const all = (name) => [...document.querySelectorAll(`[data-testid="data-testid ${name}"]`)];
  const shown = () =>
    ['Panel status error', 'Panel data error message', 'Alert error'].flatMap((name) =>
      all(name).map((e) => `${name}: ${[e.getAttribute('aria-label'), e.textContent].filter(Boolean).join(' ')}`)
    );

  /** outcome is null until the panel is done: it has its content and answers to its queries, loads nothing, and three frames went by. */
  watch.outcome = (asks) => {
    const loading = document.querySelector('[aria-label="Panel loading bar"]');
    const done = all('panel content').length > 0 && !loading && watch.open === 0 && (!asks || watch.asked > 0);
    const errors = [...watch.failed, ...shown()];
    watch.still = done || errors.length > 0 ? watch.still + 1 : 0;
    return watch.still > 3 ? { errors } : null;
  };
  watch.state = () =>
    `${watch.asked} queries answered, ${watch.open} under way, ${all('panel content').length} panels, ${document.title}, ${document.body?.innerText.slice(0, 200)}`;
})();
