// Plots: one theme for all, drawn again when the theme, the width or the medium changes.

const plots = [];
let palette = {};
let printing = false;

/** The colours of the style sheet as it stands now. */
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (key) => style.getPropertyValue("--" + key).trim();
  palette = {series: []};
  for (const key of [
    "text",
    "dim",
    "line",
    "grid",
    "panel",
    "compute",
    "comm",
    "copy",
    "idle",
    "accent",
  ]) {
    palette[key] = colour(key);
  }
  for (let i = 1; i <= 8; i++) palette.series.push(colour("s" + i));
}

const SYMBOLS = ["circle", "rect", "triangle", "diamond", "pin", "arrow"];
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const AXIS_FONT = 11;
const PRINT_WIDTH = 700;

/**
 * A plot: `build()` gives the option of ECharts from the data and the palette, `height()` its
 * height in pixels, `label` what a reader who cannot see it hears.
 */
function plot({id, label, build, height = () => 300, ready}) {
  const node = el("div.plot", {id, role: "img", "aria-label": label, tabindex: ready ? "0" : null});
  const item = {node, build, height, ready, chart: null};
  plots.push(item);
  item.refresh = () => item.chart && draw(item);
  return item;
}

/** A handler of a choice: keeps what was chosen, and draws the plot again. */
const redraws = (item, keep) => (chosen) => {
  keep(chosen);
  item.refresh();
};

function draw(item) {
  const height = item.height();
  if (item.node.style.height !== height + "px") item.node.style.height = height + "px";
  item.chart.resize({width: printing ? item.node.clientWidth || PRINT_WIDTH : "auto", height});
  item.chart.setOption(common(item.build()), {notMerge: true});
}

/** Makes the charts of all plots that are in the page. */
function drawAll() {
  readPalette();
  for (const item of plots) {
    if (item.chart) item.chart.dispose();
    item.node.style.height = item.height() + "px";
    item.chart = echarts.init(item.node, null, {
      renderer: "canvas",
      devicePixelRatio: printing ? 2.5 : undefined,
      width: printing ? item.node.clientWidth || PRINT_WIDTH : undefined,
    });
    draw(item);
    if (printing) item.chart.getZr().flush();
    else if (item.ready) item.ready(item.chart);
  }
}

function startPlots() {
  drawAll();
  const widths = new WeakMap();
  const watch = new ResizeObserver((entries) => {
    if (printing) return;
    for (const {target, contentRect} of entries) {
      const item = plots.find((p) => p.node === target);
      if (item && item.chart && widths.get(target) !== contentRect.width) {
        if (widths.has(target)) item.chart.resize();
        widths.set(target, contentRect.width);
      }
    }
  });
  plots.forEach((item) => watch.observe(item.node));
}

/** What all plots share, laid under the option of one. */
function common(option) {
  const axis = (a) => ({
    ...a,
    nameTextStyle: {color: palette.dim, fontSize: 11, ...a.nameTextStyle},
    axisLabel: {color: palette.dim, fontSize: AXIS_FONT, hideOverlap: true, ...a.axisLabel},
    axisLine: {lineStyle: {color: palette.line}, ...a.axisLine},
    axisTick: {lineStyle: {color: palette.line}, ...a.axisTick},
    splitLine: {lineStyle: {color: palette.grid}, ...a.splitLine},
    minorSplitLine: {lineStyle: {color: palette.grid, opacity: 0.5}, ...a.minorSplitLine},
  });
  const each = (value, f) => (Array.isArray(value) ? value.map(f) : value && f(value));
  return {
    animation: false,
    backgroundColor: "transparent",
    color: palette.series,
    textStyle: {fontFamily: FONT, color: palette.text},
    ...option,
    xAxis: each(option.xAxis, axis),
    yAxis: each(option.yAxis, axis),
    legend: option.legend && {
      type: "scroll",
      top: 0,
      left: 0,
      right: 8,
      itemWidth: 14,
      itemHeight: 10,
      itemGap: 14,
      icon: "roundRect",
      textStyle: {color: palette.text, fontSize: 12, width: 220, overflow: "truncate"},
      inactiveColor: palette.idle,
      pageTextStyle: {color: palette.dim},
      pageIconColor: palette.text,
      pageIconInactiveColor: palette.idle,
      pageIconSize: 11,
      ...option.legend,
    },
    tooltip: {
      confine: true,
      backgroundColor: palette.panel,
      borderColor: palette.line,
      borderWidth: 1,
      padding: [7, 10],
      textStyle: {color: palette.text, fontSize: 12, fontFamily: FONT},
      transitionDuration: 0,
      axisPointer: {
        lineStyle: {color: palette.dim},
        crossStyle: {color: palette.dim},
        shadowStyle: {color: palette.grid, opacity: 0.5},
      },
      ...option.tooltip,
    },
    dataZoom: each(option.dataZoom, (z) =>
      z.type === "slider"
        ? {
            borderColor: palette.line,
            fillerColor: palette.grid,
            backgroundColor: "transparent",
            dataBackground: {lineStyle: {opacity: 0}, areaStyle: {opacity: 0}},
            selectedDataBackground: {lineStyle: {opacity: 0}, areaStyle: {opacity: 0}},
            moveHandleStyle: {color: palette.idle},
            handleStyle: {color: palette.panel, borderColor: palette.dim},
            emphasis: {
              handleStyle: {borderColor: palette.accent},
              moveHandleStyle: {color: palette.dim},
            },
            textStyle: {color: palette.dim, fontSize: 10},
            brushSelect: false,
            showDetail: false,
            ...z,
          }
        : z,
    ),
  };
}

/** The box beside the pointer: a title, and rows of a name, a value, and what colour it has. */
function tip(title, rows, note) {
  return el(
    "div.tip",
    el("div.tip-title", name(title)),
    el(
      "table",
      rows.filter(Boolean).map(([key, value, colour]) => {
        const mark = el("span.mark");
        if (colour) mark.style.background = colour;
        return el("tr", el("td", colour ? mark : null, name(key)), el("td.num", value));
      }),
    ),
    note ? el("div.tip-note", note) : null,
  );
}

/** Where an axis has more places than can be read at once, a part is shown; the rest scrolls. */
function scrollZoom(axis, count, most) {
  if (printing || count <= most) return [];
  const index = axis === "y" ? {yAxisIndex: 0} : {xAxisIndex: 0};
  const window = {startValue: 0, endValue: most - 1, filterMode: "none"};
  const side = axis === "y" ? {orient: "vertical", right: 4, width: 14} : {bottom: 6, height: 14};
  return [
    {type: "slider", ...index, ...window, ...side},
    {
      type: "inside",
      ...index,
      ...window,
      zoomOnMouseWheel: "ctrl",
      moveOnMouseWheel: false,
      moveOnMouseMove: true,
    },
  ];
}

/** Height of a plot whose rows stand under each other; on paper all of them, within a sheet. */
const rowsHeight = (count, most, row, rest) =>
  printing ? Math.min(rest + row * count, 860) : rest + row * Math.min(count, most);

/** Width in pixels of the longest of the labels beside an axis; longer ones than `most` are cut. */
function labelsWidth(labels, most) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${AXIS_FONT}px ${FONT}`;
  return Math.min(
    Math.ceil(Math.max(0, ...labels.map((label) => pen.measureText(label).width))),
    most,
  );
}

/**
 * Bars that lie, stacked or beside each other, one place on the axis for each category.
 * `series` is `[{name, colour, values}]`; missing values are gaps.
 */
function lyingBars({categories, series, unit, stack, max, most = 48, tooltip, axisName}) {
  const zoom = scrollZoom("y", categories.length, most);
  const labels = labelsWidth(categories, 230);
  return {
    // The library measures labels too short, and cuts their first letter.
    grid: {
      left: labels + 18,
      right: zoom.length ? 40 : 24,
      top: series.length > 1 ? 34 : 12,
      bottom: axisName ? 50 : 28,
    },
    legend: series.length > 1 ? {data: series.map((s) => s.name)} : undefined,
    tooltip: {
      trigger: "axis",
      axisPointer: {type: "shadow"},
      formatter: (items) => tooltip(items[0].dataIndex),
    },
    xAxis: {
      type: "value",
      max,
      name: axisName,
      nameLocation: "middle",
      nameGap: 26,
      axisLabel: {formatter: (v) => short(v, unit)},
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: categories,
      axisTick: {show: false},
      axisLabel: {width: labels + 4, overflow: "truncate", hideOverlap: true},
    },
    dataZoom: zoom,
    series: series.map((s) => ({
      type: "bar",
      name: s.name,
      data: s.values,
      stack: stack ? "all" : undefined,
      barMaxWidth: 18,
      barCategoryGap: "24%",
      barGap: "8%",
      itemStyle: {color: s.colour},
      emphasis: {disabled: true},
      cursor: "default",
    })),
  };
}

/** Bars that stand, beside each other for each category. */
function standingBars({categories, series, unit, stack, most = 64, tooltip, axisName, yName, max}) {
  const zoom = scrollZoom("x", categories.length, most);
  return {
    grid: {
      left: 8,
      right: 16,
      top: yName ? 54 : 36,
      bottom: (axisName ? 26 : 8) + (zoom.length ? 24 : 0),
      containLabel: true,
    },
    legend: {data: series.map((s) => s.name)},
    tooltip: {
      trigger: "axis",
      axisPointer: {type: "shadow"},
      formatter: (items) => tooltip(items[0].dataIndex),
    },
    xAxis: {
      type: "category",
      data: categories,
      name: axisName,
      nameLocation: "middle",
      nameGap: 24,
      axisTick: {show: false},
    },
    yAxis: {
      type: "value",
      max,
      name: yName,
      nameGap: 10,
      nameTextStyle: {align: "left"},
      axisLabel: {formatter: (v) => short(v, unit)},
    },
    dataZoom: zoom,
    series: series.map((s) => ({
      type: s.type || "bar",
      name: s.name,
      data: s.values,
      stack: stack ? "all" : undefined,
      barMaxWidth: 28,
      barGap: "8%",
      itemStyle: {color: s.colour},
      lineStyle: s.line,
      symbolSize: 4,
      showSymbol: s.values.length < 80,
      emphasis: {disabled: true},
      cursor: "default",
      connectNulls: false,
      silent: s.silent,
      z: s.z,
    })),
  };
}

const LOG_STEPS = 64;

/** A fitted line as a curve of bandwidth in GB/s: S / (alpha + beta S), over the sizes it is of. */
function hockneyCurve(alphaUs, betaSPerGb, minBytes, maxBytes) {
  const points = [];
  const low = Math.log(Math.max(minBytes, 1));
  const high = Math.log(Math.max(maxBytes, minBytes, 1));
  for (let i = 0; i <= LOG_STEPS; i++) {
    const size = Math.exp(low + ((high - low) * i) / LOG_STEPS);
    const seconds = alphaUs / 1e6 + (betaSPerGb * size) / 1e9;
    if (seconds > 0) points.push([size, size / 1e9 / seconds]);
  }
  return points;
}

/** The columns of bandwidth, and their names in a choice. */
const BANDWIDTHS = [
  ["median_algo_bw_gb_per_s", "algorithm"],
  ["median_bus_bw_gb_per_s", "bus"],
];

/** Points `[bytes, GB/s, place of the row]` of those rows that have a size and a bandwidth. */
function bandwidthPoints(sheet, rows, column) {
  const positive = (row, c) => {
    const v = sheet.at(row, c);
    return typeof v === "number" && v > 0 ? v : null;
  };
  return rows
    .map((row) => [positive(row, "message_bytes"), positive(row, column), sheet.rows.indexOf(row)])
    .filter(([x, y]) => x !== null && y !== null);
}

/**
 * The curve of a row of fits; null where there is none. The line is of the time of a message: of
 * the algorithm bandwidth, not of the bus.
 */
function fittedCurve(fits, row, column) {
  if (!row || !column.includes("algo")) return null;
  const at = (c) => fits.at(row, c);
  if (at("beta_s_per_gb") === null || at("alpha_us") === null) return null;
  return hockneyCurve(at("alpha_us"), at("beta_s_per_gb"), at("min_bytes"), at("max_bytes"));
}

/**
 * Bandwidth against message size, both axes logarithmic. `groups` is
 * `[{name, colour, symbol, dash, points: [[bytes, GB/s, row]], curve: [[bytes, GB/s]]}]`.
 */
function bandwidthOption(groups, describe) {
  const shown = groups.filter((g) => g.points.length || g.curve);
  const series = [];
  for (const g of shown) {
    series.push({
      type: "scatter",
      name: g.name,
      data: g.points,
      symbol: g.symbol,
      symbolSize: 9,
      cursor: "default",
      itemStyle: {color: g.colour, opacity: 0.85, borderColor: palette.panel, borderWidth: 0.5},
      dimensions: ["bytes", "GB/s", "row"],
    });
    if (g.curve) {
      series.push({
        type: "line",
        name: g.name,
        data: g.curve,
        showSymbol: false,
        silent: true,
        tooltip: {show: false},
        lineStyle: {color: g.colour, width: 1.5, type: g.dash || "solid"},
        itemStyle: {color: g.colour},
      });
    }
  }
  const log = (unit) => ({
    type: "log",
    logBase: 10,
    minorTick: {show: true},
    axisLabel: {formatter: (v) => short(v, unit)},
    splitLine: {show: true},
  });
  return {
    grid: {left: 8, right: 24, top: 56, bottom: 34, containLabel: true},
    legend: {data: shown.map((g) => ({name: g.name, icon: g.symbol}))},
    tooltip: {
      trigger: "item",
      formatter: (p) =>
        describe(
          shown.find((g) => g.name === p.seriesName),
          p.data,
        ),
    },
    xAxis: {...log("bytes"), name: "message size", nameLocation: "middle", nameGap: 28},
    yAxis: {...log("gb_per_s"), name: "bandwidth", nameTextStyle: {align: "left"}},
    series,
  };
}
