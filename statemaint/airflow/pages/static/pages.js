// What all pages share: theme, links, heat map, and Airflow's API.
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

// -- links to Airflow's own pages, and to others, leave the frame, which may open no window

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.airflow");
  const outer = around();
  if (!link || !outer || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const theirs = outer.ownerDocument.createElement("a");
  Object.assign(theirs, { href: link.href, target: link.target, rel: link.rel });
  theirs.click();
});

// -- the address of the page around this one keeps what this one shows

function outerHistory() {
  return around() && window.parent.history;
}

function outerHash() {
  return around() ? window.parent.location.hash.slice(1) : "";
}

function remember(hash) {
  const outer = outerHistory();
  if (outer) outer.replaceState(outer.state, "", `${window.parent.location.pathname}${hash ? `#${hash}` : ""}`);
}

function inStateTab() {
  return around() && window.parent.location.pathname.endsWith("statemaint-state");
}

// A partition has an address in the tab State: the hash of the page around it.
function partitionAddress() {
  const here = document.querySelector("main > [data-partition]"), query = document.querySelector("[data-partitions]");
  if (!inStateTab()) return;
  if (here) {
    remember(`partition=${here.dataset.partition}`);
    document.querySelector("a.query").addEventListener("click", () => remember(""));
  } else if (query) {
    const found = /^partition=(\d+\/\d+)(\?query=[^&]*)?$/.exec(outerHash());
    const [opened] = performance.getEntriesByType("navigation");
    if (!found) return;
    if (opened && opened.type === "back_forward") remember("");
    else location.replace(query.dataset.partitions + found[1] + (found[2] || query.dataset.suffix));
  }
}

// The link to all queries leads to the rows that were shown.
function backToFleet() {
  const shown = sessionStorage.getItem("statemaint-fleet");
  document.querySelectorAll("a.fleet").forEach((link) => { if (shown) link.search = shown; });
}

// -- all rows of the page with all queries, as they are now

function queryOf(row) {
  return row.querySelector("th").dataset.v;
}

function identity(row) {
  return `${row.dataset.dag} ${queryOf(row)}`;
}

async function freshFleet() {
  const answer = await fetch(`${location.pathname}?whole=true`, { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return new DOMParser().parseFromString(await answer.text(), "text/html"); // our own page
}

// -- the heat map

function heat(group) {
  const legend = document.getElementById("legend");
  const legends = [
    legend.textContent,
    "Bytes of all files of the partition; the colour is relative to the largest, and to the median.",
    "Findings; damage is red.",
  ];
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const measure = Number(button.dataset.measure);
    group.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
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
  dialog.querySelectorAll("button").forEach((button) => {
    button.onclick = () => { if (button.value === "no" || answer.reportValidity()) dialog.close(button.value); };
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

function send(method, path, body) {
  return request(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

function tell(text, path) {
  const place = document.getElementById("done");
  place.replaceChildren(text);
  if (path) place.append(" ", airflowLink(path));
}

function airflowLink(path) {
  const link = document.createElement("a");
  link.className = "airflow";
  link.href = document.documentElement.dataset.root + path;
  link.textContent = "Show the run";
  return link;
}

function runLink(dag, id) {
  return airflowLink(`/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(id)}`);
}

// After a page has been loaded again, it says what has ended.
function tellDone() {
  const [page, text, path] = JSON.parse(sessionStorage.getItem("statemaint-done") || "[]");
  if (page !== location.pathname || !document.getElementById("done")) return;
  sessionStorage.removeItem("statemaint-done");
  tell(text, path);
}

function startRun(dag, conf) {
  return send("POST", `/api/v2/dags/${encodeURIComponent(dag)}/dagRuns`, { logical_date: null, conf });
}

// The acknowledgement is the first line of a run's note; Airflow keeps a thousand characters.
async function acknowledge(dag, run, { text, hours }) {
  if (!run) throw new Error("its DAG has no run yet, whose note it would be");
  const path = `/api/v2/dags/${encodeURIComponent(dag)}/dagRuns/${encodeURIComponent(run)}`;
  const before = (await request(path)).note || "";
  const kept = before.replace(/^ack until [^\n]*\n?/, "");
  const until = new Date(Date.now() + hours * 3600e3).toISOString().slice(0, 16);
  const note = `ack until ${until}Z: ${text.replace(/\s+/g, " ")}\n${kept}`.slice(0, 1000);
  return send("PATCH", `${path}?update_mask=note`, { note });
}

function askAcknowledgement() {
  const dialog = document.getElementById("acknowledge"), text = document.getElementById("ack-text");
  text.value = "";
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.querySelectorAll("button").forEach((button) => { button.onclick = () => dialog.close(button.value); });
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const hours = Number(document.getElementById("ack-hours").value);
      resolve(dialog.returnValue === "yes" ? { text: text.value.trim() || "acknowledged", hours } : null);
    }, { once: true });
  });
}

let watching = 0; // the runs started here, each of which loads the page again at its end

async function start(button) {
  const { dag, asks, field } = button.dataset, conf = JSON.parse(button.dataset.conf);
  if (asks && !(await confirmed(`${asks} Start it?`, field))) return;
  if (field) conf[field] = Number(document.getElementById("answer").value);
  const runs = `/api/v2/dags/${encodeURIComponent(dag)}/dagRuns`;
  button.disabled = true;
  try {
    watching += 1;
    const run = await startRun(dag, conf);
    dispatchEvent(new Event("statemaint:started"));
    await watch(`${runs}/${encodeURIComponent(run.dag_run_id)}`, button.textContent, dag, run.dag_run_id);
  } catch (error) {
    tell(error.message);
  } finally {
    watching -= 1;
    button.disabled = false;
  }
}

async function watch(path, label, dag, id) {
  const page = `/dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(id)}`;
  for (;;) {
    const { state } = await request(path);
    if (state === "success" || state === "failed") {
      sessionStorage.setItem("statemaint-done", JSON.stringify([location.pathname, `${label}: ${state}.`, page]));
      location.reload();
      return;
    }
    tell(`${label}: ${state} ...`, page); // how far it is: live.js
    do await new Promise((resolve) => { setTimeout(resolve, 2000); }); while (document.hidden);
  }
}

function unpauseDag(dag) {
  return send("PATCH", `/api/v2/dags/${encodeURIComponent(dag)}?update_mask=is_paused`, { is_paused: false });
}

async function unpause(button) {
  button.disabled = true;
  try {
    await unpauseDag(button.dataset.dag);
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
    try {
      const answer = await fetch(details.dataset.from, { credentials: "same-origin" });
      place.innerHTML = await answer.text(); // our own page, escaped there
      if (!answer.ok) delete place.dataset.read; // and read when it is opened again
    } catch (error) {
      delete place.dataset.read;
      place.textContent = `The ledger cannot be read: ${error.message}. Open this again in a moment.`;
    }
  });
}

document.addEventListener("DOMContentLoaded", () => {
  const on = (id, then) => { const found = document.getElementById(id); if (found) then(found); };
  partitionAddress();
  backToFleet();
  tellDone();
  on("acknowledge-this", (button) => button.addEventListener("click", async () => {
    const given = await askAcknowledgement();
    if (!given) return;
    try {
      await acknowledge(button.dataset.dag, button.dataset.run, given);
      location.reload();
    } catch (error) {
      tell(error.message);
    }
  }));
  on("measure", heat);
  on("ledger", ledger);
  on("steps", steps);
});
