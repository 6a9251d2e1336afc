// The report of one trace.

const all = new Sheets(DATA.sheets);
const metrics = DATA.metrics || [];
const metricOf = new Map(metrics.map((m) => [m.metric, m]));
const label = DATA.label || DATA.trace || "trace";
const valued = (m) => m && m.value !== null && m.value !== undefined;

/** Tables of the nested details of metrics, by their names. */
const nested = new Map();
for (const m of metrics) for (const raw of m.tables || []) nested.set(raw.name, new Sheet(raw));
const nestedShown = new Set();
function nestedSheet(sheetName) {
  nestedShown.add(sheetName);
  return nested.get(sheetName);
}

/** The number of a tile is larger than its unit. */
function valueAndUnit(text) {
  const space = text.indexOf(" ");
  return space < 0 ? text : [text.slice(0, space), " ", el("span.unit", text.slice(space + 1))];
}

function header() {
  const sheet = all.get("configuration");
  const row = sheet.rows[0] || [];
  const at = (column) => sheet.at(row, column);
  const line = [
    at("devices") !== null && at("device_name") !== null
      ? `${human(at("devices"))} × ${human(at("device_name"))}`
      : at("device_name"),
    at("rank_count") !== null
      ? `${at("rank_count")} ${at("rank_count") === 1 ? "rank" : "ranks"}`
      : null,
    at("model"),
    at("framework"),
    at("phase"),
  ].filter((part) => !missing(part));
  const root = el(
    "header.head",
    el("h1", name(label)),
    el(
      "p.line",
      line.map((part, i) => [i ? el("span.dot", " · ") : null, name(part)]),
    ),
  );
  if (!sheet.rows.length) root.append(absent(sheet.reason));
  const shown = new Set(["device_name", "comm_env"]);
  const pairs = sheet.columns
    .filter((c, i) => !shown.has(c.name) && !missing(row[i]))
    .map((c) => [headingOf(c).replaceAll("_", " "), human(at(c.name), c.unit), c.doc]);
  if (DATA.trace && DATA.trace !== label) pairs.unshift(["trace", DATA.trace]);
  if (pairs.length) root.append(facts(pairs));
  const env = environment(at("comm_env"));
  if (env.length)
    root.append(
      disclosure(`Settings of the communication library: ${env.length}`, () => facts(env)),
    );
  PAGE.append(root);
}

/** `comm_env` is JSON text of names and values. */
function environment(text) {
  if (missing(text)) return [];
  try {
    const value = typeof text === "string" ? JSON.parse(text) : text;
    return Object.entries(value)
      .filter(([, v]) => !missing(v))
      .map(([k, v]) => [k, human(v)]);
  } catch {
    return [["comm_env", text]];
  }
}

function tiles() {
  const list = DATA.headline || [];
  if (!list.length) {
    notShown.push(["Key numbers", "no metric of them has a value"]);
    return;
  }
  PAGE.append(
    el(
      "div.tiles",
      {id: "tiles"},
      list.map((t) => {
        const raw = typeof t.value === "number" ? `${t.value} ${t.unit || ""}` : null;
        return el(
          "div.tile",
          el("div.tile-title", t.title),
          el(
            "div.tile-value",
            {title: raw},
            raw === null ? name(human(t.value)) : valueAndUnit(human(t.value, t.unit)),
          ),
          el("div.tile-note", name(t.note || "")),
          el("div.tile-name", t.source),
        );
      }),
    ),
  );
}

/** Where the page shows what a finding names as its proof, by metric or view. */
const SHOWN_IN = {
  straggler: "stragglers",
  straggler_by_rank: "stragglers",
  straggler_summary: "stragglers",
  gpu_timeline_by_rank: "breakdown",
  step_account: "fix",
  account_summary: "fix",
  exposed_comm_by_group: "exposed-dims",
  hockney_fits: "bandwidth",
  collective_sizes: "bandwidth",
  message_sizes: "sizes",
  network_by_rank: "network",
  idle_causes: "idle-causes",
  critical_path: "path-ranks",
  copy_summary: "copies",
  kernel_summary: "kernels",
  kernel_class_times: "classes",
  ops_roofline: "roofline",
  cuda_api_sum: "api-sum",
  cuda_gpu_kern_sum: "kernel-sum",
  nvtx_sum: "range-sum",
  memory: "memory",
  memory_timeline: "memory",
};

/** Parts of a step with their titles, and the colour of each. */
const STEP_PARTS = {
  compute: ["compute", "compute"],
  transfer: ["communication: transfer", "comm"],
  wait: ["communication: waiting", "s2"],
  unmatched: ["communication: not matched", "s7"],
  copy: ["copies", "copy"],
  graph: ["graphs", "s6"],
  launch: ["idle: launches do not keep up", "s4"],
  host: ["idle: other work of the host", "s8"],
  data_loading: ["idle: data loading", "s7"],
  sync: ["idle: after synchronisation", "s6"],
  kernel_gap: ["idle: between queued kernels", "idle"],
  other: ["idle: other", "idle"],
  unknown: ["idle: launch not recorded", "idle"],
};

/** Links of findings to sections that are made after them. */
const proofs = [];

function whatToFix() {
  const said = DATA.diagnosis;
  if (!said) return;
  const account = new Sheet(said.account || {});
  const unit = said.per || "step";
  const found = said.findings || [];
  const ms = (value) => human(value, "ms");
  const took = said.step_ms === null ? "" : `A ${unit} takes ${ms(said.step_ms)}. `;
  const nothing =
    "Nothing was found that is wrong" +
    ((said.smaller || []).length ? ` and gains ${said.least_pct} % of it.` : ".");
  const part = section(
    "fix",
    "What to fix first",
    took +
      (found.length
        ? "What is wrong, largest gain first; each gain is the most that a step could lose."
        : nothing),
    {nav: "Fix first"},
  );
  if (account.rows.length) part.body.append(accountBar(account, unit));
  if (found.length)
    part.body.append(
      el(
        "ol.fixes",
        found.map((f) => finding(f, unit)),
      ),
    );
  const more = rest(said);
  if (more.length)
    part.body.append(
      disclosure("What else was looked for", () => facts(more)),
    );
  const bounds = new Sheet(said.what_if || {});
  if (bounds.rows.length) {
    part.body.append(
      disclosure("What if: the least that a step would take", () => [
        sheetTable(bounds, {id: "table-what-if", filter: false}),
        bounds.caveats.map((caveat) => el("p.sub", sentence(caveat))),
      ]),
    );
  }
}

/** The step as one bar of its parts, and the parts in a table below. */
function accountBar(account, unit) {
  const bar = el("div.account", {
    role: "img",
    "aria-label": `Where a ${unit} goes, by share.`,
  });
  const key = el("div.account-key");
  for (const row of account.rows) {
    const at = (column) => account.at(row, column);
    const [title, colour] = STEP_PARTS[at("part")] || [at("part"), "idle"];
    const text = `${title}: ${human(at("time_ms"), "ms")}, ${human(at("share_pct"), "pct")}`;
    const piece = el(`span.part-${colour}`, {title: text});
    piece.style.flexGrow = at("share_pct");
    bar.append(piece);
    if (at("share_pct") >= 0.5)
      key.append(el("span", el(`i.swatch.part-${colour}`), `${title} ${human(at("share_pct"), "pct")}`));
  }
  return el("div", bar, key, accountTable(account, unit));
}

function accountTable(account, unit) {
  return disclosure(`Where a ${unit} goes: ${account.rows.length} parts`, () => [
    sheetTable(account, {id: "table-account", filter: false, without: ["per", "step_ms", "num_ranks"]}),
  ]);
}

/** One finding: the sentence, its gain, and what to do. */
function finding(f, unit) {
  const gain =
    f.gain_ms === null
      ? el("span.badge", "no time of a step")
      : el(
          "span.badge.worse.large",
          {title: sentence(f.gain_is || "")},
          `≤ ${human(f.gain_ms, "ms")}` +
            (f.gain_pct === null ? "" : ` · ${human(f.gain_pct, "pct")} of a ${unit}`),
        );
  const proof = el("span.proof");
  proofs.push([proof, f.shown]);
  const sure = (f.limits || []).length
    ? `${f.confidence}: ${f.limits.join("; ")}`
    : f.confidence;
  return el(
    "li",
    el("p.fix", name(sentence(f.finding)), " ", gain),
    facts([
      ...Object.entries(f.where || {}).map(([key, value]) => [
        key.replaceAll("_", " "),
        key === "size_bytes" ? human(value, "bytes") : human(value),
      ]),
      ["sure", sure],
      ["shown by", proof],
    ]),
    el("p.advice", el("b", "Do: "), name(sentence(f.advice))),
    disclosure("The query that shows it", () => el("pre", el("code", f.evidence))),
  );
}

/** What is smaller, was not found, or could not be looked for. */
function rest(said) {
  const names = (list) => [...new Set(list)].join(", ");
  const pairs = [];
  if ((said.smaller || []).length)
    pairs.push([`below ${said.least_pct} %`, names(said.smaller.map((f) => f.diagnosis))]);
  if ((said.not_found || []).length) pairs.push(["not found", names(said.not_found)]);
  for (const lack of said.not_looked_for || [])
    pairs.push([`not looked for: ${names(lack.diagnoses)}`, sentence(lack.reason)]);
  return pairs;
}

/** Links each finding to the section that shows it, where the page has it. */
function linkProofs() {
  for (const [node, shown] of proofs) {
    const wanted = [SHOWN_IN[shown], "tables", "metrics"].find((id) =>
      id === "tables"
        ? all.byName.has(shown) && sections.some((s) => s.id === id)
        : sections.some((s) => s.id === id && (id !== "metrics" || metricOf.has(shown))),
    );
    node.append(
      wanted
        ? el("a", {href: `#${wanted}`, onclick: (event) => jump(event, wanted)}, shown)
        : name(shown),
    );
  }
}

function breakdown() {
  const sheet = all.get("gpu_timeline_by_rank");
  const make = (part) => breakdownPlot(part, sheet);
  plotSection({id: "breakdown", title: "Time by rank", sheet, make});
}

function breakdownPlot(part, sheet) {
  const groups = new Map(sheet.distinct("rank").map(([rank]) => [rank, new Map()]));
  for (const row of sheet.rows) groups.get(sheet.at(row, "rank")).set(sheet.at(row, "type"), row);
  const ranks = [...groups.keys()];
  const value = (i, type, column) => {
    const row = groups.get(ranks[i]).get(type);
    return row ? sheet.at(row, column) : null;
  };
  let column = "time_ms";
  const item = plot({
    id: "plot-breakdown",
    height: () => rowsHeight(ranks.length, 48, 24, 66),
    label: `Stacked bars: what the devices of ${ranks.length} ranks spend their time on.`,
    build: () => timeBars(ranks.map(rankName), column, value),
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

function timeline() {
  const sheet = all.get("step_timeline");
  const step = sheet.rows.length ? sheet.at(sheet.rows[0], "step") : null;
  plotSection({
    summary:
      "What ran when. What is narrower than two pixels is a bar as high as the part of the pixel " +
      "that it fills: zoom in to see it.",
    id: "timeline",
    title: step === null ? "Timeline of the trace" : `Timeline of step ${step}`,
    nav: "Timeline",
    sheet,
    make(part) {
      const item = timelinePlot(sheet, all.get("step_short_events"));
      part.controls.append(
        el("span.hint", "click, then wheel to zoom; drag to move"),
        ...item.buttons,
      );
      return item;
    },
  });
}

/** What tells the rows of a sheet of collectives apart, and the look of each. */
function collectiveGroups(sizes, fits) {
  const kinds = new Set([
    ...sizes.rows.map((r) => sizes.at(r, "collective")),
    ...fits.rows.map((r) => fits.at(r, "collective")),
  ]);
  const collectives = [...kinds].sort(compareCells);
  const groups = new Map();
  const key = (sheet, row) => ["collective", "group_size", "link"].map((c) => sheet.at(row, c));
  for (const sheet of [sizes, fits]) {
    for (const row of sheet.rows) {
      const [collective, size, link] = key(sheet, row);
      const id = JSON.stringify([collective, size, link]);
      if (!groups.has(id)) {
        const title = [collective, size === null ? null : `× ${size}`, link]
          .filter((p) => p !== null)
          .join(" ");
        const like = [...groups.values()].filter((g) => g.collective === collective).length;
        groups.set(id, {
          name: title,
          collective,
          colourIndex: collectives.indexOf(collective) % 8,
          symbol: SYMBOLS[like % SYMBOLS.length],
          dash: ["solid", "dashed", "dotted"][like % 3],
          sizes: [],
          fit: null,
        });
      }
      if (sheet === sizes) groups.get(id).sizes.push(row);
      else groups.get(id).fit = row;
    }
  }
  return [...groups.values()];
}

function bandwidth() {
  const sizes = all.get("collective_sizes");
  const fits = all.get("hockney_fits");
  plotSection({
    id: "bandwidth",
    title: "Bandwidth against message size",
    nav: "Bandwidth",
    sheets: [sizes, fits],
    summary:
      "Median bandwidth of the calls of a size; the curves are the fitted lines " +
      "T = alpha + beta S as S / T.",
    make: (part) => bandwidthPlot(part, sizes, fits),
  });
}

function bandwidthPlot(part, sizes, fits) {
  const groups = collectiveGroups(sizes, fits);
  let column = BANDWIDTHS[0][0];
  const look = () =>
    groups.map((g) => ({
      ...g,
      colour: palette.series[g.colourIndex],
      points: bandwidthPoints(sizes, g.sizes, column),
      curve: fittedCurve(fits, g.fit, column),
    }));
  if (!look().some((g) => g.points.length || g.curve))
    return "no call has both a message size and a duration";
  const describe = (g, point) => {
    const at = (c, unit) => human(sizes.at(sizes.rows[point[2]], c), unit);
    const [least, largest] = ["min", "max"].map((m) => at(`${m}_bus_bw_gb_per_s`, "gb_per_s"));
    return tip(g.name, [
      ["message size", human(point[0], "bytes")],
      ["algorithm bandwidth", at("median_algo_bw_gb_per_s", "gb_per_s"), g.colour],
      ["bus bandwidth", at("median_bus_bw_gb_per_s", "gb_per_s")],
      ["bus, least to largest", `${least} – ${largest}`],
      ["median time", at("median_transfer_us", "us")],
      ["calls", at("calls", "count")],
    ]);
  };
  const item = plot({
    id: "plot-bandwidth",
    height: () => 400,
    label:
      `Bandwidth against message size of ${groups.length} kinds of calls, logarithmic axes, ` +
      "with fitted lines.",
    build: () => bandwidthOption(look(), describe),
  });
  part.controls.append(
    choice(
      "Bandwidth",
      BANDWIDTHS,
      column,
      redraws(item, (v) => (column = v)),
    ),
  );
  part.body.append(fitLines(fits));
  return item;
}

/** The fits in a table below the plot: short enough to be read beside it. */
function fitLines(fits) {
  if (!fits.rows.length)
    return el(
      "p.sub",
      `No fitted line: ${plain(fits.reason || "no kind of call has enough sizes")}.`,
    );
  fits.title = "Fitted lines";
  fits.shown = true;
  return sheetTable(fits, {id: "fits", filter: false});
}

function overlap() {
  // Without steps, the whole trace of each rank.
  const sheet = all.first("step_overlap", "overlap_by_rank");
  const means = all.get("step_overlap_mean");
  plotSection({
    id: "overlap",
    title: sheet.name === "step_overlap" ? "Overlap by step" : "Overlap by rank",
    nav: "Overlap",
    sheet,
    half: true,
    make: (part) => overlapPlot(part, sheet, means),
  });
}

const stepName = (step) => (step === null ? "whole trace" : `step ${step}`);

function overlapPlot(part, sheet, means) {
  const ratios = sheet.rows.map((row) => sheet.at(row, "overlap_ratio")).filter((v) => v !== null);
  if (!ratios.length) return "no step of any rank communicates";
  if (ratios.every((v) => v === 0))
    return "0 % everywhere: nothing of the communication of any rank runs beside compute";
  const shares = overlapShares(sheet, means);
  const {steps, ranks} = shares;
  let view = steps.length > 1 ? "step" : "rank";
  let withRanks = false;
  const item = plot({
    id: "plot-overlap",
    height: () => 300,
    label:
      `Overlap of communication with compute in ${steps.length} steps ` +
      `of ${ranks.length} ranks.`,
    build: () =>
      standingBars(view === "step" ? overlapByStep(shares, withRanks) : overlapByRank(shares)),
  });
  if (steps.length > 1)
    part.controls.append(
      checkbox(
        "ranks",
        withRanks,
        redraws(item, (on) => (withRanks = on)),
      ),
      choice(
        "Overlap by",
        [
          ["step", "by step"],
          ["rank", "by rank"],
        ],
        view,
        redraws(item, (v) => (view = v)),
      ),
    );
  return item;
}

/** Steps and ranks, the share of each pair, and the mean of each step. */
function overlapShares(sheet, means) {
  const cells = new Map(
    sheet.rows.map((row) => {
      const key = [sheet.at(row, "rank"), sheet.at(row, "step")];
      return [JSON.stringify(key), sheet.at(row, "overlap_ratio")];
    }),
  );
  const meanOf = new Map(
    means.rows.map((row) => [means.at(row, "step"), means.at(row, "overlap_ratio")]),
  );
  const unit = sheet.unit("overlap_ratio");
  const known = (map, key) => (map.has(key) ? map.get(key) : null);
  return {
    steps: sheet.distinct("step").map(([s]) => s),
    ranks: sheet.distinct("rank").map(([r]) => r),
    share: (rank, step) => known(cells, JSON.stringify([rank, step])),
    mean: (step) => known(meanOf, step),
    shown: (value) => human(value, unit),
    look: {unit, yName: "share of communication beside compute"},
  };
}

function overlapByStep({steps, ranks, share, mean, shown, look}, withRanks) {
  const lines = withRanks ? ranks : [];
  const colour = (i) => palette.series[(i + 1) % 8];
  const ofRanks = (step) =>
    lines.slice(0, 16).map((r, i) => [rankName(r), shown(share(r, step)), colour(i)]);
  return {
    ...look,
    categories: steps.map(String),
    axisName: "step",
    series: [
      {
        name: "mean over ranks",
        colour: palette.compute,
        values: steps.map(mean),
        type: steps.length > 40 ? "line" : "bar",
      },
      ...lines.map((r, i) => ({
        name: rankName(r),
        type: "line",
        colour: colour(i),
        values: steps.map((s) => share(r, s)),
        line: {width: 1, opacity: 0.8},
        z: 3,
      })),
    ],
    tooltip: (i) =>
      tip(
        stepName(steps[i]),
        [["mean over ranks", shown(mean(steps[i])), palette.compute], ...ofRanks(steps[i])],
        lines.length > 16 ? `and ${lines.length - 16} more ranks` : null,
      ),
  };
}

function overlapByRank({steps, ranks, share, shown, look}) {
  const first = steps.slice(0, 8);
  return {
    ...look,
    categories: ranks.map((r) => (r === null ? "no rank" : String(r))),
    axisName: "rank",
    series: first.map((s, i) => ({
      name: stepName(s),
      colour: palette.series[i % 8],
      values: ranks.map((r) => share(r, s)),
    })),
    tooltip: (i) =>
      tip(
        rankName(ranks[i]),
        first.map((s, k) => [stepName(s), shown(share(ranks[i], s)), palette.series[k % 8]]),
      ),
  };
}

function stragglers() {
  const sheet = all.get("straggler_summary");
  plotSection({
    id: "stragglers",
    title: "Stragglers",
    sheet,
    half: true,
    make: () => stragglersPlot(sheet),
  });
}

function stragglersPlot(sheet) {
  const rows = [...sheet.rows].sort((a, b) =>
    compareCells(sheet.at(a, "rank"), sheet.at(b, "rank")),
  );
  const values = (column) => rows.map((row) => sheet.at(row, column));
  const describe = (row) => {
    const at = (column, unit) => human(sheet.at(row, column), unit);
    return tip(rankName(sheet.at(row, "rank")), [
      ["mean lag", at("mean_lag_us", "us"), palette.series[3]],
      ["mean wait", at("mean_wait_us", "us"), palette.series[5]],
      ["total wait", at("total_wait_us", "us")],
      ["last to start", `${at("times_last", "count")} of ${at("collective_count", "count")}`],
      ["first to start", at("times_first", "count")],
    ]);
  };
  return plot({
    id: "plot-stragglers",
    height: () => 300,
    label: `Mean lag and mean wait of ${rows.length} ranks in their collectives.`,
    build: () =>
      standingBars({
        categories: values("rank").map((r) => (r === null ? "no rank" : String(r))),
        unit: "us",
        axisName: "rank",
        yName: "mean per call",
        series: [
          {
            name: "lag: starts after the first",
            colour: palette.series[3],
            values: values("mean_lag_us"),
          },
          {name: "wait: for the last", colour: palette.series[5], values: values("mean_wait_us")},
        ],
        tooltip: (i) => describe(rows[i]),
      }),
  });
}

function messageSizes() {
  const sheet = all.get("message_sizes");
  plotSection({
    id: "sizes",
    title: "Message sizes",
    sheet,
    half: true,
    make: (part) => sizesPlot(part, sheet),
  });
}

function sizesPlot(part, sheet) {
  const power = (row) => Math.round(Math.log2(sheet.at(row, "from_bytes")));
  const powers = sheet.rows.map(power);
  const low = Math.min(...powers);
  const bins = Array.from({length: Math.max(...powers) - low + 1}, (_, i) => low + i);
  const kinds = sheet.distinct("collective").map(([kind]) => kind);
  const cells = new Map(
    sheet.rows.map((row) => [JSON.stringify([sheet.at(row, "collective"), power(row)]), row]),
  );
  let column = "total_bytes";
  const value = (kind, bin) => {
    const row = cells.get(JSON.stringify([kind, bin]));
    return row ? sheet.at(row, column) : null;
  };
  const unit = () => (column === "calls" ? "count" : "bytes");
  const describe = (bin) => {
    const rows = kinds.map((kind, k) => {
      const cell = value(kind, bin);
      return cell === null ? null : [kind, human(cell, unit()), palette.series[k % 8]];
    });
    return tip(`${powerOfTwo(bin)} to ${powerOfTwo(bin + 1)}`, rows);
  };
  const item = plot({
    id: "plot-sizes",
    height: () => 300,
    label: `Bytes and calls of ${kinds.length} collectives by message size.`,
    build: () =>
      standingBars({
        categories: bins.map(powerOfTwo),
        unit: unit(),
        stack: true,
        axisName: "message size, from",
        yName: column === "calls" ? "calls" : "bytes of all calls",
        series: kinds.map((kind, k) => ({
          name: kind,
          colour: palette.series[k % 8],
          values: bins.map((bin) => value(kind, bin)),
        })),
        tooltip: (i) => describe(bins[i]),
      }),
  });
  const columns = [
    ["total_bytes", "bytes"],
    ["calls", "calls"],
  ];
  part.controls.append(
    choice(
      "Count",
      columns,
      column,
      redraws(item, (v) => (column = v)),
    ),
  );
  return item;
}

function memory() {
  const sheet = all.get("memory_timeline");
  plotSection({
    id: "memory",
    title: "Memory over time",
    nav: "Memory",
    sheet,
    half: true,
    make: () => memoryPlot(memoryLines(sheet)),
  });
}

/** Allocated and reserved bytes of each device over time. */
function memoryLines(sheet) {
  const lines = [];
  const places = sheet.distinct("rank", "device");
  const several = places.some(([rank], i) => i > 0 && places[i - 1][0] === rank);
  for (const [rank, device] of places) {
    const rows = sheet.rows.filter(
      (row) => sheet.at(row, "rank") === rank && sheet.at(row, "device") === device,
    );
    const title = rankName(rank) + (several && device !== null ? `, device ${device}` : "");
    const place = Math.floor(lines.length / 2);
    for (const what of ["allocated", "reserved"]) {
      const column = `${what}_bytes`;
      if (rows.every((row) => sheet.at(row, column) === null)) continue;
      const data = rows.map((row) => [sheet.at(row, "t_ms"), sheet.at(row, column)]);
      lines.push({name: `${title} ${what}`, place, reserved: what === "reserved", data});
    }
  }
  return lines;
}

function memoryPlot(lines) {
  const describe = (items) =>
    tip(
      human(items[0].data[0], "ms"),
      items.slice(0, 16).map((p) => [p.seriesName, human(p.data[1], "bytes"), p.color]),
    );
  const series = (l) => {
    const color = palette.series[l.place % 8];
    return {
      type: "line",
      step: "end",
      name: l.name,
      data: l.data,
      showSymbol: false,
      cursor: "default",
      lineStyle: {width: l.reserved ? 1 : 1.6, type: l.reserved ? "dashed" : "solid", color},
      itemStyle: {color},
      emphasis: {disabled: true},
    };
  };
  const zoom = [
    {type: "inside", zoomOnMouseWheel: "ctrl", filterMode: "none"},
    {type: "slider", bottom: 6, height: 16, filterMode: "none"},
  ];
  return plot({
    id: "plot-memory",
    height: () => 300,
    label: `Allocated and reserved memory of ${lines.length / 2} devices over time.`,
    build: () => ({
      grid: {left: 8, right: 24, top: 40, bottom: printing ? 30 : 58, containLabel: true},
      legend: {data: lines.map((l) => l.name)},
      tooltip: {trigger: "axis", formatter: describe},
      xAxis: {
        type: "value",
        min: "dataMin",
        max: "dataMax",
        name: "time",
        nameLocation: "middle",
        nameGap: 24,
        splitLine: {show: false},
        axisLabel: {
          formatter: (v) => short(v, "ms"),
          alignMinLabel: "left",
          alignMaxLabel: "right",
        },
      },
      yAxis: {type: "value", min: 0, axisLabel: {formatter: (v) => short(v, "bytes")}},
      dataZoom: printing ? [] : zoom,
      series: lines.map(series),
    }),
  });
}

function kernelClasses() {
  const sheet = all.get("kernel_class_times");
  plotSection({
    id: "classes",
    title: "Kernel classes",
    nav: "Kernels",
    sheet,
    half: true,
    make: () => classesPlot(sheet),
  });
}

/** Communication, copies and compute have their own colours. */
function classColour(kind) {
  if (/^comm/i.test(kind)) return palette.comm;
  return /cop(y|ies)|memcpy|memset|^set$/i.test(kind) ? palette.copy : palette.compute;
}

function classesPlot(sheet) {
  const rows = [...sheet.rows].sort(
    (a, b) => (sheet.at(b, "time_ms") || 0) - (sheet.at(a, "time_ms") || 0),
  );
  const at = (i, column, unit) => human(sheet.at(rows[i], column), unit);
  const colour = (i) => classColour(String(sheet.at(rows[i], "class")));
  const build = () => {
    const option = lyingBars({
      categories: rows.map((_, i) => at(i, "class")),
      unit: "ms",
      series: [
        {
          name: "time",
          colour: palette.compute,
          values: rows.map((row) => sheet.at(row, "time_ms")),
        },
      ],
      tooltip: (i) =>
        tip(at(i, "class"), [
          ["time", at(i, "time_ms", "ms"), colour(i)],
          ["share", at(i, "share_pct", "pct")],
          ["kernels", at(i, "kernel_count", "count")],
        ]),
    });
    option.grid.right = 64;
    option.series[0].itemStyle = {color: (p) => colour(p.dataIndex)};
    option.series[0].label = {
      show: true,
      position: "right",
      color: palette.dim,
      fontSize: 11,
      formatter: (p) => at(p.dataIndex, "share_pct", "pct"),
    };
    return option;
  };
  const height = () => {
    const least = Math.min(printing ? 200 : 400, rows.length * 46 + 40);
    return Math.max(least, rowsHeight(rows.length, 40, 26, 30));
  };
  return plot({
    id: "plot-classes",
    height,
    label: `Time of ${rows.length} classes of kernels.`,
    build,
  });
}

/** A section that is a table only. */
function tableSection(id, title, sheet, {summary, sort, cells, half, nav} = {}) {
  if (!sheet || !sheet.rows.length) {
    if (sheet) leave(null, title, sheet.reason);
    return;
  }
  const part = section(id, title, summary || sentence(sheet.summary), {half, nav});
  sheet.title = title;
  part.body.append(sheetTable(sheet, {id: `table-${id}`, page: half ? 12 : 25, sort, cells}));
  if (sheet.reason) part.body.append(el("p.sub", sentence(sheet.reason)));
}

/** By group, dimension, rank and kind: which of them costs the time. */
function causes() {
  const clip = {cells: {name: clipped, pg_name: clipped, pg_desc: clipped}};
  tableSection(
    "exposed-dims",
    "Exposed communication by dimension",
    nestedSheet("exposed_comm_by_group.by_dim"),
    {half: true, nav: "Groups", ...clip},
  );
  tableSection(
    "exposed-groups",
    "Exposed communication by process group",
    nestedSheet("exposed_comm_by_group.by_group"),
    {half: true, nav: "", ...clip},
  );
  tableSection("straggler-causes", "Stragglers and why", nestedSheet("straggler.stragglers"), {
    half: true,
    nav: "Causes",
  });
  tableSection(
    "straggler-victims",
    "Late only because others were",
    nestedSheet("straggler.victims"),
    {half: true, nav: ""},
  );
  tableSection("straggler-ranks", "Compute and waits by rank", nestedSheet("straggler.per_rank"), {
    half: true,
    nav: "",
  });
  tableSection("idle-causes", "Idle time by cause and rank", nestedSheet("idle_causes.by_rank"), {
    nav: "Idle",
  });
  tableSection(
    "idle-operators",
    "What the host did in the meantime",
    nestedSheet("idle_causes.by_operator"),
    {half: true, nav: "", ...clip},
  );
  tableSection("path-ranks", "Critical path by rank", nestedSheet("critical_path.by_rank"), {
    nav: "",
  });
  tableSection("path-kinds", "Critical path by kind", nestedSheet("critical_path.by_kind_ms"), {
    half: true,
    nav: "Critical path",
  });
  tableSection("path-names", "Critical path by name", nestedSheet("critical_path.by_name"), {
    half: true,
    nav: "",
    ...clip,
  });
  tableSection("network", "Network by rank and kind", all.get("network_by_rank"), {nav: "Network"});
  tableSection("copies", "Copies by direction and name", all.get("copy_summary"), {
    nav: "Copies",
    cells: {name: clipped},
  });
}

const clipped = (text) => el("span.clip", {title: text}, name(human(text)));

function topKernels() {
  const sheet = all.get("kernel_summary");
  const place = sheet.columns.map((c) => c.name).indexOf("total_ms");
  tableSection("kernels", "Top kernels", sheet, {
    half: true,
    sort: place >= 0 ? [place, -1] : null,
    cells: {name: clipped},
  });
}

/** What nsys stats shows of the same names. */
const STATISTICS = [
  ["kernel-sum", "Kernels by name", "cuda_gpu_kern_sum", "name", "Statistics"],
  ["memory-time-sum", "Copies and sets by time", "cuda_gpu_mem_time_sum", "operation", ""],
  ["memory-size-sum", "Copies and sets by size", "cuda_gpu_mem_size_sum", "operation", ""],
  ["api-sum", "Calls of the runtime by name", "cuda_api_sum", "name", ""],
  ["range-sum", "Ranges by name", "nvtx_sum", "name", ""],
  ["os-sum", "Calls of the operating system by name", "osrt_sum", "name", ""],
];

function statistics() {
  for (const [id, title, view, column, nav] of STATISTICS)
    tableSection(id, title, all.get(view), {nav, cells: {[column]: clipped}});
}

function collectives() {
  const sheet = all.first("nccl_summary_implicit_sync", "collective_sizes");
  tableSection("collectives", "Collectives", sheet);
}

function metricTable() {
  const part = section("metrics", "Metrics", "What each metric gives, or why it gives nothing.");
  if (!metrics.length) {
    part.body.append(absent("the report holds no metrics"));
    return;
  }
  const details = (m) => {
    const pairs = Object.entries(m.details || {}).filter(
      ([, v]) => v !== null && typeof v !== "object",
    );
    const warnings = m.warnings || [];
    const own = (m.tables || []).map((raw) => nested.get(raw.name));
    if (!pairs.length && !warnings.length && !own.length) return el("span");
    const counted = (list, one, many) =>
      list.length ? `${list.length} ${list.length === 1 ? one : many}` : null;
    const title = [
      counted(warnings, "warning", "warnings"),
      counted(pairs, "column", "columns"),
      counted(own, "table", "tables"),
    ];
    return disclosure(title.filter(Boolean).join(", "), () => [
      warnings.length
        ? el(
            "ul.warnings",
            warnings.map((w) => el("li", name(warningText(w)))),
          )
        : null,
      pairs.length
        ? facts(
            pairs.map(([k, v]) => [
              k,
              human(v, (m.shares || []).includes(k) ? "pct" : suffixUnit(k)),
            ]),
          )
        : null,
      own.length ? el("p.sub", `In More tables: ${own.map((t) => t.name).join(", ")}.`) : null,
    ]);
  };
  const columns = [
    {
      title: "metric",
      value: (m) => m.metric,
      cell: (m) => el("span.mono", {title: m.summary}, name(m.metric)),
      doc: "Name of the metric",
    },
    {title: "area", value: (m) => m.area, doc: "Area of the catalogue"},
    {
      title: "value",
      numeric: true,
      value: (m) => m.value,
      hint: (m) => (valued(m) ? `${m.value} ${m.unit || ""}` : m.reason),
      doc: "In the unit that is readable; the raw value is the tooltip",
      cell: (m) => (valued(m) ? el("b", human(m.value, m.unit)) : el("span.none", "n/a")),
    },
    {
      title: "better",
      value: (m) => m.better,
      doc: "Which direction is better",
      cell: (m) => (m.better === "higher" ? "↑ higher" : m.better === "lower" ? "↓ lower" : ""),
    },
    {
      title: "what it is, or why there is none",
      value: (m) => (valued(m) ? m.summary : m.reason),
      cls: "wide",
      cell: (m) =>
        valued(m)
          ? el(
              "span",
              m.answer ? el("b", name(sentence(m.answer)), " ") : null,
              name(sentence(m.summary)),
            )
          : el("span.none", name(sentence(m.reason || "no value"))),
      hint: (m) => m.summary,
    },
    {title: "version", numeric: true, value: (m) => m.version, doc: "Version of the definition"},
    {
      title: "details",
      value: (m) => (m.warnings || []).length,
      cell: details,
      screen: true,
      doc: "Warnings and the other single values of the metric",
    },
  ];
  part.body.append(
    sortableTable({
      id: "table-metrics",
      label: "Metrics",
      columns,
      rows: metrics,
      page: 40,
      filter: true,
      extra: (keep) => checkbox("with a value only", false, (on) => keep(on ? valued : () => true)),
    }),
  );
}

/** A warning is a text, or an object that has one. */
const warningText = (w) =>
  typeof w === "string" ? w : (w && (w.message || w.text)) || JSON.stringify(w);

/** Columns of metrics end in their unit. */
const SUFFIXES = [
  "s_per_gb",
  "gb_per_s",
  "bytes",
  "gib",
  "mib",
  "gb",
  "ns",
  "us",
  "ms",
  "ratio",
  "pct",
  "count",
  "s",
];
const suffixUnit = (column) => SUFFIXES.find((unit) => column.endsWith("_" + unit));

/**
 * The findings that bear on the numbers of this trace: those of the ingest, then the warnings of
 * metrics, the warning of most metrics first.
 */
function findings() {
  const sheet = all.get("trace_findings");
  const of = (row, column) => sheet.at(row, column);
  const found = sheet.rows.map((row) => ({
    severity: of(row, "severity"),
    text: sentence(of(row, "message")),
    names: [],
    count: of(row, "finding_count"),
    code: of(row, "code"),
  }));
  const warned = new Map();
  for (const m of metrics) {
    for (const w of m.warnings || []) {
      const text = sentence(warningText(w));
      if (!warned.has(text))
        warned.set(text, {severity: "warning", text, names: [], count: null, code: ""});
      warned.get(text).names.push(m.metric);
    }
  }
  const places = ["error", "loss", "warning"];
  const rows = [...found.filter((f) => f.severity !== "info"), ...warned.values()].sort(
    (a, b) =>
      places.indexOf(a.severity) - places.indexOf(b.severity) ||
      b.names.length - a.names.length ||
      (b.count || 0) - (a.count || 0),
  );
  const minor = found.filter((f) => f.severity === "info");
  if (!rows.length && !minor.length) return;
  const part = section(
    "findings",
    "Findings",
    "What is true of this trace, and bears on its numbers; what has most effect first.",
    {nav: "Findings"},
  );
  const table = (id, list) =>
    sortableTable({
      id,
      label: "Findings",
      rows: list,
      page: 40,
      columns: [
        {
          title: "kind",
          value: (r) => r.severity,
          doc:
            "error; loss: something is missing from the tables; warning: of metrics; " +
            "info: nothing is missing",
        },
        {title: "what", value: (r) => r.text, cls: "wide"},
        {
          title: "times",
          numeric: true,
          value: (r) => r.count,
          doc: "How often reading the trace found it",
        },
        {
          title: "concerns",
          value: (r) => r.names.length || null,
          cls: "wide",
          doc: "Metrics that warn of it, or the name of the finding",
          cell: (r) => {
            const text = r.names.join(", ") || r.code;
            return el(
              "span.names",
              {title: text},
              name(
                r.names.length > 4
                  ? `${r.names.slice(0, 4).join(", ")} and ${r.names.length - 4} more`
                  : text,
              ),
            );
          },
        },
      ],
    });
  if (rows.length) part.body.append(table("table-findings", rows));
  if (minor.length) {
    part.body.append(
      disclosure(`Also noted: ${minor.map((f) => f.code).join(", ")}`, () =>
        table("table-minor-findings", minor),
      ),
    );
  }
}

function otherTables() {
  all.used.add("gpu_timeline");
  const own = [...nested.values()].filter((t) => !nestedShown.has(t.name));
  const list = [all.get("gpu_timeline"), ...all.rest(), ...own];
  for (const sheet of list.filter((s) => !s.rows.length))
    notShown.push([sheet.name, sheet.reason || "there are no rows"]);
  const full = list.filter((s) => s.rows.length);
  if (!full.length) return;
  const part = section(
    "tables",
    "More tables",
    "The other tables of the report, and those that metrics have beside their values.",
    {nav: "Tables"},
  );
  for (const sheet of full) {
    part.body.append(
      disclosure(
        [
          el("b", name(sheet.name)),
          ` ${sentence(sheet.summary)} `,
          el("span.count", `${sheet.rows.length} ${sheet.rows.length === 1 ? "row" : "rows"}`),
        ],
        () => [
          sheetTable(sheet, {id: `table-${sheet.name.replaceAll(".", "-")}`}),
          sheet.reason ? el("p.sub", sentence(sheet.reason)) : null,
        ],
      ),
    );
  }
}

/** One card for all that this trace has nothing of. */
function lacking() {
  if (!notShown.length) return;
  const part = section(
    "lacking",
    "Not in this trace",
    "What the report would show besides, and why it cannot.",
    {nav: ""},
  );
  part.body.append(facts(notShown.map(([title, reason]) => [title, sentence(reason)])));
}

header();
tiles();
whatToFix();
breakdown();
timeline();
bandwidth();
overlap();
stragglers();
messageSizes();
memory();
callStacks();
kernelClasses();
topKernels();
roofline();
statistics();
causes();
collectives();
metricTable();
findings();
otherTables();
lacking();
linkProofs();
show(label, "report");
