// The comparison of runs: a base and tests.

const runs = (DATA.runs || []).map((run, i) => ({
  label: run.label || run.trace || `run ${i + 1}`,
  trace: run.trace,
  role: run.role || (i ? "test" : "base"),
  sheets: new Sheets(run.sheets),
  index: i,
}));
const base = runs.find((r) => r.role === "base") || runs[0];
const comparisons = (DATA.comparisons || []).map((c) => ({
  test: c.test,
  sheets: new Sheets(c.sheets),
}));
const threshold = typeof DATA.threshold_pct === "number" ? DATA.threshold_pct : null;
const colourOf = (run) => palette.series[run.index % 8];
const runOf = (text) => runs.find((r) => r.label === text);

/** A run with its colour, which follows the theme. */
function runName(run, text = run.label) {
  const swatch = el(`span.swatch.s${(run.index % 8) + 1}`);
  return el("span.run", swatch, name(text), run === base ? el("span.role", "base") : null);
}

/** Where none of the runs has rows, the reason of the first. */
const reasonOf = (sheetName) => {
  const sheets = runs.map((r) => r.sheets.get(sheetName));
  return (sheets.find((s) => s.reason) || {}).reason || "no run has these rows";
};

/** A plot of the same sheet of all runs; runs without rows are named below it. */
function runsSection({id, title, nav, summary, sheet, half, make}) {
  const part = section(id, title, summary, {half, nav});
  const having = runs.filter((r) => r.sheets.get(sheet).rows.length);
  if (!having.length) {
    part.body.append(absent(reasonOf(sheet)));
    return;
  }
  const item = make(
    part,
    having.map((run) => ({run, sheet: run.sheets.get(sheet)})),
  );
  if (typeof item === "string") {
    part.body.append(absent(item));
    return;
  }
  part.body.prepend(item.node);
  for (const run of runs.filter((r) => !having.includes(r))) {
    part.body.append(
      el(
        "p.sub",
        name(run.label),
        ` is not shown: ${plain(run.sheets.get(sheet).reason || "it has no rows")}.`,
      ),
    );
  }
  part.body.append(
    disclosure(`Data: ${sheet} of ${having.length} ${having.length === 1 ? "run" : "runs"}`, () =>
      having.map((run) => el("div.of-run", runName(run), sheetTable(run.sheets.get(sheet), {}))),
    ),
  );
}

function header() {
  const title = runs.length ? runs.map((r) => r.label).join(" / ") : "no runs";
  const line = [
    `${runs.length} ${runs.length === 1 ? "run" : "runs"}`,
    threshold === null ? null : `similar within ${human(threshold)} %`,
  ];
  PAGE.append(
    el(
      "header.head",
      el("h1", "Comparison"),
      el("p.line", line.filter(Boolean).join(" · ")),
      el(
        "p.runs",
        runs.map((r) => runName(r)),
      ),
    ),
  );
  return title;
}

/** What the runs were, side by side; rows that differ are marked. */
function configuration() {
  const part = section(
    "configuration",
    "Configuration",
    "What the traces and their cards say of the runs; what differs is marked.",
  );
  const sheets = runs.map((r) => r.sheets.get("configuration"));
  const columns = [];
  for (const sheet of sheets) {
    for (const c of sheet.columns) if (!columns.some((d) => d.name === c.name)) columns.push(c);
  }
  const rows = [];
  const push = (title, doc, values, unit) => {
    if (!values.every(missing))
      rows.push({
        title,
        doc,
        values,
        unit,
        differs: new Set(values.map((v) => JSON.stringify(v))).size > 1,
      });
  };
  push(
    "trace",
    "Name of the trace.",
    runs.map((r) => r.trace),
  );
  for (const c of columns) {
    const values = sheets.map((s) => (s.rows.length ? s.at(s.rows[0], c.name) : null));
    if (c.name === "comm_env") {
      const envs = values.map(settings);
      for (const key of [...new Set(envs.flatMap((e) => [...e.keys()]))].sort(compareCells)) {
        push(
          key,
          "A setting of the communication library.",
          envs.map((e) => (e.has(key) ? e.get(key) : null)),
        );
      }
    } else push(headingOf(c), c.doc, values, c.unit);
  }
  if (!rows.length) {
    part.body.append(absent(reasonOf("configuration")));
    return;
  }
  rows.sort((a, b) => b.differs - a.differs);
  const table = el(
    "table",
    {id: "table-configuration"},
    el(
      "thead",
      el(
        "tr",
        el("th.plain", {scope: "col"}, "what"),
        runs.map((r) => el("th.plain", {scope: "col"}, runName(r))),
      ),
    ),
    el(
      "tbody",
      rows.map((row) =>
        el(
          row.differs ? "tr.differs" : "tr",
          el("th.side", {scope: "row", title: row.doc}, name(row.title)),
          row.values.map((v) => el("td.text", name(missing(v) ? "–" : human(v, row.unit)))),
        ),
      ),
    ),
  );
  part.body.append(
    el("div.table", {tabindex: "0", role: "region", "aria-label": "Configuration"}, table),
  );
}

function settings(text) {
  if (missing(text)) return new Map();
  try {
    const value = typeof text === "string" ? JSON.parse(text) : text;
    return new Map(Object.entries(value).map(([k, v]) => [k, human(v)]));
  } catch {
    return new Map([["comm_env", text]]);
  }
}

function ranking() {
  if (!DATA.ranking) return;
  const sheet = new Sheet(DATA.ranking);
  const part = section("ranking", "Ranking", sentence(sheet.summary), {});
  if (!sheet.rows.length) {
    part.body.append(absent(sheet.reason));
    return;
  }
  sheet.title = "Ranking";
  part.body.append(
    sheetTable(sheet, {
      id: "table-ranking",
      filter: false,
      without: ["unit"],
      cells: {
        label: (v) => (runOf(v) ? runName(runOf(v)) : name(human(v))),
        value: (v, row) => human(v, sheet.at(row, "unit")),
      },
    }),
  );
}

/** A signed percentage, coloured by its status. */
function delta(value, status) {
  if (missing(value)) return el("span.none", "n/a");
  const kind = status === "Better" || status === "Worse" ? `.${status.toLowerCase()}` : "";
  return el(`span.delta${kind}`, (value > 0 ? "+" : "") + human(value, "pct"));
}

/** Sheets of several tests as one table: the base once, then the columns of each test. */
function mergedRows(sheetName, key) {
  const rows = new Map();
  comparisons.forEach((c, i) => {
    const sheet = c.sheets.get(sheetName);
    for (const row of sheet.rows) {
      const id = sheet.at(row, key);
      if (!rows.has(id))
        rows.set(id, {id, first: (column) => sheet.at(row, column), of: new Map()});
      rows.get(id).of.set(i, (column) => sheet.at(row, column));
    }
  });
  return [...rows.values()];
}

/** The columns of the tests: value, change, effect on a step, status, and what to know of it. */
function testColumns({unit, noise}) {
  const many = comparisons.length > 1;
  const columns = [];
  comparisons.forEach((c, i) => {
    const at = (row, column) => (row.of.has(i) ? row.of.get(i)(column) : null);
    const run = runOf(c.test);
    const head = many
      ? {group: {title: c.test, node: () => (run ? runName(run) : name(c.test))}}
      : {};
    const percent = (title, column, doc) => ({
      ...head,
      title,
      numeric: true,
      doc,
      optional: true,
      value: (row) => at(row, column),
      hint: (row) => hintOf(at(row, column)),
      cell: (row) => delta(at(row, column), at(row, "status")),
    });
    columns.push({
      ...head,
      title: many ? "value" : c.test,
      numeric: true,
      value: (row) => at(row, "test"),
      hint: (row) => hintOf(at(row, "test")),
      cell: (row) => human(at(row, "test"), unit(row)),
    });
    columns.push(percent("change", "change_pct", "(test - base) / base"));
    columns.push(
      percent("of a step", "effect_pct", "What the change is of a step of the base; + is longer"),
    );
    if (noise) {
      columns.push({
        ...head,
        title: "noise",
        numeric: true,
        optional: true,
        doc: "What the steps of a run differ by; a change within it may be none",
        value: (row) => at(row, "noise_pct"),
        hint: (row) => hintOf(at(row, "noise_pct")),
        cell: (row) =>
          missing(at(row, "noise_pct"))
            ? el("span.none", "n/a")
            : el(
                at(row, "within_noise") ? "span.within" : "span",
                "± ",
                human(at(row, "noise_pct"), "pct"),
                at(row, "within_noise") ? " within" : "",
              ),
      });
    }
    columns.push({
      ...head,
      title: "status",
      value: (row) => at(row, "status"),
      cell: (row) => badge(at(row, "status"), at(row, "effect_pct")),
    });
    columns.push({
      ...head,
      title: "note",
      optional: true,
      value: (row) => at(row, "note"),
      cell: (row) => noteOf(at(row, "note")),
      cls: "text",
    });
  });
  return columns;
}
const hintOf = (value) => (value === null ? null : String(value));

/** A note of a status; what it means comes from the document. */
function noteOf(note) {
  if (missing(note)) return "";
  const sheet = comparisons[0].sheets.get("Metrics_Cmp");
  return el("span", {title: (sheet.columns.find((c) => c.name === "note") || {}).doc}, note);
}

const CHANGE =
  "A change is (test - base) / base; the colour and the word say whether it is better. Similar: " +
  (threshold === null ? "" : `up to ${human(threshold)} %, `) +
  "within noise, or less than 0.5 % of a step.";

/** Metrics and times of all tests in one table. */
function changes({id, title, nav, summary, sheet, noise, columns, extra}) {
  const part = section(id, title, summary, {nav});
  const rows = mergedRows(sheet, "metric");
  if (!rows.length) {
    part.body.append(
      absent(
        comparisons.length
          ? comparisons[0].sheets.get(sheet).reason
          : "there is no test beside the base",
      ),
    );
    return;
  }
  const unit = (row) => row.first("unit");
  part.body.append(
    sortableTable({
      id: `table-${id}`,
      label: title,
      rows,
      page: 40,
      filter: true,
      extra,
      columns: [
        ...columns,
        {
          title: base ? base.label : "base",
          numeric: true,
          value: (r) => r.first("base"),
          hint: (r) => hintOf(r.first("base")),
          cell: (r) => human(r.first("base"), unit(r)),
        },
        ...testColumns({unit, noise}).filter(
          (c) => !c.optional || rows.some((row) => !missing(c.value(row))),
        ),
      ],
    }),
  );
}

const metricName = {
  title: "metric",
  value: (r) => r.id,
  cell: (r) => el("span.mono", name(human(r.id))),
};
const onlyStatus = (keep) =>
  choice(
    "Show",
    [
      ["all", "all"],
      ["Better", "better"],
      ["Worse", "worse"],
    ],
    "all",
    (v) =>
      keep(
        v === "all" ? () => true : (row) => [...row.of.values()].some((at) => at("status") === v),
      ),
  );

function dashboard() {
  changes({
    id: "dashboard",
    title: "Summary",
    sheet: "Summary_Dashboard",
    columns: [metricName],
    extra: onlyStatus,
    summary:
      "Times of the devices in the whole run, then metrics by their effect on a step. " + CHANGE,
  });
}

function metricComparison() {
  changes({
    id: "metrics",
    title: "Metrics",
    nav: "Metrics",
    sheet: "Metrics_Cmp",
    noise: true,
    extra: onlyStatus,
    summary: `The largest effect on a step first. ${CHANGE} Noise is what steps differ by.`,
    columns: [
      metricName,
      {
        title: "better",
        value: (r) => r.first("better"),
        cell: (r) =>
          r.first("better") === "higher"
            ? "↑ higher"
            : r.first("better") === "lower"
              ? "↓ lower"
              : "",
      },
    ],
  });
}

/** Rows of a waterfall, besides the two runs and what is left. */
const MOST_FALLS = 14;

/** What the change of the step time consists of, as a waterfall from the base to the test. */
function whatChanged() {
  const list = comparisons.map((c) => ({test: c.test, sheet: c.sheets.get("Change_Account")}));
  const known = list.filter(({sheet}) => sheet.rows.length);
  if (!known.length) return;
  plotSection({
    id: "changed",
    title: "What changed in a step",
    nav: "What changed",
    summary: "All bars sum to the change of the mean step time. The axis may begin above zero.",
    sheets: known.map(({sheet}) => sheet),
    make: (part) => waterfall(part, known),
  });
}

function waterfall(part, list) {
  let chosen = list[0];
  const item = plot({
    id: "plot-changed",
    height: () => rowsHeight(falls(chosen.sheet).length, 26, 24, 66),
    label: "A waterfall: what the change of the step time consists of.",
    build: () => waterfallOption(falls(chosen.sheet), chosen.test),
  });
  if (list.length > 1) {
    const tests = list.map((c, i) => [i, c.test]);
    part.controls.append(
      selection(
        "Test",
        tests,
        0,
        redraws(item, (i) => (chosen = list[i])),
      ),
    );
  }
  return item;
}

/** Bars of a waterfall: the base, what changed, the rest of it, the test. */
function falls(sheet) {
  const sums = new Map();
  for (const row of sheet.rows) {
    const what = sheet.at(row, "what");
    sums.set(what, (sums.get(what) || 0) + sheet.at(row, "change_ms"));
  }
  const sorted = [...sums].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const shown = sorted.slice(0, MOST_FALLS);
  const left = sorted.slice(MOST_FALLS).reduce((sum, [, by]) => sum + by, 0);
  if (sorted.length > MOST_FALLS) shown.push([`${sorted.length - MOST_FALLS} smaller ones`, left]);
  const [first] = sheet.rows;
  const [base, test] = ["base_step_ms", "test_step_ms"].map((c) => sheet.at(first, c));
  const out = [{what: "base", from: 0, to: base, total: true}];
  let at = base;
  for (const [what, by] of shown) {
    out.push({what, from: at, to: at + by});
    at += by;
  }
  out.push({what: "test", from: 0, to: test, total: true});
  return out;
}

function waterfallOption(bars, test) {
  const names = bars.map((b) => b.what);
  names[0] = runs[0].label;
  names[names.length - 1] = test;
  const values = (pick) => bars.map((b) => (pick(b) ? Math.abs(b.to - b.from) : 0));
  // From zero on, small changes of a long step would be no wider than a line.
  const ends = bars.flatMap((b) => (b.total ? [b.to] : [b.from, b.to]));
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const option = lyingBars({
    categories: names,
    stack: true,
    unit: "ms",
    series: [
      {name: "", colour: "transparent", values: bars.map((b) => Math.min(b.from, b.to))},
      {name: "step", colour: palette.idle, values: values((b) => b.total)},
      {name: "longer", colour: palette.series[1], values: values((b) => !b.total && b.to > b.from)},
      {name: "shorter", colour: palette.copy, values: values((b) => !b.total && b.to < b.from)},
    ],
    tooltip: (i) => {
      const {from, to, total} = bars[i];
      const by = to - from;
      const sign = by < 0 ? "−" : "+";
      return tip(names[i], [
        total ? ["step", human(to, "ms")] : ["adds", `${sign}${human(Math.abs(by), "ms")}`],
      ]);
    },
  });
  const min = Math.max(0, least - (most - least));
  return {...option, xAxis: {...option.xAxis, min}};
}

/** A place that `fill(place, comparison)` fills for one test at a time, and a choice of tests. */
function perTest(part, fill) {
  const place = el("div");
  const show = (i) => fill(place, comparisons[i]);
  if (comparisons.length > 1) {
    const tests = comparisons.map((c, i) => [i, c.test]);
    part.controls.append(selection("Test", tests, 0, show));
  }
  part.body.append(place);
  show(0);
}

/** Kernels and operators of the base and one test, by what their difference is of a step. */
function costs() {
  if (!comparisons.length) return;
  const tables = [
    ["Kernel_Cmp", "kernels", "Kernels, compared", "Kernels"],
    ["Op_Cmp", "operators", "Operators, compared", "Operators"],
  ];
  for (const [sheetName, id, title, nav] of tables) {
    const summary = sentence(comparisons[0].sheets.get(sheetName).summary);
    const part = section(id, title, `${summary} Green is less time.`, {nav});
    perTest(part, (place, {test, sheets}) => {
      const sheet = sheets.get(sheetName);
      if (!sheet.rows.length) {
        place.replaceChildren(absent(sheet.reason));
        return;
      }
      const columns = costColumns(sheet, test);
      place.replaceChildren(
        sortableTable({
          id: `table-${id}`,
          label: title,
          rows: sheet.rows,
          columns,
          page: 20,
          filter: true,
          extra: (keep) => foundIn(sheet, keep),
        }),
      );
      if (sheet.reason) place.append(el("p.sub", sentence(sheet.reason)));
    });
  }
}

/** A choice of the costs that are in both runs, or in one alone. */
function foundIn(sheet, keep) {
  const places = [
    ["all", "all"],
    ["both", "both"],
    ["baseline", "base only"],
    ["test", "test only"],
  ];
  return choice("Found in", places, "all", (v) =>
    keep(v === "all" ? () => true : (row) => sheet.at(row, "found_in") === v),
  );
}

/** The columns of costs: the difference, then the numbers of each run. */
function costColumns(sheet, test) {
  const at = (column) => (row) => sheet.at(row, column);
  const per = sheet.at(sheet.rows[0], "unit");
  const cellOf = (group, title, column, doc, cell) => ({
    group,
    title,
    numeric: true,
    doc,
    value: at(column),
    hint: (row) => hintOf(at(column)(row)),
    cell,
  });
  const number = (group, title, column, unit, doc) => {
    const shown = (v) => (missing(v) ? el("span.none", "–") : human(v, unit));
    return cellOf(group, title, column, doc, (row) => shown(at(column)(row)));
  };
  const percent = (group, title, column, doc) =>
    cellOf(group, title, column, doc, (row) => delta(at(column)(row), at("status")(row)));
  const group = (title, node = () => title) => ({title, node});
  const ofRun = (run, side) => {
    const head = group(`in a ${per}`, () => [runName(run), ` in a ${per}`]);
    return [
      number(
        head,
        "time",
        `${side}_total_ms`,
        "ms",
        "Durations of a rank added up, mean over ranks",
      ),
      number(head, "kernels", `${side}_kernel_count`, "count", "Kernels of a rank"),
      number(head, "mean", `${side}_mean_us`, "us", "Mean duration of a kernel"),
    ];
  };
  const difference = group(`difference in a ${per}`);
  const effect =
    "What the difference is of a step of the base (of its window without steps); + is longer";
  return [
    {
      title: sheet.name === "Kernel_Cmp" ? "kernel" : "operator",
      value: at(sheet.columns[0].name),
      cell: (row) => el("span.mono.clip", {title: plain(row[0])}, name(human(row[0]))),
    },
    sheet.has("class") ? {title: "class", value: at("class"), cls: "text"} : null,
    number(difference, "time", "diff_total_ms", "ms", "test - base"),
    percent(difference, "change", "total_change_pct", "(test - base) / base"),
    percent(difference, `of a ${per}`, "effect_pct", effect),
    {
      group: difference,
      title: "status",
      value: at("status"),
      cell: (row) => badge(at("status")(row), at("effect_pct")(row)),
    },
    percent(
      difference,
      "of the mean",
      "mean_change_pct",
      "(test - base) / base of the mean duration",
    ),
    ...ofRun(base, "base"),
    ...ofRun(runOf(test), "test"),
  ].filter(Boolean);
}

function breakdown() {
  runsSection({
    id: "breakdown",
    title: "Time of the devices",
    nav: "Time",
    sheet: "gpu_timeline",
    half: runs.length < 8,
    summary: "Mean over the ranks of each run.",
    make: breakdownPlot,
  });
}

function breakdownPlot(part, list) {
  const names = list.map(({run}) => run.label);
  const value = (i, type, column) => {
    const {sheet} = list[i];
    const row = sheet.rows.find((r) => sheet.at(r, "type") === type);
    return row ? sheet.at(row, column) : null;
  };
  let column = "time_ms";
  const item = plot({
    id: "plot-breakdown",
    height: () => Math.max(300, rowsHeight(list.length, 40, 30, 70)),
    label:
      `Stacked bars: what the devices of ${list.length} runs spend their time on, ` +
      "mean over ranks.",
    build: () => timeBars(names, column, value),
  });
  part.controls.append(
    choice(
      "Unit",
      TIME_UNITS,
      column,
      redraws(item, (v) => (column = v)),
    ),
  );
  return item;
}

// What the plot by rank can show: a row of the timeline, or a column of the stragglers.
const BY_RANK = [
  ...TIME_PARTS.map(([type, title]) => [type, title, "ms"]),
  ["total_time", "total time", "ms"],
  ["busy_time", "busy time", "ms"],
  ["total_comm_time", "all communication", "ms"],
  ["total_memcpy_time", "all copies", "ms"],
  ["mean_lag_us", "mean lag in collectives", "us"],
  ["mean_wait_us", "mean wait in collectives", "us"],
];

function byRank() {
  runsSection({
    id: "ranks",
    title: "By rank",
    sheet: "gpu_timeline_by_rank",
    half: true,
    summary: "The runs beside each other, rank by rank.",
    make: byRankPlot,
  });
}

/** The times of a run, by rank and what [`BY_RANK`] names. */
function timesByRank({run, sheet}) {
  const cells = new Map();
  for (const row of sheet.rows)
    cells.set(
      JSON.stringify([sheet.at(row, "rank"), sheet.at(row, "type")]),
      sheet.at(row, "time_ms"),
    );
  const lag = run.sheets.get("straggler_summary");
  for (const row of lag.rows) {
    for (const c of ["mean_lag_us", "mean_wait_us"])
      cells.set(JSON.stringify([lag.at(row, "rank"), c]), lag.at(row, c));
  }
  const value = (rank, what) => {
    const v = cells.get(JSON.stringify([rank, what]));
    return v === undefined ? null : v;
  };
  return {run, value, ranks: sheet.distinct("rank").map(([r]) => r)};
}

function byRankPlot(part, list) {
  const times = list.map(timesByRank);
  const ranks = [...new Set(times.flatMap((r) => r.ranks))].sort(
    (a, b) => missing(a) - missing(b) || (missing(a) ? 0 : compareCells(a, b)),
  );
  let what = BY_RANK[1];
  const describe = (rank) =>
    tip(
      `${rankName(rank)}, ${what[1]}`,
      times.map((r) => [r.run.label, human(r.value(rank, what[0]), what[2]), colourOf(r.run)]),
    );
  const item = plot({
    id: "plot-ranks",
    height: () => 300,
    label: `Times of ${ranks.length} ranks in ${list.length} runs.`,
    build: () =>
      standingBars({
        categories: ranks.map((r) => (r === null ? "no rank" : String(r))),
        unit: what[2],
        axisName: "rank",
        yName: what[1],
        most: Math.max(8, Math.floor(96 / times.length)),
        series: times.map((r) => ({
          name: r.run.label,
          colour: colourOf(r.run),
          values: ranks.map((rank) => r.value(rank, what[0])),
        })),
        tooltip: (i) => describe(ranks[i]),
      }),
  });
  const known = BY_RANK.filter(([key]) =>
    times.some((r) => ranks.some((rank) => r.value(rank, key) !== null)),
  );
  const keep = (v) => (what = BY_RANK.find(([key]) => key === v));
  part.controls.append(selection("Show", known, what[0], redraws(item, keep)));
  return item;
}

function bandwidth() {
  runsSection({
    id: "bandwidth",
    title: "Bandwidth against message size",
    nav: "Bandwidth",
    sheet: "collective_sizes",
    summary:
      "A colour for each run, a sign for each kind of call; the curves are the fitted lines " +
      "T = alpha + beta S as S / T.",
    make: bandwidthPlot,
  });
}

const KIND = ["collective", "group_size", "link"];

/** The kinds of calls of all runs: name, and whether a row is of the kind. */
function callKinds(list) {
  const kinds = new Map();
  const key = (sheet, row) => KIND.map((c) => sheet.at(row, c));
  for (const {sheet} of list)
    for (const row of sheet.rows) kinds.set(JSON.stringify(key(sheet, row)), key(sheet, row));
  return [...kinds].map(([id, [collective, size, link]]) => ({
    name: [collective, size === null ? null : `× ${size}`, link]
      .filter((p) => p !== null)
      .join(" "),
    has: (sheet) => (row) => JSON.stringify(key(sheet, row)) === id,
  }));
}

function bandwidthPlot(part, list) {
  const kinds = callKinds(list);
  const names = kinds.map((kind) => kind.name).sort(compareCells);
  let shown = null;
  let column = BANDWIDTHS[0][0];
  const group = ({run, sheet}, kind) => {
    const fits = run.sheets.get("hockney_fits");
    const place = names.indexOf(kind.name);
    return {
      name: `${run.label}: ${kind.name}`,
      run,
      sheet,
      colour: colourOf(run),
      symbol: SYMBOLS[place % SYMBOLS.length],
      dash: ["solid", "dashed", "dotted"][place % 3],
      points: bandwidthPoints(sheet, sheet.rows.filter(kind.has(sheet)), column),
      curve: fittedCurve(fits, fits.rows.find(kind.has(fits)), column),
    };
  };
  const groups = () => {
    const chosen = kinds.filter((kind) => shown === null || kind.name === shown);
    return list.flatMap((entry) => chosen.map((kind) => group(entry, kind)));
  };
  if (!groups().some((g) => g.points.length || g.curve))
    return "no call has both a message size and a duration";
  const describe = (g, point) => {
    const at = (c, unit) => human(g.sheet.at(g.sheet.rows[point[2]], c), unit);
    return tip(g.name, [
      ["message size", human(point[0], "bytes")],
      ["algorithm bandwidth", at("median_algo_bw_gb_per_s", "gb_per_s"), g.colour],
      ["bus bandwidth", at("median_bus_bw_gb_per_s", "gb_per_s")],
      ["median time", at("median_transfer_us", "us")],
      ["calls", at("calls", "count")],
    ]);
  };
  const item = plot({
    id: "plot-bandwidth",
    height: () => 420,
    label:
      `Bandwidth against message size of ${list.length} runs, logarithmic axes, ` +
      "with fitted lines.",
    build: () => bandwidthOption(groups(), describe),
  });
  if (names.length > 1) {
    const calls = [[null, "all"], ...names.map((n) => [n, n])];
    part.controls.append(
      selection(
        "Calls",
        calls,
        null,
        redraws(item, (v) => (shown = v)),
      ),
    );
  }
  part.controls.append(
    choice(
      "Bandwidth",
      BANDWIDTHS,
      column,
      redraws(item, (v) => (column = v)),
    ),
  );
  return item;
}

const STEP_COLUMNS = [
  ["step_time_ms", "step time", "ms"],
  ["overlap_ratio", "overlap", "ratio"],
  ["exposed_comm_ms", "exposed communication", "ms"],
  ["comm_ms", "communication", "ms"],
  ["compute_ms", "compute", "ms"],
];

function steps() {
  runsSection({
    id: "steps",
    title: "Steps",
    sheet: "step_overlap_mean",
    summary: "Mean over the ranks of a run, by the order of its steps.",
    make: stepsPlot,
  });
}

function stepsPlot(part, list) {
  let what = STEP_COLUMNS[0];
  const lines = list.map(({run, sheet}) => ({
    run,
    sheet,
    rows: [...sheet.rows].sort((a, b) => compareCells(sheet.at(a, "step"), sheet.at(b, "step"))),
  }));
  const most = Math.max(...lines.map((l) => l.rows.length));
  const mean = (l, i) => (i < l.rows.length ? l.sheet.at(l.rows[i], what[0]) : null);
  const places = Array.from({length: most}, (_, i) => i);
  const describe = (i) => {
    const having = lines.filter((l) => i < l.rows.length);
    const row = (l) => {
      const label = `${l.run.label} (step ${l.sheet.at(l.rows[i], "step")})`;
      return [label, human(mean(l, i), what[2]), colourOf(l.run)];
    };
    return tip(`step ${i + 1} of the trace, ${what[1]}`, having.map(row));
  };
  const item = plot({
    id: "plot-steps",
    height: () => 300,
    label: `Times of up to ${most} steps of ${list.length} runs.`,
    build: () =>
      standingBars({
        categories: places.map((i) => String(i + 1)),
        unit: what[2],
        axisName: "step of the trace, in order",
        yName: what[1],
        most: 200,
        series: lines.map((l) => ({
          name: l.run.label,
          colour: colourOf(l.run),
          type: most > 20 ? "line" : "bar",
          values: places.map((i) => mean(l, i)),
        })),
        tooltip: describe,
      }),
  });
  const known = STEP_COLUMNS.filter(([c]) =>
    list.some(({sheet}) => sheet.rows.some((row) => sheet.at(row, c) !== null)),
  );
  const keep = (v) => (what = STEP_COLUMNS.find(([c]) => c === v));
  part.controls.append(selection("Show", known, what[0], redraws(item, keep)));
  return item;
}

/** Sheets of the comparison that are tables only: of one test at a time. */
function comparisonTables() {
  const done = new Set(["Summary_Dashboard", "Metrics_Cmp", "Kernel_Cmp", "Op_Cmp"]);
  const titles = [
    ["Change_Account", "What changed in a step"],
    ["Change_ByRank", "What changed, by rank"],
    ["GPU_Summary_Cmp", "Time of the devices, compared"],
    ["GPU_ByRank_Cmp", "Time by rank, compared"],
    ["NCCL_ImplSync_Cmp", "Collectives over their ranks, compared"],
    ["NCCL_Long_Cmp", "Collective events, compared"],
  ];
  const names = new Set(
    comparisons.flatMap((c) => c.sheets.all.map((s) => s.name)).filter((n) => !done.has(n)),
  );
  for (const [sheetName] of titles) if (comparisons.length) names.add(sheetName);
  for (const sheetName of names) {
    const known = titles.find(([n]) => n === sheetName);
    const first = comparisons[0].sheets.get(sheetName);
    const part = section(
      `table-of-${sheetName}`,
      known ? known[1] : sheetName,
      sentence(first.summary),
      {nav: sheetName.replace(/_Cmp$/, "")},
    );
    perTest(part, (place, {sheets}) => {
      const sheet = sheets.get(sheetName);
      sheet.title = known ? known[1] : sheetName;
      place.replaceChildren(
        sheet.rows.length
          ? sheetTable(sheet, {
              id: `table-${sheetName}`,
              page: 25,
              cells: changeCells(sheet),
              filter: true,
            })
          : absent(sheet.reason),
      );
      if (sheet.rows.length && sheet.reason) place.append(el("p.sub", sentence(sheet.reason)));
    });
  }
}

/** How the changes, effects and statuses of a sheet are shown. */
function changeCells(sheet) {
  const cells = {};
  for (const c of sheet.columns.filter((c) => /(^|_)(change|effect)_pct$/.test(c.name))) {
    cells[c.name] = (v, row) =>
      delta(v, sheet.has("status") ? sheet.at(row, "status") : statusBy(v, c.better));
  }
  if (sheet.has("effect_pct")) cells.status = (v, row) => badge(v, sheet.at(row, "effect_pct"));
  return cells;
}

/** By the direction of a column: its changes have no status of their own. */
function statusBy(change, better) {
  if (threshold === null || missing(change) || !better) return null;
  if (Math.abs(change) <= threshold) return "Similar";
  return change > 0 === (better === "higher") ? "Better" : "Worse";
}

function caveats() {
  const rows = new Map();
  const lists = [...comparisons.map((c) => c.sheets), ...runs.map((r) => r.sheets)];
  for (const sheets of lists) {
    for (const sheet of sheets.all)
      for (const caveat of sheet.caveats)
        rows.set(sheet.name + caveat, {text: sentence(caveat), of: sheet.name});
  }
  if (!rows.size) return;
  const part = section("caveats", "Caveats", "What to know before a number is believed.");
  part.body.append(
    sortableTable({
      id: "table-caveats",
      label: "Caveats",
      rows: [...rows.values()],
      page: 40,
      columns: [
        {title: "what", value: (r) => r.text, cls: "wide"},
        {title: "of", value: (r) => r.of},
      ],
    }),
  );
}

const pageTitle = header();
whatChanged();
dashboard();
ranking();
costs();
breakdown();
byRank();
bandwidth();
steps();
metricComparison();
comparisonTables();
configuration();
caveats();
show(pageTitle, "comparison");
