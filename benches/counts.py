#!/usr/bin/env python3
"""Counts instructions, which a busy machine does not change: a regression shows without an idle one.

    benches/counts.py [--binary PATH] [--against FILE] [-o FILE]

Runs ingests of the examples and a few questions on one thread under valgrind's callgrind, and prints
the millions of instructions of each. `-o` keeps them; `--against` shows them beside kept ones. Two
runs of one build differ by about one in a thousand.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from run import HERE, target

EXAMPLES = HERE.parent / "trace_collection"
INGESTS = ["llama-tiny-fsdp2-tp2-4", "fsdp2-cpu-2", "jax-cpu-8dev", "ulysses-tiny-nsys-2"]
QUESTIONS = [["sql", "SELECT 1"], ["metric", "coll_call_num"], ["metric", "straggler"]]


def count(command):
    """Millions of instructions of a command."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
        capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"{command} failed:\n{run.stderr}")
    return int(found[1]) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=Path, default=target() / "release/ccl-sql")
    parser.add_argument("--against", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else {}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        ccl = [options.binary, "--data", folder, "--jobs", "1", "-q"]
        ingests = [["ingest", EXAMPLES / name] for name in INGESTS]
        asked = [[*words, "--trace", INGESTS[0], "--no-cache"] if words[0] == "metric" else words
                 for words in QUESTIONS]
        for words in [*ingests, *asked]:
            name = " ".join([words[0], Path(words[1]).name])
            found[name] = count([*ccl, *words])
            beside = f" {found[name] / before[name] - 1:+8.1%}" if name in before else ""
            print(f"{name:40} {found[name]:10.1f}{beside}", flush=True)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
