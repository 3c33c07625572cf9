// The page with all queries: sorting, filter and groups, kept in the address; several at once.
"use strict";

(() => {
  const table = document.getElementById("fleet");
  if (!table) return;
  const at = (id) => document.getElementById(id);
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const controls = { filter: at("filter"), attention: at("attention"), by: at("by") };
  const state = new URLSearchParams(location.search || outerHash());
  let most = Number(table.dataset.page);

  const label = (head) => head.textContent.trim();
  const number = (row, name) => Number(row.cells[heads.findIndex((head) => label(head) === name)].dataset.v);
  const groupsOf = (row) => (row.dataset[state.get("by")] || "").split("\n").filter(Boolean);

  // -- what is shown

  function set(name, value) {
    if (value) state.set(name, value);
    else state.delete(name);
  }

  function keep() {
    const text = state.toString();
    history.replaceState(history.state, "", location.pathname + (text ? `?${text}` : ""));
    remember(text);
    sessionStorage.setItem("statemaint-fleet", text);
    document.querySelectorAll("a.export").forEach((link) => {
      const wanted = new URLSearchParams(state);
      wanted.set("format", link.dataset.format);
      if (wanted.has("attention")) wanted.set("attention", "true");
      ["sort", "down"].forEach((name) => wanted.delete(name));
      link.search = wanted.toString();
    });
  }

  function sort() {
    const head = heads.find((column) => label(column) === state.get("sort"));
    heads.forEach((column) => column.setAttribute("aria-sort", "none"));
    if (!head) return;
    const down = state.has("down"), text = head.querySelector("button").dataset.kind !== "number";
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => (text ? row.cells[head.cellIndex].dataset.v : Number(row.cells[head.cellIndex].dataset.v));
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
    body.append(...[...body.rows].sort((a, b) => order(value(a), value(b))));
  }

  function show() {
    const wanted = (state.get("filter") || "").trim().toLowerCase(), member = state.get("member");
    const matching = [...body.rows].filter((row) => {
      const fits = row.dataset.text.includes(wanted) && (!state.has("attention") || "attention" in row.dataset);
      row.hidden = true;
      return fits;
    });
    group(matching);
    const fitting = member ? matching.filter((row) => groupsOf(row).includes(member)) : matching;
    fitting.slice(0, most).forEach((row) => { row.hidden = false; });
    const rest = Number(table.dataset.rest);
    at("shown").textContent = `${fitting.length} of ${body.rows.length} match, ${Math.min(fitting.length, most)} shown${rest ? `; loading ${rest} more ...` : ""}`;
    at("more").hidden = fitting.length <= most;
    at("more").textContent = `Show all ${fitting.length}`;
    const kept = new Set(fitting);
    [...body.querySelectorAll(".pick:checked")].forEach((box) => { box.checked = kept.has(box.closest("tr")); });
    pick(fitting);
    keep();
  }

  // -- groups, each with a summary

  function size(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let value = bytes, unit = 0;
    while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return `${value.toFixed(unit ? 1 : 0)} ${units[unit]}`;
  }

  function group(rows) {
    const place = at("groups"), groups = new Map();
    place.hidden = !state.get("by");
    if (place.hidden) { place.replaceChildren(); return; }
    rows.forEach((row) => {
      const names = groupsOf(row);
      (names.length ? names : [""]).forEach((name) => groups.set(name, [...(groups.get(name) || []), row]));
    });
    const lines = [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, of]) => {
      const sum = (column) => of.reduce((all, row) => all + Math.max(number(row, column), 0), 0);
      const cells = [of.length, of.filter((row) => "attention" in row.dataset).length, size(sum("To replay")), size(sum("Size"))];
      const line = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row";
      if (name) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = name;
        button.setAttribute("aria-pressed", String(state.get("member") === name));
        button.addEventListener("click", () => { set("member", state.get("member") === name ? "" : name); show(); });
        head.append(button);
      } else head.textContent = `no ${state.get("by")}`;
      line.append(head, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text, className: "number" })));
      return line;
    });
    const made = document.createElement("table");
    made.innerHTML = '<thead><tr><th scope="col">Group</th><th scope="col" class="number">Queries</th><th scope="col" class="number">Need attention</th><th scope="col" class="number">To replay</th><th scope="col" class="number">Size</th></tr></thead>';
    made.createTBody().append(...lines);
    place.replaceChildren(made);
  }

  // -- several at once

  let fitting = [];

  const picked = () => [...body.querySelectorAll(".pick:checked")].map((box) => box.closest("tr"));
  const name = (row) => row.querySelector("th a").textContent;

  function pick(rows) {
    fitting = rows || fitting;
    if (!at("bulk")) return;
    const chosen = picked().length;
    at("picked").textContent = chosen ? `${chosen} selected` : "none selected";
    at("all").checked = chosen > 0 && chosen === fitting.filter((row) => row.querySelector(".pick")).length;
    at("bulk").querySelectorAll("button").forEach((button) => { button.disabled = !chosen; });
  }

  // Queries of one DAG need one request.
  function byDag(rows) {
    const dags = new Map();
    rows.forEach((row) => dags.set(row.dataset.dag, [...(dags.get(row.dataset.dag) || []), row]));
    return [...dags];
  }

  function compact([dag, rows]) {
    if (!rows[0].dataset.conf) throw new Error("its DAG has other tasks, or is not valid: run it on its own page");
    const confs = rows.map((row) => JSON.parse(row.dataset.conf));
    const conf = confs[0].queries ? { ...confs[0], queries: confs.flatMap((conf) => conf.queries) } : confs[0];
    return startRun(dag, conf).then((run) => [`started${"paused" in rows[0].dataset ? ", but the DAG is paused: unpause it" : ""}`, dag, run.dag_run_id]);
  }

  const ACTIONS = {
    compact: {
      asks: "write a snapshot of every partition, and delete what it replaces",
      jobs: byDag,
      run: compact,
    },
    verify: {
      asks: "check every file that a retained version needs",
      jobs: (rows) => rows.map((row) => [row.dataset.dag, [row]]),
      run: ([, [row]]) => startRun(at("bulk").dataset.verify, { query: name(row) })
        .then((run) => ["started", at("bulk").dataset.verify, run.dag_run_id]),
    },
    unpause: {
      asks: "unpause the DAGs, whose schedules then run",
      jobs: byDag,
      run: ([dag, rows]) => ("paused" in rows[0].dataset
        ? unpauseDag(dag).then(() => ["unpaused"])
        : ["was not paused"]),
    },
    acknowledge: {
      jobs: byDag,
      run: ([dag, rows], given) => acknowledge(dag, rows[0].dataset.run, given).then(() => ["acknowledged"]),
    },
  };

  async function act(kind) {
    const rows = picked(), { asks, jobs, run } = ACTIONS[kind];
    const count = `${rows.length} ${rows.length === 1 ? "query" : "queries"}`;
    const given = kind === "acknowledge" ? await askAcknowledgement() : await confirmed(`For ${count}: ${asks}. Start it?`);
    if (!given) return;
    const list = at("outcomes"), queue = jobs(rows).map((job) => {
      const line = document.createElement("li");
      line.textContent = `${job[1].map(name).join(", ")}: waiting`;
      return [job, line];
    });
    list.hidden = false;
    list.replaceChildren(...queue.map(([, line]) => line));
    // One at a time: of several requests at once, an Airflow on SQLite refuses some.
    for (const [job, line] of queue) {
      const names = job[1].map(name).join(", ");
      try {
        const [text, dag, id] = await run(job, given);
        line.textContent = `${names}: ${text}`;
        if (dag) line.append(" ", runLink(dag, id));
      } catch (error) {
        line.className = "bad-text";
        line.textContent = `${names}: ${error.message}`;
      }
    }
    dispatchEvent(new CustomEvent("statemaint:acted", { detail: rows.map((row) => row.dataset.dag) }));
  }

  // -- events

  controls.filter.addEventListener("input", () => { set("filter", controls.filter.value); show(); });
  controls.attention.addEventListener("change", () => { set("attention", controls.attention.checked ? "yes" : ""); show(); });
  controls.by.addEventListener("change", () => { set("by", controls.by.value); set("member", ""); show(); });
  at("more").addEventListener("click", () => { most = Infinity; show(); });
  table.tHead.addEventListener("click", (event) => {
    const button = event.target.closest("button.sort");
    if (!button) return;
    const chosen = label(button.closest("th"));
    set("down", state.get("sort") === chosen && !state.has("down") ? "yes" : "");
    set("sort", chosen);
    sort();
    show();
  });
  body.addEventListener("change", () => pick());
  if (at("bulk")) {
    at("all").addEventListener("change", () => {
      fitting.forEach((row) => { const box = row.querySelector(".pick"); if (box) box.checked = at("all").checked; });
      pick();
    });
    at("bulk").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) act(button.dataset.act);
    });
  }
  addEventListener("statemaint:rows", () => { sort(); show(); });

  // Of thousands the worst come with the page, and the others when it is shown.
  async function loadRest() {
    const fresh = await freshFleet(), here = new Set([...body.rows].map(identity));
    body.append(...[...fresh.querySelectorAll("#fleet tbody tr")].filter((row) => !here.has(identity(row))));
    table.dataset.rest = "0";
    sort();
    show();
  }

  controls.filter.value = state.get("filter") || "";
  controls.attention.checked = state.has("attention");
  controls.by.value = state.get("by") || "";
  sort();
  show();
  if (Number(table.dataset.rest)) loadRest().catch((error) => { at("shown").textContent = `the other rows cannot be loaded: ${error.message}`; });
})();
