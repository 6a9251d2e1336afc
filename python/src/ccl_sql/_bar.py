"""The progress of ingests: a bar in notebooks, a line in terminals, nothing anywhere else."""

from __future__ import annotations

import html
import shutil
import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb

from ccl_sql import _host
from ccl_sql._text import clean, size

#: Seconds after which a call shows its progress.
PATIENCE = 0.5


@dataclass(frozen=True)
class Job:
    """A folder or file that is being read."""

    name: str
    #: What is done once its files are read; empty before.
    phase: str
    read: int
    total: int

    @property
    def share(self) -> float:
        """The part of it that is read, from 0 to 1."""
        return min(1.0, self.read / self.total) if self.total else 0.0

    @property
    def said(self) -> str:
        """How far it is, in words."""
        return self.phase or f"{size(self.read)} of {size(self.total)}"


class Screen(Protocol):
    """A place where progress is seen."""

    def show(self, jobs: list[Job]) -> None:
        """Shows these jobs in place of those of before."""

    def clear(self) -> None:
        """Shows nothing any more."""


class Terminal:
    """A line on standard error, which is drawn over."""

    def show(self, jobs: list[Job]) -> None:
        """Shows the first job, and how many others there are."""
        job = jobs[0]
        done = round(job.share * 30)
        bar = "=" * done + ">" * (done < 30)
        others = f", and {len(jobs) - 1} more" if len(jobs) > 1 else ""
        text = f"{clean(job.name)} [{bar:30}] {job.said}{others}"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{text[:width]}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Leaves a clean line."""
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class Notebook:
    """A bar for each job below the cell."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, jobs: list[Job]) -> None:
        """Shows the jobs."""
        self.update("".join(map(self.bar, jobs)))

    def clear(self) -> None:
        """Takes the bars away."""
        if self.handle is not None:
            self.update("")

    def update(self, page: str) -> None:
        """Puts markup in the place of that of before."""
        from IPython import display

        # IPython has no types for these.
        show: Any = display.display
        html_of: Any = display.HTML
        markup = html_of(page)
        if self.handle is None:
            self.handle = show(markup, display_id=True)
        else:
            self.handle.update(markup)

    @staticmethod
    def bar(job: Job) -> str:
        """The bar of a job; while its files are done it has no end."""
        value = "" if job.phase else f' value="{job.share:.4f}"'
        name, said = html.escape(clean(job.name)), html.escape(clean(job.said))
        return f'<div><progress max="1"{value}></progress> <bdi>{name}</bdi>: {said}</div>'


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def screen() -> Screen | None:
    """The place where progress is seen; None where nobody looks."""
    if in_notebook():
        return Notebook()
    return Terminal() if sys.stderr is not None and sys.stderr.isatty() else None


class Bar:
    """The progress of one call."""

    def __init__(self, wanted: bool | None) -> None:
        """`wanted` is False for none, and None or True for one where somebody looks."""
        self.screen = None if wanted is False else screen()
        self.begin = time.monotonic()
        self.shown: list[Job] = []

    def look(self) -> None:
        """Shows how far the ingests of this process are."""
        if self.screen is None or time.monotonic() - self.begin < PATIENCE:
            return
        jobs = self.jobs()
        if jobs and jobs != self.shown:
            self.screen.show(jobs)
            self.shown = jobs

    @staticmethod
    def jobs() -> list[Job]:
        """The ingests of this process."""
        try:
            with _host.own.cursor() as cursor:
                sql = "SELECT job, phase, bytes_read, bytes_total FROM ccl_progress()"
                return [Job(*row) for row in cursor.execute(sql).fetchall()]
        except duckdb.Error:
            return []

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.screen is not None and self.shown:
            self.screen.clear()
