"""Reports and comparisons: pages that show themselves in notebooks, and files."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from ccl_sql import _host
from ccl_sql._bar import Bar, in_notebook
from ccl_sql._errors import Error, parsed
from ccl_sql._text import clean
from ccl_sql._trace import Selector, folder, selector
from ccl_sql._words import Option, words

#: Forms by the endings of files.
FORMS = {
    "html": "html",
    "htm": "html",
    "xlsx": "xlsx",
    "json": "json",
    "csv": "csv",
    "md": "md",
    "txt": "txt",
}


class Document:
    """A report or a comparison. In a notebook it shows its page, in a frame of its own.

    It is computed in the form that is asked for: `save` and the page of a notebook take a moment
    the first time.

    Attributes:
        traces: Names or paths of the traces, as they were given.
        errors: What could not be computed, or was found to be beyond a limit (`fail_on`).
        height: Height of the frame in a notebook, in pixels.
    """

    def __init__(
        self,
        function: str,
        arguments: list[object],
        named: Mapping[str, object],
        traces: tuple[str, ...],
        progress: bool | None,
    ) -> None:
        """Made by `report` and `compare`."""
        self._call = function, arguments, named
        self._made: dict[str, bytes] = {}
        self.traces = traces
        self.errors: tuple[Error, ...] = ()
        self.height = 640
        # An error is raised by the call, and not by what shows it. The form is the one that is
        # wanted most likely.
        self._form("html" if in_notebook() else "json", progress)

    def html(self) -> str:
        """The page. It is one file that needs no other, and loads nothing."""
        return self._form("html").decode()

    def json(self) -> Any:
        """All of it, as `json.loads` makes it."""
        return json.loads(self._form("json"))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes it to a file, whole or not at all.

        Args:
            path: The file, whose ending says the form: `.html`, `.xlsx`, `.json`, `.txt`; of a
                report also `.md`, of a comparison also `.csv`.
            force: Whether to write over a file that is there.

        Returns:
            The path.

        Raises:
            Error: `output-exists`, `usage` for an ending that is no form, `io`.
        """
        place = Path(path)
        form = FORMS.get(place.suffix[1:].lower())
        if form is None:
            raise Error(
                "usage",
                f"there is no form with the ending {place.suffix or 'of no letters'}",
                place=str(place),
                hint=f"endings: {', '.join(f'.{form}' for form in FORMS)}",
            )
        # The caller learns it before the work.
        if not force and os.path.lexists(place):
            raise _exists(place)
        write(place, self._form(form), force)
        return place

    def _form(self, form: str, progress: bool | None = None) -> bytes:
        if form not in self._made:
            function, arguments, named = self._call
            sql, values = _host.called(function, arguments, {**named, "format": form})

            def work(cursor: duckdb.DuckDBPyConnection) -> tuple[Any, ...]:
                found = _host.execute(cursor, f"SELECT content, errors FROM {sql}", values)
                return found.fetchone() or (b"", [])

            with Bar(progress) as bar:
                content, errors = _host.call(work, bar.look)
            self._made[form] = content
            self.errors = tuple(parsed(text) for text in errors or [])
        return self._made[form]

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind} of {', '.join(map(clean, self.traces))}; .save('FILE.html') writes it>"

    def _repr_html_(self) -> str:
        # The frame has an origin of its own: the page's script reaches nothing of the notebook.
        # What the page allows itself is in its own policy, which names its scripts by their bytes:
        # they must be the same whatever the encoding of the notebook's page.
        page = html.escape(self.html()).encode("ascii", "xmlcharrefreplace").decode()
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{page}" width="100%" '
            f'height="{int(self.height)}" style="border: 1px solid #8884"></iframe>'
        )


class Report(Document):
    """One trace, whole."""


class Comparison(Document):
    """Runs beside a baseline."""


def report(
    trace: Selector,
    *,
    data: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    **options: Option,
) -> Report:
    """All about a trace: the numbers of a step, who waits for whom, what the links give.

    Args:
        trace: A trace: its name, a path, or what `ingest` returned. A path that is not ingested
            yet is ingested first.
        data: The data directory; that of the trace where it is None, else `CCL_SQL_DATA` of the
            environment, else `ccl-data`.
        progress: False to show none, where the trace is ingested first.
        **options: Those of the command `ccl-sql report`: `param={'n_chips': 8}`.

    Raises:
        Error: `trace-unknown`, `usage`, and those of an ingest.
    """
    name = selector(trace)
    named = {"data": folder(data, [trace]), "options": words(options)}
    return Report("ccl_report", [name], named, (name,), progress)


def compare(
    base: Selector,
    *tests: Selector,
    data: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    **options: Option,
) -> Comparison:
    """Sets runs beside a baseline: what is faster, what is slower, and why.

    Args:
        base: The baseline: a name, a path, or what `ingest` returned.
        *tests: The runs to compare with it.
        data: The data directory; that of the traces where it is None, else `CCL_SQL_DATA` of the
            environment, else `ccl-data`.
        progress: False to show none, where traces are ingested first.
        **options: Those of the command `ccl-sql compare`: `threshold=2`, `rank_by='mfu'`,
            `fail_on='avg_step_time > +3%'`, whose excess is in `errors`.

    Raises:
        Error: `trace-unknown`, `usage`, and those of an ingest.
    """
    names = [selector(trace) for trace in (base, *tests)]
    if not tests:
        raise Error("usage", "there is no run to compare with the baseline")
    named = {"data": folder(data, (base, *tests)), "options": words(options)}
    return Comparison("ccl_compare", [names[0], names[1:]], named, tuple(names), progress)


def _exists(place: Path) -> Error:
    return Error(
        "output-exists",
        "the file is there already",
        place=str(place),
        hint="give another name, or force=True to write over it",
    )


def write(place: Path, content: bytes, force: bool) -> None:
    """Writes a file, whole or not at all."""
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with open(beside, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if force:
            os.replace(beside, place)
        else:
            put(beside, place)
    except FileExistsError:
        raise _exists(place) from None
    except OSError as error:
        raise Error("io", error.strerror or str(error), place=str(place)) from None
    finally:
        beside.unlink(missing_ok=True)


def put(beside: Path, place: Path) -> None:
    """Gives a file its name, unless another has it."""
    try:
        os.link(beside, place)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no second names. Between the look and the change of the name
        # another program could make a file of that name.
        if os.path.lexists(place):
            raise FileExistsError from None
        os.rename(beside, place)
