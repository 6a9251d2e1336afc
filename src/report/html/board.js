// The leaderboard: traces with what their cards say, and metrics with their grades.

const configurations = new Sheet(DATA.configurations || {});
const results = new Sheet(DATA.results || {});
const metrics = (DATA.metrics || []).filter((m) =>
  results.rows.some((row) => results.at(row, "metric") === m.metric),
);
const reports = new Map((DATA.traces || []).map((t) => [t.trace, t.report]));
const firsts = new Map((DATA.traces || []).map((t) => [t.trace, t.first_finding]));
const traces = configurations.rows.map((row) => ({
  trace: configurations.at(row, "trace"),
  row,
  values: new Map(),
  results: new Map(),
}));
const byTrace = new Map(traces.map((t) => [t.trace, t]));
for (const row of results.rows) {
  const trace = byTrace.get(results.at(row, "trace"));
  if (!trace) continue;
  trace.values.set(results.at(row, "metric"), results.at(row, "value"));
  trace.results.set(results.at(row, "metric"), row);
}

const GRADE_MARKS = new Map([
  ["good", "▲"],
  ["fair", "="],
  ["poor", "▼"],
]);
const GRADE_LOOKS = new Map([
  ["good", "better"],
  ["fair", "similar"],
  ["poor", "worse"],
]);
const FIRST_METRICS = [
  "avg_step_time",
  "throughput_tokens",
  "mfu",
  "comm_comp_overlap",
  "communication_fraction",
  "avg_comm_bandwidth_GBps",
  "straggler_lag",
  "gpu_utilization",
  "memory",
];
const FILTERS = [
  ["model", "Model"],
  ["device_name", "Hardware"],
  ["framework", "Framework"],
  ["phase", "Phase"],
  ["comm_library", "Library"],
  ["sources", "Profiler"],
];

const fact = (trace, column) => configurations.at(trace.row, column);
const link = (href, ...rest) => el("a", {href}, ...rest);
const definition = (metric) =>
  link(`metrics.html#${encodeURIComponent(metric.metric)}`, name(metric.metric, "code"));

/** The first finding of a trace, and its gain. */
function firstFinding(t) {
  const first = firsts.get(t.trace);
  if (!first) return el("span.none", "nothing found");
  const gain = first.gain_pct === null ? "" : ` ≤ ${human(first.gain_pct, "pct")}`;
  return el("span", {title: plain(first.finding)}, first.diagnosis.replaceAll("_", " "), gain);
}

/** What the grade of a value rests on. */
function grounds(metric, row) {
  const at = (column) => results.at(row, column);
  const shown = (column) => human(at(column), metric.unit);
  const limits = `good from ${shown("good")}, poor beyond ${shown("poor")}`;
  if (missing(at("median"))) return limits;
  const peers = `${at("peer_count")} traces of this model and hardware`;
  return `${limits}; median ${shown("median")} of ${peers}`;
}

/** A value with its grade: a sign beside the colour. */
function graded(metric, trace) {
  const value = trace.values.get(metric.metric);
  if (missing(value)) return el("span.none", "–");
  const row = trace.results.get(metric.metric);
  const grade = results.at(row, "grade");
  const text = human(value, metric.unit);
  if (missing(grade)) {
    const alone =
      metric.basis === "median"
        ? "; no grade: no other trace is known to be of this model and hardware"
        : "";
    return el("span", {title: value + alone}, text);
  }
  return el(
    `span.badge.${GRADE_LOOKS.get(grade)}`,
    {title: `${value}: ${grade}; ${grounds(metric, row)}`},
    el("span", {"aria-hidden": "true"}, GRADE_MARKS.get(grade)),
    " ",
    text,
  );
}

function header() {
  const count = `${traces.length} ${traces.length === 1 ? "trace" : "traces"}`;
  PAGE.append(
    el(
      "header.head",
      el("h1", "Leaderboard"),
      el(
        "p.line",
        `${count} · ${metrics.length} metrics · `,
        link("board.json", "the same as JSON"),
        " · ",
        link("metrics.html", "definitions of the metrics"),
      ),
    ),
  );
}

function board() {
  const part = section(
    "board",
    "Traces",
    "What the cards and the traces say of each run, and its metrics; a name opens its report.",
    {nav: "Traces"},
  );
  if (!traces.length) {
    part.body.append(absent("there are no traces"));
    return;
  }
  const chosen = new Set(FIRST_METRICS.filter((m) => metrics.some((n) => n.metric === m)));
  if (!chosen.size) metrics.slice(0, 6).forEach((m) => chosen.add(m.metric));
  const wanted = new Map();
  const place = el("div");
  function draw() {
    const facts = [
      ["model", "Model"],
      ["device_name", "Hardware"],
      ["rank_count", "Ranks"],
      ["framework", "Framework"],
      ["phase", "Phase"],
      ["comm_library", "Library"],
      ["sources", "Profiler"],
    ].filter(([column]) => traces.some((t) => !missing(fact(t, column))));
    const columns = [
      {
        title: "trace",
        doc: "The ingested trace; opens its report.",
        value: (t) => t.trace,
        cell: (t) =>
          reports.get(t.trace) ? link(reports.get(t.trace), name(t.trace)) : name(t.trace),
        cls: "text",
      },
      {
        title: "fix first",
        doc: "The finding with the largest gain, and the most that a step could lose without it.",
        value: (t) => (firsts.get(t.trace) || {}).gain_pct ?? null,
        cell: firstFinding,
        cls: "wide",
      },
      ...facts.map(([column, title]) => ({
        title,
        numeric: column === "rank_count",
        value: (t) => fact(t, column),
        cls: column === "rank_count" ? "" : "text",
      })),
      ...metrics
        .filter((m) => chosen.has(m.metric))
        .map((m) => ({
          title: m.metric,
          doc: `${m.summary} ${m.better ? `(${m.better} is better)` : ""}`,
          numeric: true,
          value: (t) => {
            const v = t.values.get(m.metric);
            return v === undefined ? null : v;
          },
          cell: (t) => graded(m, t),
        })),
    ];
    const extra = (apply) => {
      const test = () =>
        apply((t) =>
          [...wanted].every(([column, value]) => value === null || fact(t, column) === value),
        );
      const lists = FILTERS.map(([column, title]) => {
        const values = [
          ...new Set(traces.map((t) => fact(t, column)).filter((v) => !missing(v))),
        ].sort(compareCells);
        if (values.length < 2) return null;
        return selection(
          title,
          [[null, "all"], ...values.map((v) => [v, plain(v)])],
          wanted.get(column) ?? null,
          (value) => {
            wanted.set(column, value);
            test();
          },
        );
      });
      queueMicrotask(test);
      return lists;
    };
    place.replaceChildren(
      sortableTable({
        id: "traces",
        label: "Traces",
        columns,
        rows: traces,
        page: 200,
        filter: true,
        extra,
      }),
    );
  }
  draw();
  const areas = [...new Set(metrics.map((m) => m.area))].sort();
  part.body.append(
    place,
    disclosure("Columns: choose metrics", () =>
      areas.map((area) =>
        el(
          "div.controls",
          el("b", area),
          metrics
            .filter((m) => m.area === area)
            .map((m) =>
              checkbox(m.metric, chosen.has(m.metric), (on) => {
                if (on) chosen.add(m.metric);
                else chosen.delete(m.metric);
                draw();
              }),
            ),
        ),
      ),
    ),
  );
}

function ranking() {
  const rankable = metrics.filter((m) => traces.filter((t) => t.values.has(m.metric)).length > 1);
  const part = section(
    "ranking",
    "One metric",
    "Traces by the value of a metric, the best first where it has a direction.",
    {nav: "One metric"},
  );
  if (!rankable.length) {
    part.body.append(absent("no metric has values of two traces"));
    return;
  }
  let metric = rankable.find((m) => m.metric === "avg_step_time") || rankable[0];
  const ranked = () =>
    traces
      .filter((t) => t.values.has(metric.metric))
      .sort(
        (a, b) =>
          (metric.better === "lower" ? 1 : -1) *
            (a.values.get(metric.metric) - b.values.get(metric.metric)) ||
          compareCells(a.trace, b.trace),
      );
  const item = plot({
    id: "ranking-plot",
    label: "Traces by one metric",
    height: () => rowsHeight(ranked().length, 48, 26, 60),
    build: () => {
      const list = ranked();
      return lyingBars({
        categories: list.map((t) => plain(t.trace)),
        unit: metric.unit,
        axisName: `${metric.metric}${metric.unit ? ` (${unitName(metric.unit)})` : ""}`,
        series: [
          {
            name: metric.metric,
            colour: palette.accent,
            values: list.map((t) => t.values.get(metric.metric)),
          },
        ],
        tooltip: (i) =>
          tip(
            list[i].trace,
            [[metric.metric, human(list[i].values.get(metric.metric), metric.unit)]],
            metric.summary,
          ),
      });
    },
  });
  part.controls.append(
    selection(
      "Metric",
      rankable.map((m) => [m, m.metric]),
      metric,
      (m) => {
        metric = m;
        item.refresh();
      },
    ),
  );
  part.body.append(item.node);
}

function definitions() {
  const part = section(
    "metrics",
    "Metrics",
    "What each metric is; its name opens the definition with its SQL. " +
      "A median is of the traces of one model and hardware.",
    {nav: "Metrics"},
  );
  const value = (key) => (m) => (missing(m[key]) ? null : m[key]);
  const limit = (key) => (m) =>
    missing(m[key])
      ? el("span.none", "–")
      : m.basis === "median"
        ? `${human(m[key], "ratio")} × median`
        : human(m[key], m.unit);
  part.body.append(
    sortableTable({
      id: "metrics-table",
      label: "Metrics",
      rows: metrics,
      page: 200,
      columns: [
        {title: "metric", value: value("metric"), cell: definition, cls: "text"},
        {title: "version", numeric: true, value: value("version")},
        {title: "area", value: value("area"), cls: "text"},
        {title: "unit", value: value("unit"), cell: (m) => unitName(m.unit || ""), cls: "text"},
        {title: "better", value: value("better"), cls: "text"},
        {title: "good from", numeric: true, value: value("good"), cell: limit("good")},
        {title: "poor beyond", numeric: true, value: value("poor"), cell: limit("poor")},
        {
          title: "traces",
          numeric: true,
          value: (m) => traces.filter((t) => t.values.has(m.metric)).length,
        },
        {title: "what it is", value: value("summary"), cls: "wide"},
      ],
    }),
  );
}

header();
board();
ranking();
definitions();
show("Leaderboard", "board");
