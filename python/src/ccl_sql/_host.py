"""The extension, the databases that load it, and calls of its functions.

The module has one database of its own, in memory, for its calls. Each call has a cursor, which is
a connection: several threads may call at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import duckdb

from ccl_sql._errors import Error, parsed
from ccl_sql._words import path

T = TypeVar("T")

#: Seconds between two looks at a call that runs.
LOOK = 0.1


def extension() -> Path:
    """The path of the extension, for other hosts: `LOAD` loads it where unsigned ones may be.

    Raises:
        Error: `host` where the file is missing.
    """
    place = Path(__file__).resolve().with_name("ccl_sql.duckdb_extension")
    if not place.is_file():
        raise Error(
            "host",
            "the extension is missing",
            place=str(place),
            hint="install it anew: python -m pip install --force-reinstall ccl-sql",
        )
    return place


def load(con: duckdb.DuckDBPyConnection) -> None:
    """Loads the extension into the database of a connection: its functions are there then.

    The database must have been opened with `config={'allow_unsigned_extensions': True}`, because
    nobody has signed the extension. Loading it again does nothing.

    Args:
        con: The connection.

    Raises:
        Error: `host` where DuckDB is older than 2.0, or refuses to load the extension.
    """
    found = duckdb.__version__
    if found.partition(".")[0] in ("0", "1"):
        raise Error(
            "host",
            f"ccl-sql needs DuckDB 2.0 or newer, and this is {found}",
            hint="python -m pip install -U 'duckdb>=2.0', and start Python anew",
        )
    place = extension()
    name = str(place).replace("'", "''")
    try:
        con.execute(f"LOAD '{name}'")
    except (duckdb.Error, UnicodeError) as error:
        said = parsed(str(error))
        if said.code != "sql":
            raise said from None
        hint = None
        if "allow_unsigned_extensions" in said.message:
            hint = "open it with config={'allow_unsigned_extensions': True}"
        raise Error(
            "host",
            f"DuckDB {found} does not load the extension: {said.message}",
            place=str(place),
            hint=hint,
        ) from None


def connect(
    data: str | os.PathLike[str] | None = None,
    *,
    database: str | os.PathLike[str] = ":memory:",
    schema: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """A DuckDB in which every table and view of a data directory is there, with all functions.

    The views read the traces that were there when it was opened: connect anew after an ingest, or
    run `CALL ccl_open('ccl-data')` again.

    Args:
        data: The data directory; `CCL_SQL_DATA` of the environment where it is None, else
            `ccl-data`.
        database: A file in which the views stay, in place of a database in memory.
        schema: The schema in which the views are made, in place of the database's own.

    Returns:
        The connection, for the caller to use and to close.

    Raises:
        Error: `io` where there is no such directory, `host` as `load` does.
    """
    con = duckdb.connect(path(database), config={"allow_unsigned_extensions": True})
    try:
        load(con)
        sql, arguments = called("ccl_open", [folder(data)], {"schema": schema})
        # On a cursor, whose settings go with it: no bar for what the caller did not ask.
        with con.cursor() as cursor:
            cursor.execute("SET enable_progress_bar = false")
            execute(cursor, f"CALL {sql}", arguments)
    except BaseException:
        con.close()
        raise
    return con


def folder(data: str | os.PathLike[str] | None) -> str:
    """The data directory that is meant."""
    return path(data if data is not None else os.environ.get("CCL_SQL_DATA") or "ccl-data")


def execute(
    con: duckdb.DuckDBPyConnection, sql: str, arguments: list[object]
) -> duckdb.DuckDBPyConnection:
    """Runs a statement; an error of the extension is raised as such."""
    __tracebackhide__ = True
    try:
        return con.execute(sql, arguments)
    except duckdb.Error as error:
        raise parsed(str(error)) from None


def called(
    function: str, arguments: Sequence[object], named: Mapping[str, object]
) -> tuple[str, list[object]]:
    """A call of a table function, and its arguments in order: nothing is pasted into the SQL.

    Arguments by name that are None, or an empty list, are left out.
    """
    given = {name: value for name, value in named.items() if value is not None and value != []}
    marks = ["?"] * len(arguments) + [f"{name} := ?" for name in given]
    return f"{function}({', '.join(marks)})", [*arguments, *given.values()]


class _Own:
    """The database of this module, opened when it is needed, and once in a process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.con: duckdb.DuckDBPyConnection | None = None
        #: Connections of the process that this one was forked from. They are kept: their threads
        #: are not here, and closing them would wait for these.
        self.kept: list[duckdb.DuckDBPyConnection] = []

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection of its own to the database."""
        with self.lock:
            if self.con is None:
                con = duckdb.connect(
                    ":memory:",
                    config={
                        "allow_unsigned_extensions": True,
                        "autoinstall_known_extensions": False,
                    },
                )
                load(con)
                con.execute("CREATE SCHEMA answers")
                self.con = con
            cursor = self.con.cursor()
        # DuckDB would print a bar of its own, which says nothing of ours.
        return cursor.execute("SET enable_progress_bar = false")

    def forked(self) -> None:
        """Forgets the database of the process that this one was forked from."""
        self.lock = threading.Lock()
        if self.con is not None:
            self.kept.append(self.con)
            self.con = None


own = _Own()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=own.forked)


def call(
    work: Callable[[duckdb.DuckDBPyConnection], T], look: Callable[[], None] | None = None
) -> T:
    """Does work with a cursor of its own, and returns what it returns.

    In the main thread the work is done by another one, so that Ctrl-C stops it, and `look` is
    called while it runs.
    """
    __tracebackhide__ = True
    if threading.current_thread() is not threading.main_thread():
        with own.cursor() as cursor:
            return work(cursor)
    cursor = own.cursor()
    job = _Job(work, cursor)
    thread = threading.Thread(target=job.run, name="ccl-sql", daemon=True)
    thread.start()
    try:
        while not job.done.wait(LOOK):
            if look is not None:
                look()
    except BaseException:
        # KeyboardInterrupt above all. Work that has not begun yet hears nothing, so it is told
        # again. A second Ctrl-C does not wait.
        while not job.done.is_set():
            stop(cursor)
            job.done.wait(LOOK)
        raise
    finally:
        if job.done.is_set():
            # It must be gone when the interpreter ends: what it holds of DuckDB goes with it.
            thread.join()
            cursor.close()
    return job.result()


class _Job(Generic[T]):
    """Work that a thread does, and what came of it."""

    def __init__(
        self, work: Callable[[duckdb.DuckDBPyConnection], T], cursor: duckdb.DuckDBPyConnection
    ) -> None:
        self.work = work
        self.cursor = cursor
        self.done = threading.Event()
        self.answer: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer.append(self.work(self.cursor))
        except BaseException as error:  # noqa: BLE001  (it is raised in the other thread)
            self.error = error
        finally:
            self.done.set()

    def result(self) -> T:
        __tracebackhide__ = True
        if self.error is not None:
            # The frames of the thread say nothing to whoever called.
            raise self.error.with_traceback(None)
        return self.answer[0]


def stop(cursor: duckdb.DuckDBPyConnection) -> None:
    """Asks the calls of this process to end, and what a cursor runs."""
    cursor.interrupt()
    try:
        with own.cursor() as other:
            other.execute("CALL ccl_stop()")
    except duckdb.Error:
        pass  # It ends by itself.
