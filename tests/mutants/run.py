#!/usr/bin/env python3
"""Changes one thing of a SQL file at a time, and says whether a golden case sees it.

    tests/mutants/run.py [--only WORD] [--again FILE] [--sample SHARE] [--seed N] [--jobs N]

A mutant is killed where a known answer changes or an error comes while it runs, refused where
DuckDB cannot bind it (those do not count), and lives where every case gives its answer. The cases
of a file are its own, then those of what reads it, the nearest first; then the answers on made-up
jobs and on the examples, of the file and of all that reads it, as they were before
(`tests/pinned`). What lives is the same query in other words, which `equivalent.txt` says with a
reason, or wants a case that kills it.

It needs sqlglot, and the tests that `cargo test --release --no-run` built. Start it in the root.
"""

import argparse
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sqlglot import tokenize

ROOT = Path(__file__).resolve().parent.parent.parent
KNOWN = Path(__file__).with_name("equivalent.txt")
#: Folders of answers that are asked at most for one mutant.
MOST_SUBJECTS = 12
#: Seconds after which a mutant counts as killed: it does not end.
PATIENCE = 120

COMPARISONS = {"<": "<=", ">": ">=", "<=": "<", ">=": ">", "<>": "=", "!=": "=", "=": "<>"}
FUNCTIONS = {
    "sum": "max", "min": "max", "max": "min", "avg": "max", "median": "avg", "arg_min": "arg_max",
    "arg_max": "arg_min", "first": "last", "last": "first", "bool_or": "bool_and",
    "bool_and": "bool_or", "stddev_samp": "stddev_pop", "greatest": "least", "least": "greatest",
    "floor": "ceil", "ceil": "floor", "lag": "lead", "lead": "lag", "rank": "row_number",
    "min_by": "max_by", "max_by": "min_by",
}
#: Tokens at which a condition ends.
ENDS = {"AND", "OR", "GROUP_BY", "ORDER_BY", "QUALIFY", "HAVING", "LIMIT", "WINDOW", "THEN", "ELSE",
        "WHEN", "END", "LEFT", "INNER", "ASOF", "CROSS", "JOIN", "WHERE", "COMMA", "UNION",
        "ALIAS", "FULL"}
#: Views of more events than a fixture holds: `python/tests/test_drawn_steps.py` asks them.
OF_PYTHON = {"step_short_events"}
#: The text of a change that takes nothing away but the key of the trace.
OF_TRACE = re.compile(
    r"\s*(AND\s+)?((\w+\.)?trace\s*=\s*(\w+\.)?trace|(\w+\.)?trace,?)(\s+AND)?\s*")
OPENS = {"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"}
CLOSES = {"R_PAREN", "R_BRACKET", "R_BRACE", "END"}
#: Tokens before a condition, and before the bounds of BETWEEN.
BEGINS = ("BETWEEN", "WHERE", "ON", "QUALIFY", "WHEN")


class Text:
    """The tokens of a file, and what can be changed in it: (kind, start, end, replacement)."""

    def __init__(self, text):
        self.text, self.tokens = text, tokenize(text, read="duckdb")

    def kind(self, at):
        return self.tokens[at].token_type.name if 0 <= at < len(self.tokens) else ""

    def word(self, at):
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def end_of(self, at, ends=frozenset()):
        """The token behind what begins at a token: the end of its bracket, or one of `ends`."""
        depth = between = 0
        while at < len(self.tokens):
            kind = self.kind(at)
            if depth == 0 and kind == "BETWEEN":
                between += 1
            elif depth == 0 and kind == "AND" and between:
                between -= 1
            elif depth == 0 and (kind in CLOSES or kind in ends):
                return at
            depth += (kind in OPENS) - (kind in CLOSES)
            at += 1
        return at

    def span(self, first, behind):
        """Bytes from a token to the one before another."""
        return self.tokens[first].start, self.tokens[behind - 1].end + 1

    def change(self, kind, first, behind, new):
        start, end = self.span(first, behind)
        return kind, start, end, new

    def mutants(self):
        """All changes but those of the key of the trace, of which a query sees one."""
        for at in range(len(self.tokens)):
            for of in (self.operators, self.conditions, self.calls, self.windows):
                for change in of(at):
                    if not OF_TRACE.fullmatch(self.text[change[1]:change[2]]):
                        yield change

    def operators(self, at):
        kind, word = self.kind(at), self.word(at)
        if word in COMPARISONS and kind in ("LT", "GT", "LTE", "GTE", "NEQ", "EQ"):
            yield self.change("comparison", at, at + 1, COMPARISONS[word])
        is_operand = self.kind(at - 1) in ("VAR", "NUMBER", "R_PAREN", "R_BRACKET", "IDENTIFIER")
        if kind in ("PLUS", "DASH") and is_operand:
            yield self.change("arithmetic", at, at + 1, "-" if kind == "PLUS" else "+")
        if kind in ("STAR", "SLASH") and is_operand:
            yield self.change("arithmetic", at, at + 1, "/" if kind == "STAR" else "*")
        if kind == "NUMBER" and word.replace(".", "").replace("e", "").isdigit():
            number = float(word)
            if number in (1e3, 1e6, 1e9):
                new = {1e3: "1", 1e6: "1e3", 1e9: "1e6"}[number]
                yield self.change("factor", at, at + 1, new)
            elif word.isdigit():
                yield self.change("bound", at, at + 1, str(int(word) + 1))
            else:
                yield self.change("bound", at, at + 1, str(number * 2))
        if kind == "LEFT" and self.kind(at + 1) == "JOIN":
            yield self.change("join", at, at + 1, "" if self.kind(at - 1) == "ASOF" else "INNER")
        if kind == "INNER":
            yield self.change("join", at, at + 1, "LEFT")
        if kind == "UNION" and self.kind(at + 1) == "ALL":
            yield self.change("distinct", at, at + 2, "UNION")
        if kind == "DISTINCT" and self.kind(at + 1) not in ("FROM", "ON"):
            yield self.change("distinct", at, at + 1, "")

    def conditions(self, at):
        kind = self.kind(at)
        if kind == "AND":
            start = at
            while start > 0 and self.kind(start) not in BEGINS:
                start -= 1
            if self.kind(start) == "BETWEEN" and self.end_of(start + 1, {"AND"}) == at:
                return
            yield self.change("conjunct", at, self.end_of(at + 1, ENDS), "")
        if kind == "OR":
            yield self.change("disjunct", at, at + 1, "AND")
        if kind in ("WHERE", "ON", "QUALIFY"):
            behind = self.end_of(at + 1, ENDS)
            if self.kind(behind) == "AND":
                yield self.change("conjunct", at + 1, behind + 1, "")
            elif kind != "ON":
                yield self.change("conjunct", at + 1, behind, "TRUE")
        if kind == "IS" and self.kind(at + 1) == "NOT":
            if self.kind(at + 2) == "NULL":
                yield self.change("null", at, at + 3, "IS NULL")
            elif self.kind(at + 2) == "DISTINCT":
                yield self.change("null", at, at + 4, "=")
        elif kind == "IS" and self.kind(at + 1) == "NULL":
            yield self.change("null", at, at + 2, "IS NOT NULL")
        elif kind == "NOT" and self.kind(at - 1) != "IS":
            yield self.change("not", at, at + 1, "")

    def calls(self, at):
        if self.kind(at + 1) != "L_PAREN":
            return
        word = self.word(at).lower()
        if word in FUNCTIONS:
            yield self.change("function", at, at + 1, FUNCTIONS[word])
        if word in ("coalesce", "nullif"):
            comma, close = self.end_of(at + 2, {"COMMA"}), self.end_of(at + 2)
            if self.kind(comma) == "COMMA":
                start, end = self.span(at + 2, comma)
                yield self.change(word, at, close + 1, self.text[start:end])
        if word == "filter":
            yield self.change("filter", at, self.end_of(at + 2) + 1, "")

    def windows(self, at):
        kind = self.kind(at)
        if kind == "PARTITION_BY":
            behind = self.end_of(at + 1, {"ORDER_BY", "ROWS", "RANGE", "GROUPS"})
            keys, first = [], at + 1
            while first < behind:
                end = min(self.end_of(first, {"COMMA"}), behind)
                keys.append((first, end))
                first = end + 1
            for n, (first, end) in enumerate(keys):
                if len(keys) > 1 and n + 1 < len(keys):
                    yield self.change("partition", first, end + 1, "")
                elif len(keys) > 1:
                    yield self.change("partition", keys[n - 1][1], end, "")
        # Sums in another order differ in the last digits alone.
        if kind == "ORDER_BY" and self.depth(at) > 0 and self.call_of(at) not in ("sum", "avg"):
            end = self.end_of(at + 1, {"COMMA", "ROWS", "RANGE", "NULLS", "GROUPS", "LIMIT"})
            if self.kind(end - 1) in ("DESC", "ASC"):
                other = {"ASC": "DESC", "DESC": "ASC"}[self.kind(end - 1)]
                yield self.change("order", end - 1, end, other)
            else:
                start, stop = self.span(at + 1, end)
                yield self.change("order", at + 1, end, self.text[start:stop] + " DESC")

    def call_of(self, at):
        """The function among whose arguments a token stands."""
        depth = 0
        for i in range(at - 1, 0, -1):
            depth += (self.kind(i) in CLOSES) - (self.kind(i) in OPENS)
            if depth < 0:
                return self.word(i - 1).lower()
        return ""

    def depth(self, at):
        kinds = [self.kind(i) for i in range(at)]
        return sum(k in OPENS for k in kinds) - sum(k in CLOSES for k in kinds)


class Mutant:
    """A change of a file."""

    def __init__(self, file, text, change):
        self.file = file
        self.kind, self.start, self.end, self.new = change
        self.text = text[:self.start] + self.new + text[self.end:]
        line = text.rfind("\n", 0, self.start) + 1
        until = text.find("\n", self.end)
        self.line = text.count("\n", 0, self.start) + 1
        self.before = " ".join(text[line:until if until >= 0 else None].split())
        after = text[line:self.start] + self.new + text[self.end:until if until >= 0 else None]
        self.after = " ".join(after.split())
        said = "\0".join([file.name, self.before, self.after])
        self.id = hashlib.sha256(said.encode()).hexdigest()[:10]


class Tree:
    """The SQL files: which name each has, and who reads it."""

    def __init__(self, folder):
        self.files, self.readers = {}, defaultdict(set)
        for file in sorted(folder.rglob("*.sql")):
            header = {"requires": [], "reads": []}
            last = ""
            for line in file.read_text().splitlines():
                found = re.match(r"-- @(\w+)\s+(.*)", line)
                last = found[1] if found else last
                words = found[2] if found else line.removeprefix("--")
                if line.startswith("--") and last in header:
                    header[last] += words.split()
            name = file.name.split(".")[0]
            self.files[file] = name
            for table in header["requires"] + header["reads"]:
                self.readers[table].add(name)
        # What this step says is read as a table.
        self.readers["_findings"].add("ingest_log")

    def mutants(self, file):
        """The mutants of a file; none of facts, which a case could only repeat."""
        if file.relative_to(ROOT / "sql").parts[0] == "data" or self.files[file] in OF_PYTHON:
            return []
        text = file.read_text()
        return [Mutant(file, text, change) for change in Text(text).mutants()]

    def cases(self, file, golden):
        """Folders of the answers that see a file, the nearest first."""
        name, out, seen = self.files[file], [], set()
        waiting = [name]
        while waiting and len(out) < MOST_SUBJECTS:
            following = []
            for at in waiting:
                out += [folder for folder in golden.get(at, []) if folder not in out]
                seen.add(at)
                following += sorted(self.readers[at] - seen - set(following))
            waiting = following
        return out[:MOST_SUBJECTS]

    def readers_of(self, file):
        """The file and all that reads it, as folders of pinned answers."""
        waiting, seen = [self.files[file]], set()
        while waiting:
            at = waiting.pop()
            seen.add(at)
            waiting += self.readers[at] - seen
        return [f"/{name}/" for name in sorted(seen)]


def newest(pattern, folder):
    """The newest program that a pattern finds."""
    found = [f for f in folder.glob(pattern) if not f.suffix and os.access(f, os.X_OK)]
    if not found:
        sys.exit(f"{folder} has no {pattern}: build the tests first")
    return max(found, key=lambda f: f.stat().st_mtime)


def run(mutant, cases, pinned, folder, made, tests, program):
    """What becomes of a mutant: killed, refused or lives."""
    tree = Path(tempfile.mkdtemp(dir=folder))
    shutil.copytree(ROOT / "sql", tree / "sql", copy_function=os.link)
    changed = tree / mutant.file.relative_to(ROOT)
    changed.unlink()
    changed.write_text(mutant.text)
    env = {**os.environ, "CCL_SQL_TREE": str(tree / "sql"), "CARGO_BIN_EXE_ccl-sql": str(program),
           "CARGO_MANIFEST_DIR": str(ROOT), "CCL_SQL_FIRST": "1", "RUST_BACKTRACE": "0",
           "TMPDIR": str(tree)}
    # With it the golden test asks metrics alone: no case of a view, a table or a comparison.
    env.pop("CCL_SQL_PROGRAM", None)
    # Tables of the cases are the same for all mutants that no table is made by.
    if mutant.file.relative_to(ROOT / "sql").parts[0] in (
            "metrics", "views", "diagnoses", "comparisons"):
        env["CCL_SQL_FIXTURES"] = str(made)
    golden, examples = (f"sql::{name}" for name in (
        "golden::every_case_gives_its_known_answer",
        "pinned::answers_are_as_they_were"))
    try:
        # The cases of the file itself kill most, and are few.
        for test, some in ((golden, cases[:1]), (golden, cases[1:]), (examples, pinned)):
            if not some:
                continue
            done = subprocess.run([tests, test, "--exact"], cwd=ROOT, capture_output=True,
                                  env={**env, "CCL_SQL_CASE": ",".join(some)}, text=True,
                                  timeout=PATIENCE)
            if "1 failed" in done.stdout:
                is_refused = re.search(r"(Binder|Parser|Catalog) Error", done.stdout)
                return "refused" if is_refused else "killed"
            if "1 passed" not in done.stdout:
                sys.exit(f"the tests did not run:\n{done.stdout}{done.stderr}")
    except subprocess.TimeoutExpired:
        return "killed"
    finally:
        shutil.rmtree(tree, ignore_errors=True)
    return "lives"


def tell(lines, out):
    """Prints a table, and adds it to a file where one is named."""
    print("\n".join(lines))
    if out:
        with open(out, "a") as file:
            file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="files whose path holds this word")
    parser.add_argument("--again", type=Path, help="what an earlier run said: what lived there")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--list", action="store_true", help="say the mutants, run none")
    parser.add_argument("--out", type=Path, help="a Markdown file that the table is added to")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ccl-sql/target"
    target = Path(os.environ.get("CARGO_TARGET_DIR", cache)) / "release"
    parser.add_argument("--target", type=Path, default=target)
    options = parser.parse_args()
    golden = defaultdict(list)
    for folder in sorted({f.parent for f in (ROOT / "tests/golden").rglob("*") if f.is_file()}):
        golden[folder.name].append(f"/{folder.relative_to(ROOT / 'tests')}/")
    known = {line.split()[0] for line in KNOWN.read_text().splitlines()
             if line.strip() and not line.startswith("#")}
    tree, mutants = Tree(ROOT / "sql"), []
    for file in tree.files:
        if options.only in str(file.relative_to(ROOT)):
            mutants += tree.mutants(file)
    chosen = random.Random(options.seed)
    mutants = [m for m in mutants if chosen.random() < options.sample]
    if options.again:
        lived = {line.split()[0] for line in options.again.read_text().splitlines() if line.strip()}
        mutants = [m for m in mutants if m.id in lived]
    if options.list:
        for m in mutants:
            print(m.id, m.file.relative_to(ROOT), m.line, m.kind, m.before, "->", m.after)
        return 0
    tests, program = newest("deps/it-*", options.target), options.target / "ccl-sql"
    counts, lived = defaultdict(Counter), []
    with tempfile.TemporaryDirectory(dir=ROOT.parent) as folder, \
            ThreadPoolExecutor(options.jobs) as pool:
        made = Path(folder, "made")
        made.mkdir()

        def one(m):
            cases, pinned = tree.cases(m.file, golden), tree.readers_of(m.file)
            return m, run(m, cases, pinned, folder, made, tests, program)

        for m, outcome in pool.map(one, mutants):
            if outcome == "lives" and m.id in known:
                outcome = "equivalent"
            counts[m.kind][outcome] += 1
            if outcome == "lives":
                lived.append(m)
                place = f"{m.file.relative_to(ROOT)}:{m.line}"
                print(f"{m.id} {place} {m.kind}\n  - {m.before}\n  + {m.after}", flush=True)
    total = sum(counts.values(), Counter())
    lines = ["| changed | mutants | refused | killed | equivalent | live | killed of the rest |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for kind, of in [*sorted(counts.items()), ("all", total)]:
        rest = of["killed"] + of["lives"]
        share = f"{100 * of['killed'] / rest:.1f} %" if rest else ""
        lines.append(f"| {kind} | {sum(of.values())} | {of['refused']} | {of['killed']} | "
                     f"{of['equivalent']} | {of['lives']} | {share} |")
    tell(lines, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
