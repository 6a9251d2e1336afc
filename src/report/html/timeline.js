// The timeline of one step: for each rank the lanes compute, communication and copies.

const LANES = [["compute", "compute", "compute"], ["comm", "communication", "comm"], ["copy", "copies", "copy"]];

/** Ranks that are readable at once; more scroll. */
const TIMELINE_RANKS = 16;

function timelinePlot(sheet) {
  const rows = sheet.rows;
  const devices = new Map();
  for (const [rank, device] of sheet.distinct("rank", "device")) devices.set(rank, (devices.get(rank) || 0) + 1);
  const places = sheet.distinct("rank", "device");
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
    return {lane, title, colour, k, spans};
  });
  let end = 0;
  for (const lane of lanes) for (const [start, dur] of lane.spans) end = Math.max(end, start + dur);

  /** The rectangle of a span; none where it lies outside, or within the pixels of the one before. */
  function drawSpan(lane) {
    return (params, api) => {
      const c = params.context;
      if (c.scale === undefined) {
        const area = params.coordSys;
        const [x0, y0] = api.coord([0, 0]);
        c.x0 = x0;
        c.y0 = y0;
        [c.scale, c.band] = api.size([1, 1]);
        c.left = area.x;
        c.right = area.x + area.width;
        c.top = area.y;
        c.bottom = area.y + area.height;
        c.place = -1;
        c.covered = 0;
      }
      const [start, dur, place] = lane.spans[params.dataIndex];
      if (c.place !== place) {
        c.place = place;
        c.covered = -Infinity;
      }
      const from = Math.max(c.x0 + start * c.scale, c.left);
      const to = Math.min(c.x0 + (start + dur) * c.scale, c.right);
      if (to < c.left || from > c.right || to <= c.covered) return undefined;
      const width = Math.max(to - from, 1);
      c.covered = from + width;
      const pad = Math.min(4, c.band * 0.08);
      const height = (c.band - 2 * pad) / LANES.length;
      const y = c.y0 + place * c.band - c.band / 2 + pad + lane.k * height;
      if (y + height < c.top || y > c.bottom) return undefined;
      const top = Math.max(y + (height > 4 ? 0.5 : 0), c.top);
      const bottom = Math.min(y + height - (height > 4 ? 0.5 : 0), c.bottom);
      // A gap of a pixel shows where one span ends and the next starts.
      return {
        type: "rect", transition: [],
        shape: {x: from, y: top, width: width > 4 ? width - 1 : width, height: Math.max(bottom - top, 0.5)},
        style: {fill: palette[lane.colour]}, emphasis: {style: {stroke: palette.text, lineWidth: 1}},
      };
    };
  }

  function describe(p) {
    const row = rows[p.data[3]];
    const count = sheet.at(row, "event_count");
    const bytes = sheet.at(row, "message_bytes");
    const lane = LANES.find(([l]) => l === sheet.at(row, "lane"));
    return tip(sheet.at(row, "label") || lane[1], [
      [`${labels[p.data[2]]}, ${lane[1]}`, ""],
      ["start", human(p.data[0], "us")],
      ["duration", human(sheet.at(row, "dur_us"), "us"), palette[lane[2]]],
      bytes === null ? null : ["bytes", human(bytes, "bytes")],
      count > 1 ? ["events joined", human(count)] : null,
    ]);
  }

  const few = places.length <= TIMELINE_RANKS;
  const rowHeight = places.length <= 8 ? 52 : 36;
  const zoomed = {start: 0, end: 100};
  const height = () => 92 + rowHeight * Math.min(places.length, TIMELINE_RANKS);
  const build = () => ({
    grid: {left: 8, right: few || printing ? 16 : 38, top: 34, bottom: printing ? 30 : 58, containLabel: true},
    legend: {data: lanes.filter((l) => l.spans.length).map((l) => l.title)},
    tooltip: {trigger: "item", formatter: describe},
    xAxis: {type: "value", min: 0, max: end || 1, name: "time since the first start of the step", nameLocation: "middle", nameGap: 24,
      axisLabel: {formatter: (v) => short(v, "us")}, splitLine: {show: true}},
    yAxis: {type: "category", inverse: true, data: labels, axisTick: {show: false}, splitLine: {show: true}, axisLabel: {width: 130, overflow: "truncate"}},
    dataZoom: [
      {id: "wheel", type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false, minSpan: 0.001, ...zoomed},
      ...(printing ? [] : [{id: "slider", type: "slider", xAxisIndex: 0, filterMode: "none", bottom: 6, height: 16, minSpan: 0.001, ...zoomed}]),
      ...(few || printing ? [] : [{id: "ranks", type: "slider", orient: "vertical", yAxisIndex: 0, filterMode: "none", right: 4, width: 14, startValue: 0, endValue: TIMELINE_RANKS - 1}]),
    ],
    series: lanes.filter((l) => l.spans.length).map((l) => ({
      type: "custom", name: l.title, renderItem: drawSpan(l), data: l.spans, dimensions: ["start_us", "dur_us", "place", "row"],
      encode: {x: 0, y: 2, tooltip: []}, itemStyle: {color: palette[l.colour]}, clip: true, animation: false, progressive: 0, cursor: "default",
    })),
  });

  const item = plot({
    id: "plot-timeline", height, build,
    label: `Timeline of a step: ${rows.length} spans on ${places.length} ranks or devices. Ctrl and wheel zoom, dragging moves; with the keyboard + and - zoom, the arrows move, 0 shows all.`,
    ready(chart) {
      chart.on("datazoom", () => {
        const [zoom] = chart.getOption().dataZoom;
        zoomed.start = zoom.start;
        zoomed.end = zoom.end;
      });
    },
  });
  const zoomTo = (start, span) => {
    const size = Math.min(Math.max(span, 0.001), 100);
    const from = Math.min(Math.max(start, 0), 100 - size);
    item.chart.dispatchAction({type: "dataZoom", dataZoomId: "wheel", start: from, end: from + size});
  };
  const zoomBy = (factor) => {
    const span = zoomed.end - zoomed.start;
    zoomTo(zoomed.start + (span * (1 - factor)) / 2, span * factor);
  };
  const moveBy = (part) => zoomTo(zoomed.start + (zoomed.end - zoomed.start) * part, zoomed.end - zoomed.start);
  const reset = () => zoomTo(0, 100);
  // Until the plot has the focus the wheel turns the page, as everywhere.
  const wheel = (on) => item.chart.setOption({dataZoom: [{id: "wheel", zoomOnMouseWheel: on ? true : "ctrl"}]});
  item.node.addEventListener("focusin", () => wheel(true));
  item.node.addEventListener("focusout", () => wheel(false));
  item.node.addEventListener("mousedown", () => item.node.focus({preventScroll: true}));
  const keys = {"+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), ArrowLeft: () => moveBy(-0.2), ArrowRight: () => moveBy(0.2), 0: reset};
  item.node.addEventListener("keydown", (event) => {
    const act = keys[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  });
  item.buttons = [["−", "Zoom out", () => zoomBy(2)], ["+", "Zoom in", () => zoomBy(0.5)], ["All", "Show all of the step", reset]]
    .map(([text, title, onclick]) => el("button.small", {type: "button", title, "aria-label": title, onclick}, text));
  return item;
}
