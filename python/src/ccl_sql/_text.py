"""Texts of strangers, for people: names out of traces, in terminals and pages."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Iterable, Mapping


def clean(text: str) -> str:
    """A text that steers no terminal and no reader: control characters are written out."""
    if text.isprintable():
        return text
    return "".join(_visible(c) for c in text)


def _visible(char: str) -> str:
    # Cc steers terminals, Cf turns the direction of texts, Cs is no character.
    if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char.encode("unicode_escape", "surrogatepass").decode()
    return char


def cell(value: object, longest: int) -> str:
    """A value as a cell of a table: numbers rounded, and long texts cut."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 1e15
        return str(int(value)) if whole else f"{value:.6g}"
    if isinstance(value, (list, dict, tuple)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = clean(str(value))
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def is_number(value: object) -> bool:
    """Whether a value stands on the right of its column."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text_table(columns: list[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table in a terminal."""
    lines = [columns]
    right = [True] * len(columns)
    for row in rows:
        # Nothing stands behind the last one, such as a reason.
        lines.append([cell(row[n], 200 if n == columns[-1] else 60) for n in columns])
        for at, name in enumerate(columns):
            right[at] = right[at] and (row[name] is None or is_number(row[name]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            text.rjust(width) if on_right else text.ljust(width)
            for text, width, on_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def html_table(columns: list[str], rows: Iterable[Mapping[str, object]]) -> str:
    """A table in a page."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    out = [f"<table><thead><tr>{head}</tr></thead><tbody>"]
    for row in rows:
        out.append("<tr>")
        for name in columns:
            value = row[name]
            side = "right" if is_number(value) else "left"
            text = html.escape(cell(value, 300))
            out.append(f'<td style="text-align:{side}"><bdi>{text}</bdi></td>')
        out.append("</tr>")
    out.append("</tbody></table>")
    return "".join(out)


def size(count: int) -> str:
    """A number of bytes for people."""
    number = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
