"""Errors of the extension as exceptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ccl_sql._text import clean

if TYPE_CHECKING:
    from ccl_sql._trace import Trace


class Error(Exception):
    """What went wrong, where, and what helps.

    Its text is that of the program: `error[code]: message`, the place, facts, a hint.

    Attributes:
        code: A stable word to test, such as `trace-unknown`; `sql` for an error of DuckDB itself.
        message: One sentence.
        place: The file, with the byte or line where that is known, or the trace. None where there
            is none.
        facts: A line of facts, or None.
        hint: What to do, or None.
        others: Further errors of the same call, in their order.
        made: The traces that an ingest made all the same.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        place: str | None = None,
        facts: str | None = None,
        hint: str | None = None,
        others: tuple[Error, ...] = (),
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.place = place
        self.facts = facts
        self.hint = hint
        self.others = others
        self.made: tuple[Trace, ...] = ()

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.place is not None:
            lines.append(f"  --> {self.place}")
        if self.facts is not None:
            lines.append(f"  {self.facts}")
        if self.hint is not None:
            lines.append(f"hint: {self.hint}")
        # Names of files and texts out of them may hold what steers a terminal.
        own = "\n".join(clean(line) for line in "\n".join(lines).split("\n"))
        return "\n".join([own, *map(str, self.others)])

    def __reduce__(self) -> tuple[object, ...]:
        return (_made, (self.code, self.message, self.place, self.facts, self.hint, self.others))


def _made(
    code: str,
    message: str,
    place: str | None,
    facts: str | None,
    hint: str | None,
    others: tuple[Error, ...],
) -> Error:
    """An error out of its parts, for pickles."""
    return Error(code, message, place=place, facts=facts, hint=hint, others=others)


_HEAD = re.compile(r"error\[([a-z][a-z0-9-]*)\]: ")


def parsed(text: str) -> Error:
    """The error that a text of the extension says; one with the code `sql` for any other text.

    The text may have words of DuckDB before it. Each of several errors begins a line.
    """
    heads = [m for m in _HEAD.finditer(text) if m.start() == 0 or text[m.start() - 1] in "\n "]
    # Behind the first head, only the beginning of a line begins another error.
    heads = heads[:1] + [m for m in heads[1:] if text[m.start() - 1] == "\n"]
    if not heads:
        return Error("sql", text.strip())
    ends = [m.start() for m in heads[1:]] + [len(text)]
    found = [
        _one(m.group(1), text[m.end() : end].strip("\n"))
        for m, end in zip(heads, ends, strict=True)
    ]
    found[0].others = tuple(found[1:])
    return found[0]


def _one(code: str, text: str) -> Error:
    """One error, from what stands behind its code."""
    text, _, hint = text.partition("\nhint: ")
    message, arrow, rest = text.partition("\n  --> ")
    if arrow:
        place, _, facts = rest.partition("\n  ")
    else:
        place = ""
        # Of a message with several lines, DuckDB's own, only an indented last one is a fact.
        before, newline, last = message.rpartition("\n  ")
        facts = ""
        if newline and "\n" not in last and not last.startswith(" "):
            message, facts = before, last
    return Error(
        code,
        message.strip(),
        place=place.strip() or None,
        facts=facts.strip() or None,
        hint=hint.strip() or None,
    )
