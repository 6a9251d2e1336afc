// Elements, controls and tables. Text goes into the page as text nodes only.

/** An element: `el("p.note", {title: "…"}, "text", child)`. */
function el(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const part of rest) add(node, part);
  return node;
}

function add(node, part) {
  if (part === null || part === undefined || part === false) return;
  if (part instanceof Node) node.append(part);
  else if (Array.isArray(part)) part.forEach((p) => add(node, p));
  else if (typeof part === "object") {
    for (const [key, value] of Object.entries(part)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) {
        node.setAttribute(key, value === true ? "" : plain(value));
      }
    }
  } else node.append(document.createTextNode(plain(part)));
}

/** A text from the trace: it keeps to itself, whatever direction its letters have. */
const name = (text, cls = "bdi") => el(cls, text);

/** Buttons of which one is chosen. */
function choice(label, options, chosen, onchange) {
  const group = el("div.choice", {role: "group", "aria-label": label});
  const buttons = options.map(([value, text, title]) =>
    el(
      "button",
      {type: "button", "aria-pressed": String(value === chosen), title, onclick: () => pick(value)},
      text,
    ),
  );
  function pick(value) {
    options.forEach(([v], i) => buttons[i].setAttribute("aria-pressed", String(v === value)));
    onchange(value);
  }
  group.append(...buttons);
  return group;
}

/** A list of which one is chosen: for more options than buttons can show. */
function selection(label, options, chosen, onchange) {
  const select = el("select", {
    "aria-label": label,
    onchange: () => onchange(options[select.selectedIndex][0]),
  });
  options.forEach(([value, text]) =>
    select.append(el("option", {selected: value === chosen}, text)),
  );
  return el("label.select", el("span", label), select);
}

function checkbox(label, checked, onchange) {
  const box = el("input", {type: "checkbox", checked, onchange: () => onchange(box.checked)});
  return el("label.check", box, label);
}

/** What opens; its content is made when it first does. */
function disclosure(summary, make) {
  const details = el("details", el("summary", summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) add(details, make());
  });
  return details;
}

const tables = [];
const MOST_PRINTED_ROWS = 2000;

/** Order of cells: numbers as numbers, texts as people count ("rank 2" before "rank 10"). */
const collator = new Intl.Collator("en", {numeric: true});
function compareCells(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}
const missing = (v) => v === null || v === undefined || v === "";

/**
 * A table that can be sorted by any column, and filtered. A column is
 * `{title, unit, doc, numeric, value(row), cell(row)}`: `value` sorts, and `cell` (a text or a
 * node) is shown, by default the value. Columns with the same `group` stand under its name.
 * `rows` may hold anything.
 */
function sortableTable({
  id,
  label,
  columns,
  rows,
  page = 50,
  filter = rows.length > 8,
  extra,
  sort,
}) {
  let order = sort || null;
  let shown = page;
  let needle = "";
  let keep = () => true;
  const formats = columns.map(
    (c) =>
      c.cell ||
      (
        (format) => (row) =>
          format(c.value(row))
      )(columnFormat(rows.map(c.value), c.unit)),
  );
  const texts = new Map();
  const textOf = (row) => {
    if (!texts.has(row)) {
      const cells = columns.map((c, i) => {
        const cell = formats[i](row);
        return cell instanceof Node ? cell.textContent : String(cell);
      });
      texts.set(row, cells.join("\u0001").toLowerCase());
    }
    return texts.get(row);
  };
  const buttons = columns.map((c, i) =>
    el(
      "button",
      {type: "button", title: c.doc, onclick: () => sortBy(i)},
      headText(headTitle(c)),
      c.unit && !c.cell && unitInHead(c.unit) && !statesUnit(c.title, c.unit)
        ? el("span.unit", unitName(c.unit))
        : null,
    ),
  );
  const heads = columns.map((c, i) =>
    el(
      (c.numeric ? "th.num" : "th") + (c.screen ? ".screen" : ""),
      {scope: "col", "aria-sort": "none"},
      buttons[i],
    ),
  );
  const body = el("tbody");
  const count = el("span.count", {"aria-live": "polite"});
  const more = el("button.more", {
    type: "button",
    onclick: () => {
      shown = Infinity;
      fill();
    },
  });
  const table = el(
    columns.length > 10 ? "table.many" : "table",
    {id, "aria-label": label},
    el("thead", groupRow(columns), el("tr", heads)),
    body,
  );

  function sortBy(i) {
    // The largest number first, the first name first; the same again turns it.
    const first = columns[i].numeric ? -1 : 1;
    order = order && order[0] === i ? [i, -order[1]] : [i, first];
    fill();
  }
  function sorted() {
    const kept = rows.filter((row) => keep(row) && (!needle || textOf(row).includes(needle)));
    if (!order) return kept;
    const [i, direction] = order;
    return kept
      .map((row, place) => ({row, place, value: columns[i].value(row)}))
      .sort(
        (a, b) =>
          missing(a.value) - missing(b.value) ||
          (missing(a.value) ? 0 : direction * compareCells(a.value, b.value)) ||
          a.place - b.place,
      )
      .map(({row}) => row);
  }
  function fill() {
    const all = sorted();
    heads.forEach((head, i) => {
      const direction = order && order[0] === i ? order[1] : 0;
      head.setAttribute(
        "aria-sort",
        direction > 0 ? "ascending" : direction < 0 ? "descending" : "none",
      );
    });
    body.replaceChildren(
      ...all.slice(0, shown).map((row) =>
        el(
          "tr",
          columns.map((c, i) => {
            const value = c.value(row);
            const cell = formats[i](row);
            const raw =
              typeof value === "number" && !c.cell ? String(value) : c.hint ? c.hint(row) : null;
            const kind =
              (c.numeric ? "td.num" : "td") +
              (c.cls ? "." + c.cls : "") +
              (c.screen ? ".screen" : "") +
              (c.group && c.group !== (columns[i - 1] || {}).group ? ".first" : "") +
              (missing(value) && !(cell instanceof Node) ? ".none" : "");
            return el(kind, {title: raw}, cell instanceof Node || c.numeric ? cell : name(cell));
          }),
        ),
      ),
    );
    if (!all.length)
      body.append(el("tr", el("td.none", {colspan: columns.length}, "No row matches.")));
    count.textContent =
      all.length === rows.length
        ? `${rows.length} ${rows.length === 1 ? "row" : "rows"}`
        : `${all.length} of ${rows.length} rows`;
    more.hidden = all.length <= shown;
    more.textContent = `Show all ${all.length} rows`;
  }
  const tools = el("div.tools");
  if (filter) {
    const input = el("input", {
      type: "search",
      placeholder: "Filter",
      "aria-label": `Filter: ${label}`,
      oninput: () => {
        needle = input.value.trim().toLowerCase();
        fill();
      },
    });
    tools.append(input);
  }
  if (extra)
    add(
      tools,
      extra((test) => {
        keep = test;
        fill();
      }),
    );
  if (filter || extra) tools.append(count);
  fill();
  tables.push((printing) => {
    const before = shown;
    if (printing) shown = Math.max(shown, MOST_PRINTED_ROWS);
    fill();
    shown = printing ? shown : before;
    return () => {
      shown = before;
      fill();
    };
  });
  const wrap = el("div.table", {tabindex: "0", role: "region", "aria-label": label}, table);
  const aside = "More columns to the right: scroll sideways →";
  const hint = el("p.scroll-hint", {hidden: true}, aside);
  new ResizeObserver(() => {
    hint.hidden = wrap.scrollWidth <= wrap.clientWidth + 1;
  }).observe(wrap);
  return el("div.sortable", tools.children.length ? tools : null, wrap, hint, more);
}

/** Whether a title ends in its unit, as `time_ms` and `time ms` do. */
const statesUnit = (title, unit) => new RegExp(`(^|[ _(])${unit}\\)?$`, "i").test(title);

/** The title of a column; one whose cells each have a unit of their own states none. */
const headTitle = ({title, unit}) =>
  unit && !unitInHead(unit) ? title.replace(/ \([kMGT]?i?B(\/s)?\)$/, "") : title;

/** The row above the heads, with the names of the groups of columns; null where there are none. */
function groupRow(columns) {
  if (!columns.some((c) => c.group)) return null;
  const cells = [];
  for (const c of columns) {
    const last = cells[cells.length - 1];
    if (last && last.group === c.group) last.span += 1;
    else cells.push({group: c.group, span: 1});
  }
  return el(
    "tr.groups",
    cells.map(({group, span}) =>
      group
        ? el("th.group", {colspan: span, scope: "colgroup", title: group.title}, group.node())
        : el("td", {colspan: span}),
    ),
  );
}

/** The text of a head: a name in snake case may break after a `_`. */
function headText(text) {
  const parts = plain(text).split(/(?<=_)/);
  return el(
    "span",
    parts.map((part, i) => [i ? el("wbr") : null, part]),
  );
}

/** Bytes and rates are scaled cell by cell; the rest has its unit in the head. */
function unitInHead(unit) {
  const known = SPELLINGS.get(unit);
  return !known || !known.steps.length || (known.steps[0][1] === "ps" && !known.after);
}
