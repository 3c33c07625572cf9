// The pages' script: theme, sorting, filter, heat map, and runs started through Airflow's API.
"use strict";

// -- Airflow's colours, whatever the operating system says

function around() {
  try {
    return window.parent === window ? null : window.parent.document.documentElement;
  } catch {
    return null; // framed by another origin
  }
}

function isDark() {
  const outer = around();
  if (outer && outer.classList.contains("dark")) return true;
  if (outer && outer.classList.contains("light")) return false;
  const chosen = localStorage.getItem("theme"); // where Airflow keeps it
  if (chosen === "dark" || chosen === "light") return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const COLOURS = { "--bg": "bg", "--text": "fg", "--line": "border", "--panel": "bg-muted" };

function paint() {
  const here = document.documentElement, outer = around();
  here.classList.toggle("dark", isDark());
  here.classList.toggle("light", !isDark());
  const theirs = outer && getComputedStyle(outer);
  for (const [ours, name] of Object.entries(COLOURS)) {
    const colour = theirs && theirs.getPropertyValue(`--chakra-colors-${name}`).trim();
    if (colour) here.style.setProperty(ours, colour);
    else here.style.removeProperty(ours);
  }
}

paint();
if (around()) new MutationObserver(paint).observe(around(), { attributeFilter: ["class", "style"] });
addEventListener("storage", paint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

// -- links to Airflow's own pages leave the frame

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.airflow");
  const outer = around();
  if (!link || !outer || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const theirs = outer.ownerDocument.createElement("a");
  theirs.href = link.href;
  theirs.click();
});

// -- the table of queries

function value(row, column, kind) {
  const text = row.cells[column].dataset.v;
  return kind === "number" ? Number(text) : text;
}

function sortable(table, changed) {
  const body = table.tBodies[0];
  table.querySelectorAll("button.sort").forEach((button) => {
    const head = button.closest("th"), kind = button.dataset.kind;
    button.addEventListener("click", () => {
      const up = head.ariaSort ? head.ariaSort !== "ascending" : head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("thead th").forEach((one) => one.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1);
      const rows = [...body.rows];
      rows.sort((a, b) => order(value(a, head.cellIndex, kind), value(b, head.cellIndex, kind)));
      body.append(...rows);
      changed();
    });
  });
}

function fleet(table) {
  const filter = document.getElementById("filter"), attention = document.getElementById("attention");
  const more = document.getElementById("more"), shown = document.getElementById("shown");
  let most = Number(table.dataset.page);
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const rows = [...table.tBodies[0].rows];
    let fitting = 0;
    rows.forEach((row) => {
      const fits = (!wanted || row.textContent.toLowerCase().includes(wanted))
        && (!attention.checked || "attention" in row.dataset);
      fitting += fits;
      row.hidden = !fits || fitting > most;
    });
    shown.textContent = `${Math.min(fitting, most)} of ${rows.length} shown`;
    more.hidden = fitting <= most;
    more.textContent = `Show all ${fitting}`;
  };
  filter.addEventListener("input", show);
  attention.addEventListener("change", show);
  more.addEventListener("click", () => { most = Infinity; show(); });
  sortable(table, show);
  show();
}

// -- the heat map

function heat(group) {
  const legend = document.getElementById("legend");
  const legends = [
    legend.textContent,
    "Bytes of all files of the partition; the colour is relative to the largest.",
    "Findings; damage is red.",
  ];
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const measure = Number(button.dataset.measure);
    group.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    legend.textContent = legends[measure];
    document.querySelectorAll(".cell").forEach((cell) => {
      cell.dataset.level = cell.dataset.l.split(" ")[measure];
      cell.querySelector("b").textContent = cell.dataset.t.split("|")[measure];
    });
  });
}

// -- runs, through Airflow's API and under the rights of the user

function confirmed(question, field = "") {
  const dialog = document.getElementById("ask"), answer = document.getElementById("answer");
  answer.closest("label").hidden = !field;
  answer.required = Boolean(field);
  answer.value = "";
  document.getElementById("question").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.querySelectorAll("button").forEach((one) => {
    one.onclick = () => { if (one.value === "no" || answer.reportValidity()) dialog.close(one.value); };
  });
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function request(path, options) {
  const answer = await fetch(document.documentElement.dataset.root + path, { credentials: "same-origin", ...options });
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const why = typeof body.detail === "string" ? body.detail : answer.statusText;
    throw new Error(`Airflow refused it (${answer.status}): ${why}`);
  }
  return body;
}

function tell(text, path) {
  const place = document.getElementById("done");
  place.replaceChildren(text);
  if (!path) return;
  const link = document.createElement("a");
  link.className = "airflow";
  link.href = document.documentElement.dataset.root + path;
  link.textContent = "Show the run";
  place.append(" ", link);
}

async function start(button) {
  const { dag, asks, field } = button.dataset, conf = JSON.parse(button.dataset.conf);
  if (asks && !(await confirmed(`${asks} Start it?`, field))) return;
  if (field) conf[field] = Number(document.getElementById("answer").value);
  const runs = `/api/v2/dags/${encodeURIComponent(dag)}/dagRuns`;
  button.disabled = true;
  try {
    const run = await request(runs, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ logical_date: null, conf }),
    });
    await watch(`${runs}/${encodeURIComponent(run.dag_run_id)}`, button.textContent, dag, run.dag_run_id);
  } catch (error) {
    tell(error.message);
  } finally {
    button.disabled = false;
  }
}

async function watch(path, label, dag, id) {
  const page = `/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(id)}`;
  for (;;) {
    const { state } = await request(path);
    if (state === "success" || state === "failed") {
      tell(`${label}: ${state}.`, page);
      const again = document.createElement("button");
      again.type = "button";
      again.textContent = "Show the result";
      again.addEventListener("click", () => location.reload());
      document.getElementById("done").append(" ", again);
      return;
    }
    tell(`${label}: ${state} ...`, page);
    await new Promise((resolve) => { setTimeout(resolve, 2000); });
  }
}

async function unpause(button) {
  button.disabled = true;
  try {
    await request(`/api/v2/dags/${encodeURIComponent(button.dataset.dag)}`, {
      method: "PATCH",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ is_paused: false }),
    });
    tell(`The DAG ${button.dataset.dag} is unpaused.`);
    button.closest("p").remove();
  } catch (error) {
    button.disabled = false;
    tell(error.message);
  }
}

// -- commands to copy

function announce(text) {
  const place = document.getElementById("announced");
  place.textContent = "";
  setTimeout(() => { place.textContent = text; }, 50); // the same text twice is announced twice
}

async function copy(button) {
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // not allowed in the frame, or no HTTPS
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    button.focus();
    if (!done) { announce("It could not be copied."); return; }
  }
  announce(`Copied: ${text}`);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

const PRESSED = { act: start, copy, unpause };

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.act, button.copy, button.unpause");
  if (button) PRESSED[button.classList[0]](button);
});

// -- the steps of a plan

function steps(table) {
  const filter = document.getElementById("step-filter"), count = document.getElementById("step-count");
  const show = () => {
    const wanted = filter.value.trim().toLowerCase(), rows = [...table.tBodies[0].rows];
    rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} match`;
  };
  filter.addEventListener("input", show);
  show();
}

// -- parts that are read when they are opened

function ledger(details) {
  details.addEventListener("toggle", async () => {
    const place = details.querySelector("div");
    if (!details.open || place.dataset.read) return;
    place.dataset.read = "yes";
    place.textContent = "Reading the ledger ...";
    const answer = await fetch(details.dataset.from, { credentials: "same-origin" });
    place.innerHTML = await answer.text(); // our own page, escaped there
  });
}

document.addEventListener("DOMContentLoaded", () => {
  const on = (id, then) => { const found = document.getElementById(id); if (found) then(found); };
  on("fleet", fleet);
  on("measure", heat);
  on("ledger", ledger);
  on("steps", steps);
});
