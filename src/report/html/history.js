// Metrics over the runs of series.

const histories = (DATA.series || []).map((s) => ({
  series: s.series,
  runs: s.runs || [],
  metrics: s.metrics || [],
  sheet: new Sheet(s.sheet || {}),
}));

/** What a line of the plot is of: the rows of a metric, in order of the runs. */
const rowsOf = ({sheet}, metric) =>
  sheet.rows.filter(
    (row) =>
      sheet.at(row, "metric") === metric.metric && sheet.at(row, "version") === metric.version,
  );

function header() {
  const title = histories.map((h) => h.series).join(" / ") || "history";
  const count = histories.reduce((sum, h) => sum + h.runs.length, 0);
  PAGE.append(
    el(
      "header.head",
      el("h1", name(title)),
      el("p.line", `History · ${count} ${count === 1 ? "run" : "runs"}, in order of recording`),
    ),
  );
  return title;
}

/** The changes of level of a history, each in a line. */
function changesOf(history, metric, rows) {
  const {sheet} = history;
  const lines = [];
  let before = null;
  for (const row of rows) {
    const level = sheet.at(row, "level");
    if (sheet.at(row, "is_change")) {
      const pct = sheet.at(row, "change_pct");
      lines.push(
        el(
          "li",
          badge(sheet.at(row, "status")),
          " from ",
          name(sheet.at(row, "trace")),
          ` on: ${human(before, metric.unit)} to ${human(level, metric.unit)}` +
            (pct === null ? "" : `, ${pct > 0 ? "+" : ""}${human(pct, "pct")}`),
        ),
      );
    }
    if (!missing(level)) before = level;
  }
  return lines.length ? el("ul", lines) : el("p.sub", "No change of level.");
}

function historyOption(history, metric, rows) {
  const {sheet} = history;
  const column = (c) => rows.map((row) => sheet.at(row, c));
  const [values, levels, lows, highs] = ["value", "level", "low", "high"].map(column);
  const marks = rows
    .map((row, i) => ({row, i}))
    .filter(({row}) => sheet.at(row, "is_change"))
    .map(({row, i}) => {
      const status = sheet.at(row, "status");
      return {xAxis: i, name: status, lineStyle: {color: palette.dim, type: "dashed"}};
    });
  const outside = rows.map((row, i) => (sheet.at(row, "is_outside") ? values[i] : null));
  const line = (name, data, extra) => ({
    name,
    data,
    type: "line",
    symbol: "none",
    step: "middle",
    ...extra,
  });
  const band = {stack: "band", silent: true, lineStyle: {opacity: 0}, tooltip: {show: false}};
  return {
    grid: {left: 70, right: 24, top: 40, bottom: 40},
    legend: {data: ["value", "level", "outside of the band"]},
    xAxis: {
      type: "category",
      data: rows.map((row) => String(sheet.at(row, "run"))),
      name: "run",
      nameLocation: "middle",
      nameGap: 26,
    },
    yAxis: {
      type: "value",
      scale: true,
      axisLabel: {formatter: (v) => short(v, metric.unit)},
    },
    tooltip: {
      trigger: "axis",
      formatter: (points) => {
        const row = rows[points[0].dataIndex];
        const at = (c) => human(sheet.at(row, c), metric.unit);
        return tip(sheet.at(row, "trace"), [
          ["recorded", plain(sheet.at(row, "recorded") || "n/a")],
          [metric.metric, at("value"), palette.series[0]],
          ["level", at("level"), palette.text],
          ["band", missing(sheet.at(row, "low")) ? "n/a" : `${at("low")} to ${at("high")}`],
        ]);
      },
    },
    series: [
      line("low", lows, band),
      line(
        "band",
        highs.map((high, i) => (missing(high) || missing(lows[i]) ? null : high - lows[i])),
        {...band, areaStyle: {color: palette.grid, opacity: 0.8}},
      ),
      line("level", levels, {
        lineStyle: {color: palette.text, width: 2},
        itemStyle: {color: palette.text},
        markLine: {symbol: "none", silent: true, label: {formatter: "{b}"}, data: marks},
      }),
      {
        name: "value",
        type: "line",
        data: values,
        symbol: "circle",
        symbolSize: 6,
        lineStyle: {color: palette.series[0], width: 1},
        itemStyle: {color: palette.series[0]},
      },
      {
        name: "outside of the band",
        type: "scatter",
        data: outside,
        symbol: "diamond",
        symbolSize: 11,
        itemStyle: {color: palette.comm},
      },
    ],
  };
}

function metricSection(history, metric, id) {
  const rows = rowsOf(history, metric);
  const {sheet} = history;
  const title =
    histories.length > 1 ? `${metric.metric} of ${plain(history.series)}` : metric.metric;
  if (!rows.length) return leave(null, title, sheet.reason || "no run has a value");
  const better = metric.better ? ` The ${metric.better} the better.` : "";
  const part = section(`metric-${id}`, title, sentence(metric.summary) + better);
  const item = plot({
    id: `plot-${id}`,
    height: () => 320,
    label: `${metric.metric} of ${rows.length} runs, with levels and the band of their noise.`,
    build: () => historyOption(history, metric, rows),
  });
  part.body.append(
    item.node,
    changesOf(history, metric, rows),
    disclosure(`Data: ${rows.length} ${rows.length === 1 ? "run" : "runs"}`, () => {
      const own = Object.assign(Object.create(Object.getPrototypeOf(sheet)), sheet, {rows});
      return sheetTable(own, {id: `table-${id}`, without: ["metric", "version", "better"]});
    }),
  );
  return item;
}

const title = header();
histories.forEach((history, i) =>
  history.metrics.forEach((metric, j) => metricSection(history, metric, `${i}-${j}`)),
);
const said = new Set(histories.flatMap((h) => h.sheet.caveats));
if (said.size) {
  const part = section("caveats", "How it is judged", "What a change of level is.");
  part.body.append([...said].map((caveat) => el("p.sub", sentence(caveat))));
}
show(title, "history");
