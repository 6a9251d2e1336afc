// Call stacks of one step as a flame graph that hangs: a frame is as wide as the time in it, and
// what it calls is below it. Frames are elements with text; nothing of a trace is markup.

const FRAME_HEIGHT = 19;
/** Frames from this share of the width on are drawn. */
const LEAST_WIDTH = 0.0007;

/** Colours of frames by what they are. */
const FRAME_KINDS = [
  ["python", "Python", "flame-python"],
  ["host_annotation", "ranges", "flame-range"],
  ["host_op", "operators", "flame-op"],
  ["host_runtime", "calls of the runtime", "flame-runtime"],
];
const FRAME_CLASS = new Map(FRAME_KINDS.map(([kind, , cls]) => [kind, cls]));

/** The stacks of a phase (null: of all), or of all phases, as one tree: equal stacks are one node. */
function stackTree(sheet, phases, column) {
  const node = (frame, kind, parent) => ({frame, kind, parent, calls: 0, value: 0, children: new Map()});
  const root = node(`${rankName(sheet.at(sheet.rows[0], "rank"))}`, null, null);
  const known = new Map();
  for (const row of sheet.rows) {
    const at = (name) => sheet.at(row, name);
    if (phases && !phases.includes(at("phase"))) continue;
    const place = (number) => JSON.stringify([at("thread"), at("phase"), number]);
    const inner = (around, key, frame, kind) => {
      if (!around.children.has(key)) around.children.set(key, node(frame, kind, around));
      return around.children.get(key);
    };
    const thread = inner(root, at("thread"), `thread ${at("thread")}`, null);
    const around = at("parent") === null ? thread : known.get(place(at("parent")));
    if (!around) continue;
    const own = inner(around, JSON.stringify([at("class"), at("frame")]), at("frame"), at("class"));
    known.set(place(at("node")), own);
    own.calls += at("call_count");
    own.value += at(column);
    if (around === thread) {
      thread.value += at(column);
      root.value += at(column);
    }
  }
  return root;
}

/** A flame graph of a tree, in a node that is filled again when a frame is chosen. */
function drawFlame(node, tree, what) {
  const shown = [];
  let deepest = 0;
  const put = (frame, left, width, depth, focus) => {
    deepest = Math.max(deepest, depth);
    const share = tree.value > 0 ? (100 * frame.value) / tree.value : 0;
    const calls = frame.calls ? `, ${human(frame.calls, "count")} calls` : "";
    const title = `${plain(human(frame.frame))}\n${what} ${human(frame.value, "us")}, ${human(share, "pct")}${calls}`;
    const bar = el(
      `button.${FRAME_CLASS.get(frame.kind) || "flame-thread"}`,
      {type: "button", title, onclick: () => zoom(frame === focus ? frame.parent || frame : frame)},
      name(human(frame.frame)),
    );
    bar.style.left = `${100 * left}%`;
    bar.style.width = `${100 * width}%`;
    bar.style.top = `${depth * FRAME_HEIGHT}px`;
    shown.push(bar);
  };
  const below = (frame, left, width, depth, focus) => {
    put(frame, left, width, depth, focus);
    let from = left;
    const children = [...frame.children.values()].sort((a, b) => b.value - a.value);
    for (const child of children) {
      const part = frame.value > 0 ? (width * child.value) / frame.value : 0;
      if (part < LEAST_WIDTH) break;
      below(child, from, part, depth + 1, focus);
      from += part;
    }
  };
  function zoom(focus) {
    shown.length = 0;
    deepest = 0;
    const around = [];
    for (let up = focus.parent; up; up = up.parent) around.unshift(up);
    around.forEach((frame, depth) => put(frame, 0, 1, depth, null));
    below(focus, 0, 1, around.length, focus);
    node.style.height = `${(deepest + 1) * FRAME_HEIGHT}px`;
    node.replaceChildren(...shown);
  }
  zoom(tree);
}

function flameGraph(part, sheet) {
  const kinds = new Set(sheet.rows.map((row) => sheet.at(row, "class")));
  const phases = sheet.distinct("phase").map(([phase]) => phase);
  const launches = sheet.rows.some((row) => sheet.at(row, "device_us") > 0);
  let phase = "all";
  let column = "total_us";
  const node = el("div.flame", {id: "plot-stacks", role: "group", "aria-label": "Call stacks"});
  const fill = () => {
    const tree = stackTree(sheet, phase === "all" ? null : [phases[phase]], column);
    drawFlame(node, tree, column === "total_us" ? "on the host" : "on the device");
  };
  const change = (keep) => (value) => {
    keep(value);
    fill();
  };
  if (phases.length > 1) {
    const options = phases.map((value, i) => [i, human(value)]);
    part.controls.append(
      selection("Phase", [["all", "all"], ...options], phase, change((v) => (phase = v))),
    );
  }
  if (launches) {
    const times = [
      ["total_us", "host time", "Time in the frame and what it calls"],
      ["device_us", "device time", "Durations of the device events that are launched inside it"],
    ];
    part.controls.append(choice("Time", times, column, change((v) => (column = v))));
  }
  const key = FRAME_KINDS.filter(([kind]) => kinds.has(kind)).map(([, title, cls]) =>
    el("span", el(`i.swatch.${cls}`), title),
  );
  fill();
  return {
    node: el("div", node, el("div.account-key", key, el("span", "click a frame to see it alone, again to go back"))),
  };
}

function callStacks() {
  const sheet = all.get("step_stacks");
  const step = sheet.rows.length ? sheet.at(sheet.rows[0], "step") : null;
  plotSection({
    id: "stacks",
    title: step === null ? "Call stacks" : `Call stacks of step ${step}`,
    nav: "Stacks",
    sheet,
    summary:
      "What the host of one rank does: a frame is as wide as the time in it, and what it calls is " +
      "below it. The view folded_stacks has all ranks and steps, for other viewers.",
    make: (part) => flameGraph(part, sheet),
  });
}

/** Kinds of operators in the roofline, with the mark of each. */
const ROOFLINE_KINDS = ["gemm", "conv", "conv_bwd", "attention", "attention_bwd", "pointwise"];

function roofline() {
  const sheet = all.get("ops_roofline");
  plotSection({
    id: "roofline",
    title: "Roofline of operators",
    nav: "Roofline",
    sheet,
    summary:
      "Floating-point operations a second against those for each byte moved; a mark is an operator " +
      "with its shapes, the larger the more time it takes. The lines are what the device can do.",
    make: () => rooflinePlot(sheet),
  });
}

function rooflinePlot(sheet) {
  const of = (row, column) => sheet.at(row, column);
  const rows = sheet.rows.filter((row) => of(row, "intensity") > 0 && of(row, "achieved_flops_per_s") > 0);
  if (!rows.length) return "no operator says what it computes and moves";
  const intensities = rows.map((row) => of(row, "intensity"));
  const least = Math.min(...intensities) / 2;
  const most = Math.max(...intensities) * 2;
  const longest = Math.max(...rows.map((row) => of(row, "total_us")));
  const peaks = new Map();
  for (const row of rows) {
    const [rate, bandwidth] = [of(row, "peak_flops_per_s"), of(row, "peak_gb_per_s")];
    if (rate && bandwidth) peaks.set(of(row, "precision"), [rate, 1e9 * bandwidth]);
  }
  const roof = ([rate, bandwidth]) =>
    [least, rate / bandwidth, Math.max(most, (rate / bandwidth) * 2)].map((x) => [
      x,
      Math.min(rate, x * bandwidth),
    ]);
  const describe = (row) => {
    const at = (column, unit) => human(of(row, column), unit);
    return tip(of(row, "op_name"), [
      ["computes", at("problem")],
      ["calls", at("call_count", "count")],
      ["time, mean", at("mean_us", "us")],
      ["time, all", at("total_us", "us")],
      ["operations", at("achieved_flops_per_s", "flops_per_s")],
      ["memory", at("achieved_gb_per_s", "gb_per_s")],
      ["bound by", at("bound")],
      ["of the roofline", at("roofline_pct", "pct")],
    ]);
  };
  const kinds = ROOFLINE_KINDS.filter((kind) => rows.some((row) => of(row, "kind") === kind));
  const build = () => ({
    grid: {left: 8, right: 24, top: 40, bottom: 30, containLabel: true},
    legend: {data: [...kinds, ...[...peaks.keys()].map((precision) => `peak ${precision}`)]},
    tooltip: {
      trigger: "item",
      formatter: (p) => (p.data.row ? describe(p.data.row) : tip(p.seriesName, [])),
    },
    xAxis: {
      type: "log",
      name: "floating-point operations for each byte",
      nameLocation: "middle",
      nameGap: 24,
      axisLabel: {formatter: (v) => short(v, null)},
    },
    yAxis: {type: "log", axisLabel: {formatter: (v) => short(v, "flops_per_s")}},
    series: [
      ...kinds.map((kind, i) => ({
        type: "scatter",
        name: kind,
        symbol: SYMBOLS[i % SYMBOLS.length],
        itemStyle: {color: palette.series[i % 8], opacity: 0.8},
        symbolSize: (value, p) => 6 + 18 * Math.sqrt(of(p.data.row, "total_us") / longest),
        data: rows
          .filter((row) => of(row, "kind") === kind)
          .map((row) => ({value: [of(row, "intensity"), of(row, "achieved_flops_per_s")], row})),
      })),
      ...[...peaks].map(([precision, peak], i) => ({
        type: "line",
        name: `peak ${precision}`,
        showSymbol: false,
        data: roof(peak),
        lineStyle: {width: 1.5, type: ["solid", "dashed", "dotted"][i % 3], color: palette.dim},
        itemStyle: {color: palette.dim},
      })),
    ],
  });
  return plot({
    id: "plot-roofline",
    height: () => 380,
    label: `Roofline of ${rows.length} operators by their shapes.`,
    build,
  });
}
