"""The command `ccl-sql`.

The program is in the extension. DuckDB loads it, as any host does, and hands its functions over;
then the program runs as if it had been started itself. Little is imported here, because whoever
calls the command waits for it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Runs the program with the words of this process, and ends the process with its exit code."""
    signals_as_in_a_program()
    streams_are_open()
    # Nothing is left to do for Python, and threads of DuckDB need not be waited for.
    os._exit(run([own_name(sys.argv[0]), *sys.argv[1:]]))


def signals_as_in_a_program() -> None:
    """Undoes what Python does to signals, but for those that whoever started it ignores."""
    # The module without an underscore makes enumerations, which takes longer than all else here.
    import _signal as signal  # type: ignore[import-not-found]

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # What comes between the last look of Python and the change would be nobody's.
        mask = getattr(signal, "pthread_sigmask", None)
        before = mask(signal.SIG_BLOCK, [signal.SIGINT]) if mask else None
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if mask:
            mask(signal.SIG_SETMASK, before)
    # A closed pipe is an error of writing, in a program of Rust as in Python: SIGPIPE stays.
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def streams_are_open() -> None:
    """Opens those of the three streams that are closed, or files would take their numbers."""
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def own_name(path: str) -> str:
    """The name of the program in its messages and in scripts of shells."""
    return path if os.path.basename(path).startswith("ccl-sql") else "ccl-sql"


def run(words: list[str]) -> int:
    """Runs the program with these words, and returns its exit code: 1 where it cannot start."""
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ccl_sql.duckdb_extension")
    try:
        import _duckdb

        found = _duckdb.__version__
    except ImportError as error:
        return without_duckdb(error)
    if not is_new_enough(found):
        return refuse(f"ccl-sql needs DuckDB 2.0 or newer, and this is {found}", UPGRADE)
    if not os.path.exists(place):
        return refuse("the extension is missing", REINSTALL, place)
    try:
        # The database does nothing but hand its functions over: the program opens its own.
        host = _duckdb.connect(":memory:", config={"allow_unsigned_extensions": True, "threads": 1})
        host.execute("LOAD '" + place.replace("'", "''") + "'")
    except (_duckdb.Error, UnicodeError) as error:
        return refuse(f"DuckDB {found} cannot load the extension: {error}", REINSTALL, place)
    import ctypes

    try:
        # DuckDB has loaded the file: this is the same library.
        program = ctypes.CDLL(place).ccl_sql_main
    except (AttributeError, OSError) as error:
        return refuse(f"the extension does not hold the program: {error}", REINSTALL, place)
    program.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    program.restype = ctypes.c_int
    encoded = [os.fsencode(word) for word in words]
    return int(program(len(encoded), (ctypes.c_char_p * (len(encoded) + 1))(*encoded, None)))


UPGRADE = "install a newer one: python -m pip install -U 'duckdb>=2.0'"
REINSTALL = "install it anew: python -m pip install --force-reinstall ccl-sql"


def is_new_enough(found: str) -> bool:
    """Whether a version of DuckDB has what the extension calls."""
    first = found.partition(".")[0]
    return not first.isdecimal() or int(first) >= 2


def without_duckdb(error: ImportError) -> int:
    """Says why there is no DuckDB: none, one of long ago, or one that does not load."""
    try:
        import duckdb
    except ImportError:
        missing = getattr(error, "name", None) in ("_duckdb", "duckdb")
        why = "and there is none here" if missing else f"and this one does not load: {error}"
        return refuse(f"ccl-sql needs the Python package duckdb, {why}", UPGRADE)
    return refuse(f"ccl-sql needs DuckDB 2.0 or newer, and this is {duckdb.__version__}", UPGRADE)


def refuse(message: str, hint: str, place: str | None = None) -> int:
    """Says on standard error, as the program says it, why it cannot start; returns 1."""
    if wants_json(sys.argv):
        import json

        said = {"level": "error", "code": "host", "message": message, "where": place}
        text = json.dumps({**said, "facts": None, "hint": hint}, ensure_ascii=False)
    else:
        text = f"error[host]: {message}" + (f"\n  --> {place}" if place else "") + f"\nhint: {hint}"
    try:
        os.write(2, os.fsencode(text + "\n"))
    except (OSError, UnicodeError):
        pass  # Nobody listens.
    return 1


def wants_json(words: list[str]) -> bool:
    """Whether errors are wanted as JSON."""
    pairs = zip(words, words[1:], strict=False)
    return "--errors=json" in words or ("--errors", "json") in pairs


if __name__ == "__main__":
    main()
