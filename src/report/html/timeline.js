// The timeline of one step: for each rank the lanes compute, communication and copies. Nothing is
// drawn that was not: a span is drawn as it was where it is wider than a pixel or two. Of shorter
// spans, the share of a pixel that they fill is the height of its bar; or the share of a slice,
// where the document holds no more.

const LANES = [
  ["compute", "compute", "compute"],
  ["comm", "communication", "comm"],
  ["copy", "copies", "copy"],
];

echarts.graphic.registerShape(
  "spans",
  echarts.graphic.extendShape({
    shape: {rects: [], y: 0, height: 0},
    buildPath(path, {rects, y, height}) {
      for (const [from, to, filled] of rects) {
        // A pixel is left between two spans that touch, where they are wide enough to lose one.
        const width = filled === 1 && to - from > 4 ? to - from - 1 : to - from;
        const part = filled === 1 ? height : Math.max(height * filled, Math.min(height, 1));
        path.rect(from, y + height - part, width, part);
      }
    },
  }),
);

/** Spans from this width on are drawn as they were. */
const WIDE = 2;

/**
 * What is drawn of a lane between two pixels: `[from, to, filled]`, disjoint but for wide spans of
 * several streams. `spans` are `[start, dur]` by start, from the first to be looked at; `slices`
 * (or null) are shares of time from `start` on, each `length` long, that spans do not cover.
 */
function drawnRects(spans, slices, toPixel, left, right) {
  const first = Math.floor(left);
  const filled = new Float64Array(Math.max(Math.ceil(right) - first, 1));
  const add = (from, to, share) => {
    const low = Math.max(from, left);
    const high = Math.min(to, right);
    for (let x = Math.floor(low); x < high; x++) {
      const part = Math.min(high, x + 1) - Math.max(low, x);
      if (part > 0) filled[x - first] += part * share;
    }
  };
  const wide = [];
  let reach = -Infinity;
  for (const [start, dur] of spans) {
    const from = toPixel(start);
    const to = toPixel(start + dur);
    if (from > right) break;
    if (to - from >= WIDE) {
      // What only touches the window is not in it, however the pixels were rounded.
      const [low, high] = [Math.max(from, left), Math.min(to, right)];
      if (high - low > 1e-3) wide.push([low, high, 1]);
    } else if (to > reach) add(Math.max(from, reach), Math.max(to, from + 1e-6), 1);
    reach = Math.max(reach, to);
  }
  const rects = [];
  if (slices) {
    const width = toPixel(slices.length) - toPixel(0);
    const begin = toPixel(slices.start);
    const low = Math.max(Math.floor((left - begin) / width), 0);
    const high = Math.min(Math.ceil((right - begin) / width), slices.filled.length);
    for (let i = low; i < high; i++) {
      const share = slices.filled[i] / 100;
      if (share === 0) continue;
      const from = begin + i * width;
      // A slice wider than pixels is one bar: where in it the events were is not known.
      if (width >= WIDE)
        rects.push([Math.max(from, left), Math.min(from + width, right), Math.min(share, 0.999)]);
      else add(from, from + width, share);
    }
  }
  for (let i = 0; i < filled.length; i++) {
    if (filled[i] <= 0) continue;
    const share = Math.min(filled[i], 0.999);
    const last = rects[rects.length - 1];
    const x = first + i;
    if (last && last[1] === x && Math.abs(last[2] - share) < 0.02) last[1] = x + 1;
    else rects.push([x, x + 1, share]);
  }
  return rects.concat(wide);
}

/** Ranks that are readable at once; more scroll. */
const TIMELINE_RANKS = 16;

function timelinePlot(sheet, shorts) {
  const rows = sheet.rows;
  const devices = new Map();
  const places = sheet.distinct("rank", "device");
  const known = new Set(places.map((key) => JSON.stringify(key)));
  for (const key of shorts.distinct("rank", "device"))
    if (!known.has(JSON.stringify(key))) places.push(key);
  places.sort(
    (a, b) =>
      missing(a[0]) - missing(b[0]) ||
      a[0] - b[0] ||
      (a[1] === null ? -1 : a[1]) - (b[1] === null ? -1 : b[1]),
  );
  for (const [rank] of places) devices.set(rank, (devices.get(rank) || 0) + 1);
  const labels = places.map(([rank, device]) => {
    if (rank === null) return `device ${device}`;
    return devices.get(rank) > 1 ? `rank ${rank}, device ${device}` : rankName(rank);
  });
  const placeOf = new Map(places.map((key, i) => [JSON.stringify(key), i]));
  const lanes = LANES.map(([lane, title, colour], k) => {
    const spans = [];
    rows.forEach((row, i) => {
      if (sheet.at(row, "lane") !== lane || sheet.at(row, "start_us") === null) return;
      const place = placeOf.get(JSON.stringify([sheet.at(row, "rank"), sheet.at(row, "device")]));
      spans.push([sheet.at(row, "start_us"), sheet.at(row, "dur_us") || 0, place, i]);
    });
    // By place and start, so that a span that an earlier one hides is known when it is drawn.
    spans.sort((a, b) => a[2] - b[2] || a[0] - b[0]);
    const slices = new Map();
    for (const row of shorts.rows.filter((r) => shorts.at(r, "lane") === lane)) {
      const place = placeOf.get(JSON.stringify([shorts.at(row, "rank"), shorts.at(row, "device")]));
      slices.set(place, {
        start: shorts.at(row, "start_us"),
        length: shorts.at(row, "slice_us"),
        filled: shorts.at(row, "filled_pct") || [],
        count: shorts.at(row, "event_count"),
      });
    }
    // Where each place begins, and how long its longest span is: what ends before the window begins
    // is skipped.
    const begins = new Map();
    const longest = new Map();
    spans.forEach(([, dur, place], i) => {
      if (!begins.has(place)) begins.set(place, i);
      longest.set(place, Math.max(longest.get(place) || 0, dur));
    });
    return {lane, title, colour, k, spans, slices, begins, longest};
  });
  let end = 0;
  for (const lane of lanes) {
    for (const [start, dur] of lane.spans) end = Math.max(end, start + dur);
    for (const {start, length, filled} of lane.slices.values())
      end = Math.max(end, start + length * filled.length);
  }

  /** The first span of a place that can reach a time, and those after it. */
  function* spansFrom(lane, place, time) {
    let low = lane.begins.get(place);
    if (low === undefined) return;
    let high = low;
    while (high < lane.spans.length && lane.spans[high][2] === place) high++;
    const last = high;
    const start = time - lane.longest.get(place);
    while (low < high) {
      const mid = (low + high) >> 1;
      if (lane.spans[mid][0] < start) low = mid + 1;
      else high = mid;
    }
    for (let i = low; i < last; i++) yield lane.spans[i];
  }

  /**
   * All of a lane of a rank is one shape: tens of thousands of elements would take a second at
   * every turn of the wheel.
   */
  function drawLane(lane) {
    return (params, api) => {
      const place = params.dataIndex;
      const area = params.coordSys;
      const [x0, y0] = api.coord([0, place]);
      const [scale, band] = api.size([1, 1]);
      const pad = Math.min(4, band * 0.08);
      const height = (band - 2 * pad) / LANES.length;
      const y = y0 - band / 2 + pad + lane.k * height;
      if (y + height < area.y || y > area.y + area.height) return undefined;
      const rects = drawnRects(
        spansFrom(lane, place, (area.x - x0) / scale),
        lane.slices.get(place) || null,
        (time) => x0 + time * scale,
        area.x,
        area.x + area.width,
      );
      const gap = height > 4 ? 0.5 : 0;
      const top = Math.max(y + gap, area.y);
      return {
        type: "spans",
        transition: [],
        silent: true,
        shape: {
          rects,
          y: top,
          height: Math.max(Math.min(y + height - gap, area.y + area.height) - top, 0.5),
        },
        style: {fill: palette[lane.colour]},
      };
    };
  }

  /** The span under a point of the plot; one narrower than a few pixels is met beside it. */
  function spanAt(chart, x, y) {
    if (!chart.containPixel({gridIndex: 0}, [x, y])) return null;
    const [time, place] = chart.convertFromPixel({gridIndex: 0}, [x, y]);
    const near = Math.abs(chart.convertFromPixel({gridIndex: 0}, [x + 2, y])[0] - time);
    const middle = chart.convertToPixel({gridIndex: 0}, [time, place])[1];
    const band =
      places.length > 1
        ? Math.abs(
            chart.convertToPixel({gridIndex: 0}, [time, place > 0 ? place - 1 : place + 1])[1] -
              middle,
          )
        : rowHeight;
    const k = Math.min(
      Math.max(Math.floor(((y - middle) / band + 0.5) * LANES.length), 0),
      LANES.length - 1,
    );
    const lane = lanes[k];
    const names = chart.getOption().legend[0].selected || {};
    if (names[lane.title] === false) return null;
    // Streams overlap: of several under the pointer the one that starts last.
    let best = null;
    let least = near;
    for (const span of spansFrom(lane, place, time - near)) {
      const [start, dur] = span;
      if (start > time + near) break;
      const distance = Math.max(start - time, time - start - dur, 0);
      if (distance < least || distance === 0) {
        best = span;
        least = distance;
      }
    }
    if (best) return {lane, place, row: best[3]};
    const slices = lane.slices.get(place);
    const i = slices ? Math.floor((time - slices.start) / slices.length) : -1;
    return slices && slices.filled[i] > 0 ? {lane, place, slice: i} : null;
  }

  function describe({lane, place, row, slice}) {
    const where = [`${labels[place]}, ${lane.title}`, ""];
    if (row === undefined) {
      const {start, length, filled, count} = lane.slices.get(place);
      return tip(
        "short events",
        [
          where,
          ["from", human(start + slice * length, "us")],
          ["slice", human(length, "us")],
          ["filled", human(filled[slice], "pct"), palette[lane.colour]],
        ],
        `${human(count, "count")} such events in the step`,
      );
    }
    const cells = rows[row];
    const bytes = sheet.at(cells, "message_bytes");
    return tip(sheet.at(cells, "label") || lane.title, [
      where,
      ["start", human(sheet.at(cells, "start_us"), "us")],
      ["duration", human(sheet.at(cells, "dur_us"), "us"), palette[lane.colour]],
      bytes === null ? null : ["bytes", human(bytes, "bytes")],
    ]);
  }

  const box = el("div.tip-box", {hidden: true});
  /** Shows what is under the pointer, beside it. */
  function point(chart, x, y) {
    const span = spanAt(chart, x, y);
    box.hidden = !span;
    if (!span) return;
    box.replaceChildren(describe(span));
    const width = chart.getWidth();
    const fits = x + 16 + box.offsetWidth <= width;
    box.style.left = `${fits ? x + 16 : Math.max(x - 16 - box.offsetWidth, 0)}px`;
    box.style.top = `${y + 14}px`;
  }

  const shown = lanes.filter((l) => l.spans.length || l.slices.size);
  const few = places.length <= TIMELINE_RANKS;
  const rowHeight = places.length <= 8 ? 52 : 36;
  const zoomed = {start: 0, end: 100};
  const height = () => 92 + rowHeight * Math.min(places.length, TIMELINE_RANKS);
  const build = () => ({
    grid: {
      left: 8,
      right: few || printing ? 16 : 38,
      top: 34,
      bottom: printing ? 30 : 58,
      containLabel: true,
    },
    legend: {data: shown.map((l) => l.title)},
    tooltip: {show: false},
    xAxis: {
      type: "value",
      min: 0,
      max: end || 1,
      name: "time since the first start of the step",
      nameLocation: "middle",
      nameGap: 24,
      axisLabel: {formatter: (v) => short(v, "us"), alignMinLabel: "left", alignMaxLabel: "right"},
      splitLine: {show: true},
    },
    yAxis: {
      type: "category",
      inverse: true,
      data: labels,
      axisTick: {show: false},
      splitLine: {show: true},
      axisLabel: {width: 130, overflow: "truncate"},
    },
    dataZoom: [
      {
        id: "wheel",
        type: "inside",
        xAxisIndex: 0,
        filterMode: "none",
        zoomOnMouseWheel: "ctrl",
        moveOnMouseMove: true,
        moveOnMouseWheel: false,
        minSpan: 0.001,
        ...zoomed,
      },
      ...(printing
        ? []
        : [
            {
              id: "slider",
              type: "slider",
              xAxisIndex: 0,
              filterMode: "none",
              bottom: 6,
              height: 16,
              minSpan: 0.001,
              ...zoomed,
            },
          ]),
      ...(few || printing
        ? []
        : [
            {
              id: "ranks",
              type: "slider",
              orient: "vertical",
              yAxisIndex: 0,
              filterMode: "none",
              right: 4,
              width: 14,
              startValue: 0,
              endValue: TIMELINE_RANKS - 1,
            },
          ]),
    ],
    series: shown.map((l) => ({
      type: "custom",
      name: l.title,
      renderItem: drawLane(l),
      data: places.map((_, place) => [0, place]),
      dimensions: ["start_us", "place"],
      encode: {x: 0, y: 1, tooltip: []},
      itemStyle: {color: palette[l.colour]},
      animation: false,
      progressive: 0,
      silent: true,
    })),
  });

  const item = plot({
    id: "plot-timeline",
    height,
    build,
    label:
      `Timeline of a step: ${rows.length} spans on ${places.length} ranks or devices. Ctrl and ` +
      "wheel zoom, dragging moves; with the keyboard + and - zoom, the arrows move, 0 shows all.",
    ready(chart) {
      chart.on("datazoom", () => {
        const [zoom] = chart.getOption().dataZoom;
        zoomed.start = zoom.start;
        zoomed.end = zoom.end;
        box.hidden = true;
      });
      chart.getZr().on("mousemove", ({offsetX, offsetY}) => point(chart, offsetX, offsetY));
      chart.getZr().on("globalout", () => {
        box.hidden = true;
      });
    },
  });
  item.over = box;
  const zoomTo = (start, span) => {
    const size = Math.min(Math.max(span, 0.001), 100);
    const from = Math.min(Math.max(start, 0), 100 - size);
    item.chart.dispatchAction({
      type: "dataZoom",
      dataZoomId: "wheel",
      start: from,
      end: from + size,
    });
  };
  const zoomBy = (factor) => {
    const span = zoomed.end - zoomed.start;
    zoomTo(zoomed.start + (span * (1 - factor)) / 2, span * factor);
  };
  const moveBy = (part) =>
    zoomTo(zoomed.start + (zoomed.end - zoomed.start) * part, zoomed.end - zoomed.start);
  const reset = () => zoomTo(0, 100);
  // Until the plot has the focus the wheel turns the page, as everywhere.
  const wheel = (on) =>
    item.chart.setOption({dataZoom: [{id: "wheel", zoomOnMouseWheel: on ? true : "ctrl"}]});
  item.node.addEventListener("focusin", () => wheel(true));
  item.node.addEventListener("focusout", () => wheel(false));
  item.node.addEventListener("mousedown", () => item.node.focus({preventScroll: true}));
  const keys = {
    "+": () => zoomBy(0.5),
    "=": () => zoomBy(0.5),
    "-": () => zoomBy(2),
    ArrowLeft: () => moveBy(-0.2),
    ArrowRight: () => moveBy(0.2),
    0: reset,
  };
  item.node.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  });
  item.buttons = [
    ["−", "Zoom out", () => zoomBy(2)],
    ["+", "Zoom in", () => zoomBy(0.5)],
    ["All", "Show all of the step", reset],
  ].map(([text, title, onclick]) =>
    el("button.small", {type: "button", title, "aria-label": title, onclick}, text),
  );
  return item;
}
