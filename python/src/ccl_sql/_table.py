"""An answer as a table."""

from __future__ import annotations

import itertools
import json
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import duckdb

from ccl_sql import _host
from ccl_sql._errors import Error
from ccl_sql._text import html_table, text_table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: Rows that a table shows of itself.
SHOWN = 50
#: Columns whose texts are JSON.
JSON = ("details", "params", "where")

_numbers = itertools.count(1)
#: Names of tables that nobody has any more. They are dropped by the next call, because the end of
#: an object may come at any moment, also while a lock is held.
_unused: deque[str] = deque()


class Table:
    """Rows of an answer: dictionaries by number, and a table for Arrow, pandas and polars.

    The rows lie in DuckDB's memory, and go as long as the table does. Anything that takes the
    Arrow PyCapsule interface (`__arrow_c_stream__`) takes the table itself: `polars.DataFrame(t)`,
    `pyarrow.table(t)`. DuckDB reads the Arrow of it by its name: `duckdb.sql("FROM a")`, where
    `a = t.arrow()`.
    """

    def __init__(self, name: str, columns: list[str], shown: list[str], rows: int) -> None:
        """Made by the functions of this module."""
        self._name = name
        self._columns = columns
        self._shown = shown
        self._length = rows
        self._cache: list[dict[str, Any]] | None = None
        end = weakref.finalize(self, _unused.append, name)
        end.atexit = False

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._columns)

    @property
    def value(self) -> Any:
        """The one value of a table with one row: of a metric of one trace.

        A number, in the unit that the column `unit` says; a text where the value is none; None
        where there is no value, for which `reason` has the reason.

        Raises:
            Error: `usage` where there are more rows, or none, or no values.
        """
        row = self._only("value")
        if "value" not in row:
            raise Error("usage", "these rows have no column `value`")
        return row["value"] if row["value"] is not None else row.get("text")

    @property
    def reason(self) -> str | None:
        """Why the one row has no value; None where it has one.

        Raises:
            Error: `usage` where there are more rows, or none.
        """
        reason: str | None = self._only("reason").get("reason")
        return reason

    @property
    def details(self) -> dict[str, Any]:
        """What the one row says beside its value: numbers, texts, and tables as lists.

        Raises:
            Error: `usage` where there are more rows, or none.
        """
        return self._only("details").get("details") or {}

    def arrow(self) -> pyarrow.Table:
        """The table as a `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def df(self) -> pandas.DataFrame:
        """The table as a `pandas.DataFrame`, through Arrow where pandas can (from 3.0 on)."""
        import pandas

        if hasattr(pandas.DataFrame, "from_arrow"):
            return pandas.DataFrame.from_arrow(self)
        return self.arrow().to_pandas()

    def pl(self) -> polars.DataFrame:
        """The table as a `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, which takes them out of DuckDB as they are asked for."""
        with _host.own.cursor() as cursor:
            return cursor.sql(f"FROM answers.{self._name}").__arrow_c_stream__(requested_schema)

    def _only(self, what: str) -> dict[str, Any]:
        if self._length != 1:
            raise Error(
                "usage",
                f"`{what}` is of one row, and there are {self._length}",
                hint="go through the rows: [row for row in table]",
            )
        return self._rows()[0]

    def _rows(self) -> list[dict[str, Any]]:
        if self._cache is None:
            with _host.own.cursor() as cursor:
                found = cursor.execute(f"FROM answers.{self._name}").fetchall()
            self._cache = [self._row(row) for row in found]
        return self._cache

    def _row(self, values: tuple[Any, ...]) -> dict[str, Any]:
        row = dict(zip(self._columns, values, strict=True))
        for name in JSON:
            if isinstance(row.get(name), str):
                row[name] = json.loads(row[name])
        return row

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows())

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """A row, or a list of rows."""
        return self._rows()[index]

    @staticmethod
    def _with_text(row: dict[str, Any]) -> dict[str, Any]:
        """A row to show: its value, where that is no number, is its text."""
        if row.get("text") is not None and row.get("value") is None:
            return {**row, "value": row["text"]}
        return row

    def _seen(self) -> tuple[list[str], list[dict[str, Any]], str]:
        """The columns and rows that are shown, and what is said of the others."""
        rows = [self._with_text(row) for row in self._rows()[:SHOWN]]
        columns = [name for name in self._shown if any(row[name] is not None for row in rows)]
        more = f"{self._length - len(rows)} more rows" if self._length > len(rows) else ""
        return columns or self._shown, rows, more

    def __repr__(self) -> str:
        columns, rows, more = self._seen()
        out = text_table(columns, rows) if rows else f"no rows ({', '.join(columns)})"
        return f"{out}\n({more})" if more else out

    def _repr_html_(self) -> str:
        columns, rows, more = self._seen()
        out = html_table(columns, rows)
        return f"{out}<p>{more}</p>" if more else out


def answer(
    cursor: duckdb.DuckDBPyConnection,
    function: str,
    arguments: Sequence[object],
    named: Mapping[str, object],
    shown: Sequence[str],
) -> Table:
    """The answer of a table function as a table. `shown` names the columns that it shows."""
    while _unused:
        cursor.execute(f"DROP TABLE IF EXISTS answers.{_unused.popleft()}")
    name = f"t{next(_numbers)}"
    call, values = _host.called(function, arguments, named)
    _host.execute(cursor, f"CREATE TABLE answers.{name} AS FROM {call}", values)
    described = cursor.execute(f"SELECT * FROM answers.{name} LIMIT 0").description or []
    columns = [str(column[0]) for column in described]
    counted = cursor.execute(f"SELECT count(*) FROM answers.{name}").fetchone()
    return Table(
        name, columns, [c for c in shown if c in columns], int(counted[0]) if counted else 0
    )
