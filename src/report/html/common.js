// What both pages have: their data, sections, tables of sheets, the bar at the top, themes, print.

const DATA = JSON.parse(document.getElementById("data").textContent);
const PAGE = document.getElementById("page");

/** The cells of a column; src/report/html/pack.rs says how they are packed. */
function unpacked(column) {
  if (Array.isArray(column)) return column;
  if (column.lists)
    return column.lists.map((list) => Array.from(list, (letter) => letter.charCodeAt(0) - 0xc0));
  let cells = column.index;
  if (column.runs) {
    cells = [];
    for (let i = 0; i < column.runs.length; i += 2)
      for (let n = 0; n < column.runs[i + 1]; n++) cells.push(column.runs[i]);
  }
  return column.texts ? cells.map((i) => (i < 0 ? null : column.texts[i])) : cells;
}

/** A table of the document: rows of cells, by name of the column. */
class Sheet {
  constructor(raw) {
    this.name = raw.name || "";
    this.summary = raw.summary || "";
    this.caveats = raw.caveats || [];
    this.reason = raw.reason;
    this.columns = raw.columns || [];
    this.places = new Map(this.columns.map((c, i) => [c.name, i]));
    this.rows = [];
    const data = (raw.data || []).map(unpacked);
    for (let row = 0; row < (raw.row_count || 0); row++) this.rows.push(data.map((c) => c[row]));
  }

  has(...names) {
    return names.every((n) => this.places.has(n));
  }

  /** A cell; null where the sheet has no such column. */
  at(row, column) {
    const place = this.places.get(column);
    const value = place === undefined ? null : row[place];
    return value === undefined ? null : value;
  }

  unit(column) {
    const place = this.places.get(column);
    return place === undefined ? undefined : this.columns[place].unit;
  }

  /** Distinct values of a column, in order. */
  distinct(...columns) {
    const seen = new Map();
    for (const row of this.rows) {
      const key = columns.map((c) => this.at(row, c));
      seen.set(JSON.stringify(key), key);
    }
    return [...seen.values()].sort((a, b) => {
      for (let i = 0; i < a.length; i++) {
        const order =
          missing(a[i]) - missing(b[i]) || (missing(a[i]) ? 0 : compareCells(a[i], b[i]));
        if (order) return order;
      }
      return 0;
    });
  }
}

/** The sheets of a report or of a run, by name; one that is not there has no rows and says so. */
class Sheets {
  constructor(list) {
    this.all = (list || []).map((raw) => new Sheet(raw));
    this.byName = new Map(this.all.map((s) => [s.name, s]));
    this.used = new Set();
  }

  get(sheetName) {
    this.used.add(sheetName);
    return (
      this.byName.get(sheetName) ||
      new Sheet({name: sheetName, reason: `there is no sheet ${sheetName} here`})
    );
  }

  first(...names) {
    const found = names.find((n) => this.byName.has(n) && this.byName.get(n).rows.length);
    return this.get(found || names[0]);
  }

  rest() {
    return this.all.filter((s) => !this.used.has(s.name));
  }
}

const rankName = (rank) => (rank === null ? "no rank" : `rank ${rank}`);
const sentence = (text) => {
  const t = plain(text || "").trim();
  return t ? t[0].toUpperCase() + t.slice(1) + (/[.!?:]$/.test(t) ? "" : ".") : "";
};

const TIME_PARTS = [
  ["computation_time", "compute", "compute"],
  ["exposed_comm_time", "exposed communication", "comm"],
  ["exposed_memcpy_time", "exposed copies", "copy"],
  ["idle_time", "idle", "idle"],
];

/** What a plot of times by part can show, and the words for it. */
const TIME_UNITS = [
  ["time_ms", "ms"],
  ["share_pct", "%"],
];

/** Stacked bars of the parts of the time of devices; `value(place, type, column)` gives a cell. */
function timeBars(names, column, value) {
  const parts = (i) =>
    TIME_PARTS.map(([type, title, colour]) => {
      const time = human(value(i, type, "time_ms"), "ms");
      const share = human(value(i, type, "share_pct"), "pct");
      return [title, `${time}  ${share}`, palette[colour]];
    });
  const total = (i) => ["total", human(value(i, "total_time", "time_ms"), "ms")];
  return lyingBars({
    categories: names,
    stack: true,
    unit: column === "time_ms" ? "ms" : "pct",
    max: column === "time_ms" ? undefined : 100,
    series: TIME_PARTS.map(([type, title, colour]) => ({
      name: title,
      colour: palette[colour],
      values: names.map((_, i) => value(i, type, column)),
    })),
    tooltip: (i) => tip(names[i], [...parts(i), total(i)]),
  });
}

const sections = [];

/** A part of the page with a heading, and a place in the bar at the top. */
function section(id, title, summary, {half, nav} = {}) {
  const controls = el("div.controls");
  const body = el("div.body");
  const root = el(
    half ? "section.card.half" : "section.card",
    {id, "aria-labelledby": `${id}-title`},
    el(
      "header",
      el("div", el("h2", {id: `${id}-title`}, title), summary ? el("p.sub", summary) : null),
      controls,
    ),
    body,
  );
  sections.push({id, title: nav === undefined ? title : nav, root});
  PAGE.append(root);
  return {root, controls, body};
}

/** The line in place of what cannot be shown. */
const absent = (reason) =>
  el("p.absent", `Not shown: ${plain(reason || "there are no rows").replace(/\.$/, "")}.`);

/** What has nothing to show, and why: one card at the end has all of it. */
const notShown = [];

/** A part of the page that has nothing to show after all leaves no empty card. */
function leave(part, title, reason) {
  if (part) {
    part.root.remove();
    sections.pop();
  }
  notShown.push([title, plain(reason || "there are no rows")]);
  return null;
}

/** A plot with the table of its numbers; without rows the reason. */
function plotSection({id, title, nav, summary, sheet, sheets = [sheet], half, make}) {
  if (!sheets.some((s) => s.rows.length)) return leave(null, title, sheets[0].reason);
  const part = section(id, title, summary === undefined ? sentence(sheets[0].summary) : summary, {
    half,
    nav,
  });
  const item = make(part);
  if (typeof item === "string") return leave(part, title, item);
  part.body.prepend(item.over ? el("div.over", item.node, item.over) : item.node);
  for (const s of sheets) {
    if (s.rows.length && s.reason) part.body.append(el("p.sub", sentence(s.reason)));
  }
  for (const s of sheets.filter((t) => t.rows.length && !t.shown)) {
    part.body.append(
      disclosure(
        `Data: ${s.title || s.name}, ${s.rows.length} ${s.rows.length === 1 ? "row" : "rows"}`,
        () => [sheetTable(s, {}), s.caveats.map((caveat) => el("p.sub", sentence(caveat)))],
      ),
    );
  }
  return item;
}

/** Headings of sheets are `snake_case` names: `_` lets a line break. */
const headingOf = (column) => column.heading || column.name;

/** All of a sheet as a table. `cells` overrides how single columns are shown. */
function sheetTable(sheet, {id, cells = {}, without = [], sort, page, extra, filter}) {
  const columns = sheet.columns
    .map((c, i) => ({c, i}))
    .filter(({c}) => !without.includes(c.name))
    .filter(({i}) => sheet.rows.length === 0 || sheet.rows.some((row) => !missing(row[i])))
    .map(({c, i}) => {
      const numeric = sheet.rows.every((row) => missing(row[i]) || typeof row[i] === "number");
      const own = cells[c.name];
      const text = typeof own === "function" ? (row) => own(row[i], row) : undefined;
      const status = c.name === "status" ? (row) => badge(row[i]) : undefined;
      return {
        title: headingOf(c),
        unit: c.unit,
        doc: c.doc,
        numeric,
        value: (row) => row[i],
        cell: text || status,
        cls: numeric ? "" : "text",
      };
    });
  return sortableTable({
    id,
    label: sheet.title || sheet.name,
    columns,
    rows: sheet.rows,
    sort,
    page,
    extra,
    filter,
  });
}

const STATUS_MARKS = new Map([
  ["Better", "▲"],
  ["Worse", "▼"],
  ["Similar", "="],
]);

/** A status with a sign beside its colour; the larger its effect in percent, the larger it is. */
function badge(status, effect) {
  if (missing(status)) return el("span.none", "n/a");
  const kind = STATUS_MARKS.has(status) ? status.toLowerCase() : "similar";
  const size = missing(effect)
    ? ""
    : Math.abs(effect) >= 5
      ? ".large"
      : Math.abs(effect) < 1
        ? ".small"
        : "";
  return el(
    `span.badge.${kind}${size}`,
    el("span", {"aria-hidden": "true"}, STATUS_MARKS.get(status) || "·"),
    " ",
    status,
  );
}

/** Names and values in two columns. */
function facts(pairs) {
  return el(
    "dl.facts",
    pairs.map(([key, value, title]) =>
      el("div", el("dt", key), el("dd", {title}, value instanceof Node ? value : name(value))),
    ),
  );
}

// The bar at the top, and themes.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const THEME_KEY = "ccl-sql-theme";
let chosenTheme = null;

/** A page from disk may have no storage. */
function stored() {
  try {
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null;
  }
}

function store(theme) {
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // The choice lasts as long as the page.
  }
}

function applyTheme() {
  const theme = printing ? "light" : chosenTheme || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) {
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to the ${theme === "dark" ? "light" : "dark"} theme`);
  }
}

function toggleTheme() {
  chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  store(chosenTheme);
  applyTheme();
  drawAll();
}

/** In the frame of a notebook a place in the page would be one in the page of the notebook. */
function jump(event, id) {
  if (location.protocol !== "about:") return;
  event.preventDefault();
  document.getElementById(id).scrollIntoView();
}

function topBar(title, kind) {
  const links = el(
    "nav",
    {"aria-label": "Sections"},
    sections
      .filter((s) => s.title)
      .map((s) => el("a", {href: `#${s.id}`, onclick: (event) => jump(event, s.id)}, s.title)),
  );
  return el(
    "div.bar",
    el("div.bar-title", name(title, "b.bdi"), el("span.kind", kind)),
    links,
    el("button.theme", {id: "theme", type: "button", onclick: toggleTheme}, "Dark"),
  );
}

/** Turns the page to paper and back: light colours, charts as wide as a sheet, tables whole. */
let unprint = [];
function startPrint() {
  if (printing) return;
  printing = true;
  document.documentElement.classList.add("printing");
  applyTheme();
  unprint = tables.map((table) => table(true));
  drawAll();
}

function endPrint() {
  if (!printing) return;
  printing = false;
  document.documentElement.classList.remove("printing");
  applyTheme();
  unprint.forEach((back) => back());
  drawAll();
}

/** Shows the page that the sections make. */
function show(title, kind) {
  document.body.prepend(topBar(title, kind));
  // A card that has no other beside it has the whole line.
  const halves = sections.filter((s) => s.root.classList.contains("half"));
  if (halves.length % 2) halves[halves.length - 1].root.classList.remove("half");
  const from = DATA.provenance || {};
  PAGE.append(
    el(
      "footer",
      el("span", `ccl-sql ${from.ccl_sql || ""}`),
      from.schema_version ? el("span", `tables of version ${from.schema_version}`) : null,
      from.trace_fingerprint
        ? el(
            "span",
            {title: from.trace_fingerprint},
            `trace ${String(from.trace_fingerprint).slice(0, 12)}`,
          )
        : null,
      el("span", `Plots by Apache ECharts ${echarts.version}, Apache License 2.0`),
    ),
  );
  applyTheme();
  startPlots();
  dark.addEventListener("change", () => {
    applyTheme();
    drawAll();
  });
  window.addEventListener("beforeprint", startPrint);
  window.addEventListener("afterprint", endPrint);
  document.documentElement.dataset.ready = "true";
}

chosenTheme = stored();
applyTheme();
readPalette();
