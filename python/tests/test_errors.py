"""Errors and options, without the extension."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ccl_sql._errors import Error, parsed
from ccl_sql._text import cell, clean, html_table, size, text_table
from ccl_sql._words import Option, path, words


def parts(error: Error) -> tuple[str | None, ...]:
    return error.code, error.message, error.place, error.facts, error.hint


def test_all_parts_are_read() -> None:
    text = (
        "Invalid Input Error: error[duplicate-rank]: two traces claim rank 5\n"
        "  --> rank5.json.gz and rank5_retry.json.gz\n  4 and 5 events\nhint: remove one\n"
    )
    error = parsed(text)
    assert parts(error) == (
        "duplicate-rank",
        "two traces claim rank 5",
        "rank5.json.gz and rank5_retry.json.gz",
        "4 and 5 events",
        "remove one",
    )
    assert str(error) == text.removeprefix("Invalid Input Error: ").rstrip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error[io]: no space", ("io", "no space", None, None, None)),
        ("error[io]: no space\nhint: a\nb", ("io", "no space", None, None, "a\nb")),
        ("error[io]: no space\n  1 of 2", ("io", "no space", None, "1 of 2", None)),
        ("error[io]: x\n  --> a b\nhint: c", ("io", "x", "a b", None, "c")),
        ("Catalog Error: no table", ("sql", "Catalog Error: no table", None, None, None)),
        # What looks like a head in the middle of a word, or of another's text, is none.
        ("an xerror[io]: b", ("sql", "an xerror[io]: b", None, None, None)),
        (
            "error[sql]: Parser Error: at\nLINE 1: SELEC\n        ^\nhint: c",
            ("sql", "Parser Error: at\nLINE 1: SELEC\n        ^", None, None, "c"),
        ),
        ("error[a]: says error[b]: c", ("a", "says error[b]: c", None, None, None)),
    ],
)
def test_parts_may_lack(text: str, expected: tuple[str | None, ...]) -> None:
    assert parts(parsed(text)) == expected


def test_several_errors_are_told_apart() -> None:
    error = parsed("Invalid Error: error[a]: b\nhint: c\nerror[d]: e\n  --> f")
    assert parts(error) == ("a", "b", None, None, "c")
    assert [parts(other) for other in error.others] == [("d", "e", "f", None, None)]
    assert str(error) == "error[a]: b\nhint: c\nerror[d]: e\n  --> f"


def test_an_error_is_pickled_whole() -> None:
    error = parsed("error[a]: b\n  --> c\n  d\nhint: e\nerror[f]: g")
    other = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert str(other) == str(error)
    assert other.others[0].code == "f"


def test_errors_steer_no_terminal() -> None:
    assert str(parsed("error[a]: \x1b[31mred\x07")) == "error[a]: \\x1b[31mred\\x07"


def test_options_become_words() -> None:
    given: dict[str, Option] = {
        "keep_partial": True,
        "strict": False,
        "name": None,
        "rank": {6: "a=b.json", 7: Path("c")},
        "memory": ["x", Path("y z")],
        "jobs": 2,
        "threshold": 0.1,
        "step_range": "--odd",
    }
    assert words(given) == [
        "--keep-partial",
        "--rank=6=a=b.json",
        "--rank=7=c",
        "--memory=x",
        "--memory=y z",
        "--jobs=2",
        "--threshold=0.1",
        "--step-range=--odd",
    ]


@pytest.mark.parametrize("name", ["", "A", "a-b", "a=b", "_a", "a b", "a__b"])
def test_names_that_no_option_has_are_refused(name: str) -> None:
    with pytest.raises(Error, match="no name of an option"):
        words({name: 1})


def test_texts_that_sql_cannot_say_are_refused() -> None:
    with pytest.raises(Error) as raised:
        path("a\udcff")
    assert raised.value.code == "usage"
    with pytest.raises(Error):
        words({"name": "a\0b"})


def test_a_path_is_no_name() -> None:
    assert path(Path("llama")) == "./llama"
    assert path("llama") == "llama"
    assert path(Path("/a/b")) == "/a/b"


def test_texts_are_shown_as_they_are() -> None:
    assert clean("a\tb\u202e\n") == "a\\tb\\u202e\\n"
    assert clean("größe 数") == "größe 数"
    assert [cell(v, 60) for v in (48.0, 0.1234567, None, True, "x" * 70)] == [
        "48",
        "0.123457",
        "",
        "true",
        "x" * 59 + "…",
    ]
    assert [size(n) for n in (0, 999, 1000, 388_123, 999_600, 2 * 10**9, 10**13)] == [
        "0 B",
        "999 B",
        "1 kB",
        "388 kB",
        "1 MB",
        "2 GB",
        "10 TB",
    ]


def test_tables_are_aligned_and_escaped() -> None:
    rows: list[dict[str, object]] = [{"a": "x", "n": 1.0}, {"a": "<b>&", "n": None}]
    assert text_table(["a", "n"], rows) == "a     n\n----  -\nx     1\n<b>&"
    page = html_table(["a", "n"], rows)
    assert "<bdi>&lt;b&gt;&amp;</bdi>" in page
    assert "<b>" not in page
