"""Traces, and what a caller may say in place of one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ccl_sql import _host
from ccl_sql._text import clean, size
from ccl_sql._words import path, text


@dataclass(frozen=True)
class Finding:
    """Something odd that reading a trace found.

    Attributes:
        code: A stable word.
        severity: `info`, `warning` or `loss`.
        message: What it is.
        file: The file; empty where it is of the whole trace.
        count: How often it came.
        offset: The byte of the first one, where that is known.
    """

    code: str
    severity: str
    message: str
    file: str
    count: int
    offset: int | None = None


@dataclass(frozen=True)
class Trace:
    """A trace that was ingested. Wherever a trace is asked for it may be given in place of a name.

    Attributes:
        name: Its name.
        data: The data directory that holds it.
        sources: The profilers whose files it is made of.
        ranks: Number of ranks.
        ranks_read: Those of them that this ingest read; the others were there.
        events: Number of events.
        bytes: Bytes of its files, unpacked.
        seconds: Time that the ingest took.
        unchanged: Whether it was there, and nothing was read.
        findings: What was odd.
    """

    name: str
    data: Path
    sources: tuple[str, ...] = ()
    ranks: int = 0
    ranks_read: int = 0
    events: int = 0
    bytes: int = 0
    seconds: float = 0.0
    unchanged: bool = False
    findings: tuple[Finding, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        ranks = f"{self.ranks} rank{'s' * (self.ranks != 1)}"
        said = [", ".join(self.sources), ranks, f"{self.events} events", size(self.bytes)]
        codes = len({finding.code for finding in self.findings})
        said.append(f"{codes or 'no'} finding{'s' * (codes != 1)}")
        if self.unchanged:
            said.append("unchanged")
        return f"<Trace {clean(self.name)}: {', '.join(said)}>"


#: A trace: its name, the beginning of one, a pattern, a path, or what `ingest` returned. A path
#: that is not ingested yet is ingested first.
Selector: TypeAlias = str | os.PathLike[str] | Trace


def selected(traces: Selector | Iterable[Selector] | None) -> list[Selector]:
    """The traces that are meant, as a list; none for all."""
    if traces is None:
        return []
    return [traces] if isinstance(traces, (str, os.PathLike, Trace)) else list(traces)


def selector(trace: Selector) -> str:
    """A trace as the program takes it."""
    return text(trace.name) if isinstance(trace, Trace) else path(trace)


def folder(data: str | os.PathLike[str] | None, traces: Iterable[object]) -> str:
    """The data directory that is meant: the one that is named, else that of the traces."""
    if data is None:
        data = next((trace.data for trace in traces if isinstance(trace, Trace)), None)
    return _host.folder(data)
