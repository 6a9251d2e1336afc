"""Every output of the command is what its schema says, and no field is one that it does not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import BALANCED, LLAMA, Run
from jsonschema import Draft202012Validator

#: Command lines by the names of their schemas.
LINES: list[tuple[str, list[str]]] = [
    ("metric", ["metric", "straggler", "--trace", LLAMA.name]),
    ("metric", ["metric", "--all"]),
    ("metric", ["metric", "straggler", "--trace", LLAMA.name, "--limit", "1"]),
    ("diagnose", ["diagnose", LLAMA.name]),
    ("diagnose", ["diagnose"]),
    ("report", ["report", LLAMA.name]),
    ("report", ["report", "--limit", "1"]),
    ("compare", ["compare", LLAMA.name, BALANCED.name]),
    ("compare", ["compare", LLAMA.name, BALANCED.name, "--limit", "2"]),
    ("baseline", ["compare", BALANCED.name, "--baseline", "llama*"]),
    ("history", ["history", "avg_step_time", "mfu", "--series", "llama*"]),
    *(("list", ["list", what]) for what in ("metrics", "diagnoses", "traces", "tables")),
    ("list", ["list", "functions"]),
    *(("show", ["show", name]) for name in ("straggler", "slow_rank", "kernels", "collectives")),
    ("show", ["show", "hockney_fit"]),
    ("show", ["show", LLAMA.name]),
    ("sql", ["sql", "FROM collective_calls"]),
    ("sql", ["sql", "SELECT 1 AS a; SELECT {x: 1, y: [2]} AS s, map([1], [2]) AS m"]),
    ("schema", ["schema"]),
]


def validator(run: Run, name: str, *, whole: bool = True) -> Draft202012Validator:
    """The validator of an output; that of a part of one asks for no field."""
    schema: Any = json.loads(run("schema", name, check=True).stdout)
    Draft202012Validator.check_schema(schema)
    if not whole:
        without_required(schema)
    return Draft202012Validator(schema)


def without_required(schema: Any) -> None:
    """Makes every field one that may be left out."""
    if isinstance(schema, dict):
        if isinstance(schema.get("required"), list):
            del schema["required"]
        for part in schema.values():
            without_required(part)
    elif isinstance(schema, list):
        for part in schema:
            without_required(part)


@pytest.mark.parametrize(("name", "line"), LINES, ids=lambda value: "-".join(value[:3])[:40])
def test_outputs_are_what_their_schemas_say(
    run: Run, data: Path, name: str, line: list[str]
) -> None:
    words = [*line, "--data", str(data), "--format", "json", "-q"]
    document = json.loads(run(*words, check=True).stdout)
    assert document
    errors = [error.message[:300] for error in validator(run, name).iter_errors(document)]
    assert not errors
    if name in ("sql", "list") or "--limit" in line:
        return
    document = json.loads(run(*words, "--brief", check=True).stdout)
    errors = [
        error.message[:300] for error in validator(run, name, whole=False).iter_errors(document)
    ]
    assert not errors


def test_a_schema_refuses_what_is_another_output(run: Run, data: Path) -> None:
    words = ["--data", str(data), "--format", "json", "-q"]
    metric = json.loads(run("metric", "straggler", *words, check=True).stdout)
    diagnose = json.loads(run("diagnose", *words, check=True).stdout)
    assert not validator(run, "metric").is_valid(diagnose)
    assert not validator(run, "diagnose").is_valid(metric)
    assert not validator(run, "metric").is_valid({**metric[0], "valeu": 1})


def test_messages_are_what_their_schema_says(run: Run, data: Path) -> None:
    check = validator(run, "error")
    for words in (
        ["metric", "nope"],
        ["metrik"],
        ["metric", "ttft", "straggler"],
        ["metric", "straggler", "--limit", "0", "--format", "json"],
    ):
        done = run(*words, "--errors=json", "--data", str(data))
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        assert lines
        for line in lines:
            check.validate(line)
