"""Options of Python as words of a command line, which the program itself checks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ccl_sql._errors import Error

#: A value of an option; True gives the option alone, False and None leave it away.
Value: TypeAlias = str | int | float | os.PathLike[str] | None
#: An option: a value, several, or several with keys, such as `rank={6: 'rank5_retry.json.gz'}`.
Option: TypeAlias = Value | Iterable[Value] | Mapping[str, Value] | Mapping[int, Value]

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def words(options: Mapping[str, Option]) -> list[str]:
    """The words of options: `keep_partial=True` is `--keep-partial`, and so on.

    Raises Error `usage` for a name that no option can have, and for texts that are no Unicode.
    """
    out: list[str] = []
    for name, option in options.items():
        if not _NAME.fullmatch(name):
            raise Error("usage", f"{name!r} is no name of an option")
        flag = f"--{name.replace('_', '-')}"
        if option is True:
            out.append(flag)
        elif isinstance(option, Mapping):
            out += [f"{flag}={text(key)}={text(value)}" for key, value in option.items()]
        elif isinstance(option, Iterable) and not isinstance(option, str):
            out += [f"{flag}={text(value)}" for value in option]
        elif option is not None and option is not False:
            out.append(f"{flag}={text(option)}")
    return out


def text(value: Value) -> str:
    """A value as the program reads it.

    Raises Error `usage` for a text that is no Unicode, as names of files may be: SQL has none such.
    """
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    out = repr(value) if isinstance(value, float) else str(value)
    try:
        out.encode()
    except UnicodeEncodeError:
        raise Error(
            "usage",
            "the name of a file is no valid UTF-8, so SQL cannot say it",
            place=ascii(out),
            hint="the command `ccl-sql` takes such names",
        ) from None
    if "\0" in out:
        raise Error("usage", "a text holds a NUL character", place=ascii(out))
    return out


def path(value: str | os.PathLike[str]) -> str:
    """A path as text. A `Path` without a folder gets one, so that it is not taken for a name."""
    out = text(value)
    if isinstance(value, os.PathLike) and not os.path.dirname(out):
        out = os.path.join(os.curdir, out)
    return out
