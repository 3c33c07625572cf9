// While a run is under way: how far it is, and its figures once it has ended.
"use strict";

(() => {
  const place = document.querySelector("[data-activity]");
  if (!place) return;
  const SOON = 3_000, LATER = 60_000, table = document.getElementById("fleet");
  const LARGE = 1_000; // rows: of a larger table, the figures are read once a minute
  const pending = new Set(); // the DAGs whose ended runs are not shown yet
  let timer = 0, before = new Map(), renewed = 0;

  const key = (run) => `${run.dag} ${run.run}`;

  function span(seconds) {
    if (seconds < 60) return `${seconds} s`;
    return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
  }

  function words(run) {
    if (run.state === "queued") return "queued";
    const done = run.total ? `, ${run.done} of ${run.total} tasks` : "";
    return `${run.state}${done}${run.left === null ? "" : `, about ${span(run.left)} left`}`;
  }

  // -- all queries: the cell of the last run, and the rows of runs that have ended

  function showRows(runs) {
    const byDag = new Map([...runs].reverse().map((run) => [run.dag, run])); // the oldest is under way
    table.querySelectorAll("tbody tr").forEach((row) => {
      const run = byDag.get(row.dataset.dag);
      if (!run || (run.queries.length && !run.queries.includes(queryOf(row)))) return;
      row.querySelector("td.run").replaceChildren(Object.assign(runLink(run.dag, run.run), { textContent: words(run) }));
    });
  }

  async function renew(dags) {
    const fresh = await freshFleet();
    const rows = new Map([...fresh.querySelectorAll("#fleet tbody tr")].map((row) => [identity(row), row]));
    table.querySelectorAll("tbody tr").forEach((row) => {
      const now = rows.get(identity(row));
      if (!now || !dags.has(row.dataset.dag)) return;
      const [was, box] = [row.querySelector(".pick"), now.querySelector(".pick")];
      if (was && box) box.checked = was.checked;
      row.replaceWith(document.adoptNode(now));
    });
    const sums = fresh.getElementById("totals");
    if (sums) document.getElementById("totals").replaceWith(document.adoptNode(sums));
    dispatchEvent(new Event("statemaint:rows"));
  }

  // -- one query

  function showStatus(runs) {
    place.textContent = runs.map((run) => `Run ${run.run}: ${words(run)}.`).join(" ");
  }

  // -- the clock: every few seconds while something runs, one light check a minute otherwise

  async function check() {
    clearTimeout(timer);
    if (document.hidden) return; // until the tab is looked at again
    let wait = LATER;
    try {
      const answer = await fetch(place.dataset.activity, { credentials: "same-origin" });
      if (answer.status === 401 || answer.status === 403) return; // logged out
      if (!answer.ok) throw new Error(answer.statusText);
      const runs = await answer.json(), now = new Map(runs.map((run) => [key(run), run]));
      const ended = [...before.values()].filter((run) => !now.has(key(run)));
      before = now;
      ended.forEach((run) => pending.add(run.dag));
      if (runs.length || pending.size) wait = SOON;
      if (table) {
        const pause = table.tBodies[0].rows.length > LARGE ? LATER : 0;
        if (pending.size && Date.now() - renewed >= pause) {
          await renew(pending);
          pending.clear();
          renewed = Date.now();
        }
        showRows(runs);
      } else {
        showStatus(runs);
        if (pending.size && !watching && !document.querySelector("dialog[open]")) { location.reload(); return; }
      }
    } catch {
      // the server is away: the next check shows whether it is back
    }
    timer = setTimeout(check, wait);
  }

  document.addEventListener("visibilitychange", check);
  addEventListener("statemaint:acted", (event) => {
    event.detail.forEach((dag) => pending.add(dag));
    renewed = 0;
    check();
  });
  addEventListener("statemaint:started", check);
  check();
})();
