// The timeline of one step: for each rank the lanes compute, communication and copies.

const LANES = [["compute", "compute", "compute"], ["comm", "communication", "comm"], ["copy", "copies", "copy"]];

echarts.graphic.registerShape("spans", echarts.graphic.extendShape({
  shape: {rects: [], y: 0, height: 0},
  buildPath(path, {rects, y, height}) {
    // A pixel is left between two spans that touch, where they are wide enough to lose one.
    for (const [from, to] of rects) path.rect(from, y, to - from > 4 ? to - from - 1 : to - from, height);
  },
}));

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

  /**
   * All spans of a lane of a rank are one shape, drawn with the first of them: tens of thousands of
   * elements would take a second at every turn of the wheel. What lies within a pixel of the span
   * before is joined with it.
   */
  function drawLane(lane) {
    const firsts = new Map();
    lane.spans.forEach(([, , place], i) => { if (!firsts.has(place)) firsts.set(place, i); });
    return (params, api) => {
      const i = params.dataIndex;
      const place = lane.spans[i][2];
      if (firsts.get(place) !== i) return undefined;
      const area = params.coordSys;
      const [x0, y0] = api.coord([0, place]);
      const [scale, band] = api.size([1, 1]);
      const pad = Math.min(4, band * 0.08);
      const height = (band - 2 * pad) / LANES.length;
      const y = y0 - band / 2 + pad + lane.k * height;
      if (y + height < area.y || y > area.y + area.height) return undefined;
      const rects = [];
      const right = area.x + area.width;
      for (let k = i; k < lane.spans.length && lane.spans[k][2] === place; k++) {
        const from = Math.max(x0 + lane.spans[k][0] * scale, area.x);
        const to = Math.min(x0 + (lane.spans[k][0] + lane.spans[k][1]) * scale, right);
        if (to < area.x) continue;
        if (from > right) break;
        const last = rects[rects.length - 1];
        const end = Math.max(to, from + 1);
        if (last && from <= last[1] + 0.25 && (last[1] - last[0] < 3 || end - from < 3)) last[1] = Math.max(last[1], end);
        else rects.push([from, end]);
      }
      const gap = height > 4 ? 0.5 : 0;
      const top = Math.max(y + gap, area.y);
      return {
        type: "spans", transition: [], silent: true,
        shape: {rects, y: top, height: Math.max(Math.min(y + height - gap, area.y + area.height) - top, 0.5)},
        style: {fill: palette[lane.colour]},
      };
    };
  }

  /** The span under a point of the plot; one that is narrower than a few pixels is met beside it. */
  function spanAt(chart, x, y) {
    if (!chart.containPixel({gridIndex: 0}, [x, y])) return null;
    const [time, place] = chart.convertFromPixel({gridIndex: 0}, [x, y]);
    const near = Math.abs(chart.convertFromPixel({gridIndex: 0}, [x + 2, y])[0] - time);
    const middle = chart.convertToPixel({gridIndex: 0}, [time, place])[1];
    const band = places.length > 1
      ? Math.abs(chart.convertToPixel({gridIndex: 0}, [time, place > 0 ? place - 1 : place + 1])[1] - middle) : rowHeight;
    const k = Math.min(Math.max(Math.floor(((y - middle) / band + 0.5) * LANES.length), 0), LANES.length - 1);
    const lane = lanes[k];
    const names = chart.getOption().legend[0].selected || {};
    if (names[lane.title] === false) return null;
    let low = 0;
    let high = lane.spans.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      const [start, , at] = lane.spans[mid];
      if (at < place || (at === place && start <= time + near)) low = mid + 1;
      else high = mid;
    }
    // Streams overlap: the nearest start to the left need not be the span that is still open.
    let best = null;
    let least = near;
    for (let i = low - 1; i >= 0 && low - i < 256 && lane.spans[i][2] === place; i--) {
      const [start, dur] = lane.spans[i];
      const distance = Math.max(start - time, time - start - dur, 0);
      if (distance < least || (distance === 0 && best === null)) {
        best = lane.spans[i];
        least = distance;
        if (distance === 0) break;
      }
    }
    return best;
  }

  function describe(span) {
    const row = rows[span[3]];
    const count = sheet.at(row, "event_count");
    const bytes = sheet.at(row, "message_bytes");
    const lane = LANES.find(([l]) => l === sheet.at(row, "lane"));
    return tip(sheet.at(row, "label") || lane[1], [
      [`${labels[span[2]]}, ${lane[1]}`, ""],
      ["start", human(span[0], "us")],
      ["duration", human(sheet.at(row, "dur_us"), "us"), palette[lane[2]]],
      bytes === null ? null : ["bytes", human(bytes, "bytes")],
      count > 1 ? ["events joined", human(count)] : null,
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
    box.style.left = `${x + 16 + box.offsetWidth > width ? Math.max(x - 16 - box.offsetWidth, 0) : x + 16}px`;
    box.style.top = `${y + 14}px`;
  }

  const few = places.length <= TIMELINE_RANKS;
  const rowHeight = places.length <= 8 ? 52 : 36;
  const zoomed = {start: 0, end: 100};
  const height = () => 92 + rowHeight * Math.min(places.length, TIMELINE_RANKS);
  const build = () => ({
    grid: {left: 8, right: few || printing ? 16 : 38, top: 34, bottom: printing ? 30 : 58, containLabel: true},
    legend: {data: lanes.filter((l) => l.spans.length).map((l) => l.title)},
    tooltip: {show: false},
    xAxis: {type: "value", min: 0, max: end || 1, name: "time since the first start of the step", nameLocation: "middle", nameGap: 24,
      axisLabel: {formatter: (v) => short(v, "us"), alignMinLabel: "left", alignMaxLabel: "right"}, splitLine: {show: true}},
    yAxis: {type: "category", inverse: true, data: labels, axisTick: {show: false}, splitLine: {show: true}, axisLabel: {width: 130, overflow: "truncate"}},
    dataZoom: [
      {id: "wheel", type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: true, moveOnMouseWheel: false, minSpan: 0.001, ...zoomed},
      ...(printing ? [] : [{id: "slider", type: "slider", xAxisIndex: 0, filterMode: "none", bottom: 6, height: 16, minSpan: 0.001, ...zoomed}]),
      ...(few || printing ? [] : [{id: "ranks", type: "slider", orient: "vertical", yAxisIndex: 0, filterMode: "none", right: 4, width: 14, startValue: 0, endValue: TIMELINE_RANKS - 1}]),
    ],
    series: lanes.filter((l) => l.spans.length).map((l) => ({
      type: "custom", name: l.title, renderItem: drawLane(l), data: l.spans, dimensions: ["start_us", "dur_us", "place", "row"],
      encode: {x: 0, y: 2, tooltip: []}, itemStyle: {color: palette[l.colour]}, animation: false, progressive: 0, silent: true,
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
        box.hidden = true;
      });
      chart.getZr().on("mousemove", ({offsetX, offsetY}) => point(chart, offsetX, offsetY));
      chart.getZr().on("globalout", () => { box.hidden = true; });
    },
  });
  item.over = box;
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
