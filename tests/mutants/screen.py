#!/usr/bin/env python3
"""Asks the mutants of views, metrics and diagnoses of all traces at once, in milliseconds each.

    tests/mutants/screen.py [--only WORD] [--sample SHARE] [--seed N] [--say OUTCOME] [--out FILE]

The fixtures, the made-up jobs and the examples lie as tables in one DuckDB, and what they give by
each file is computed once. Then each mutant is asked alone, over the tables and views as they are:

    refused   DuckDB cannot bind it
    killed    a golden case of the file itself gives other rows, or an error
    seen      rows differ on some trace, of which the file has no such case: cases of what reads it
              and pinned answers may kill it
    same      no trace shows a difference: it wants a fixture, or is the same query in other words
    slow      it does not end in time, and no golden case of the file itself says other rows

What is `same`, and not in `equivalent.txt`, is printed as `run.py` prints what lives, so that its
output can be given to `run.py --again`.

Not screened are derived tables, comparisons, and views of pairs of traces. What a mutant changes in
files that read it is not looked at. Jobs of several profilers are asked with the rows of all of
them. Reasons and warnings are not compared, but that there is a value is.

It needs sqlglot, DuckDB 2.0 for Python, the tests that `cargo test --release --no-run` built, and
the extension (`python/build_extension.py`). Start it in the root.
"""

import argparse
import hashlib
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from csv import reader
from pathlib import Path
from threading import Timer

import duckdb
from run import KNOWN, ROOT, Tree, newest, tell

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ccl-sql"
GOLDEN = ROOT / "tests/golden"
OUTCOMES = ("refused", "killed", "seen", "same", "equivalent", "slow")
REFUSED = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException)
SLOW = (duckdb.InterruptException, duckdb.OutOfMemoryException)
#: What is shown of a diagnosis.
FINDING = ["finding", "where", "time_per_step_ms", "gain_ms", "limits", "advice"]
#: What traces are made of: where it changed, they are made anew.
MADE_OF = ("sql/derived", "tests/fixtures", "tests/it/support", "trace_collection")


def made_by(options):
    """The folder of the traces: of all fixtures, made-up jobs and examples."""
    folder = options.made.absolute()
    if not options.as_is:
        make(folder, options.target)
    return folder


def make(folder, target):
    """Makes the traces, where they are not there."""
    files = [f for of in MADE_OF for f in sorted((ROOT / of).rglob("*")) if f.is_file()]
    hashes = "".join(hashlib.sha256(f.read_bytes()).hexdigest() for f in files)
    of, said = hashlib.sha256(hashes.encode()).hexdigest(), folder / "of.txt"
    if said.exists() and said.read_text() == of:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # A case of each fixture makes it, the quickest without starting the program.
    cases = {}
    for f in sorted(GOLDEN.rglob("*.*"), key=lambda f: "golden/views" not in str(f)):
        stem = f.name.rsplit(".", 1)[0].partition("@")[0]
        for fixture in stem.split("+"):
            cases.setdefault(fixture, f"/{f.parent.relative_to(GOLDEN.parent)}/{stem}")
    env = {**os.environ, "CCL_SQL_TREE": str(ROOT / "sql"), "CCL_SQL_FIXTURES": str(folder),
           "CARGO_MANIFEST_DIR": str(ROOT), "CARGO_BIN_EXE_ccl-sql": str(target / "ccl-sql")}
    env.pop("CCL_SQL_PROGRAM", None)
    for test, some in (("golden::every_case_gives_its_known_answer", ",".join(cases.values())),
                       ("pinned::answers_are_as_they_were", "/coll_call_num/")):
        tests = [newest("deps/it-*", target), f"sql::{test}", "--exact"]
        done = subprocess.run(tests, cwd=ROOT, check=False,
                              capture_output=True, text=True, env={**env, "CCL_SQL_CASE": some})
        if "1 passed" not in done.stdout:
            sys.exit(f"the traces were not made:\n{done.stdout}{done.stderr}")
    said.write_text(of)


def header(text):
    """The tags of a file, and what each says."""
    tags = defaultdict(list)
    for line in text.splitlines():
        if found := re.match(r"-- @(\w+)\s+(.*)", line):
            last = tags[found[1]]
            last.append(found[2])
        elif line.startswith("--    ") and tags:
            last[-1] += " " + line[2:].strip()
    return tags


def form(value):
    """A value as the program writes it: doubles of nine digits, and NULL for what is no number."""
    if isinstance(value, float):
        return repr(float(f"{value:.9g}")) if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return tuple(form(v) for v in value)
    if isinstance(value, dict):
        return tuple((str(k), form(v)) for k, v in value.items())
    return value if value is None or isinstance(value, str) else str(value)


def connection(extension):
    """A database that plans queries as the program does over few rows."""
    config = {"allow_unsigned_extensions": True, "threads": 1, "memory_limit": "3GB"}
    database = duckdb.connect(config=config)
    os.environ["CCL_SQL_TREE"] = str(ROOT / "sql")
    database.execute(f"LOAD '{extension}'")
    # These take longer to plan than to run.
    costly = re.search(r'COSTLY_PASSES: &str = "(.*?)"',
                       (ROOT / "src/engine/connect.rs").read_text(), re.DOTALL)[1]
    passes = re.sub(r"\\\n\s*", "", costly)
    database.execute(f"SET disabled_optimizers = '{passes}'")
    database.execute("SET asof_loop_join_threshold = 0; SET temp_directory = ''; "
                     "SET enable_progress_bar = false")
    return database


class Traces:
    """All traces as tables with a column `trace`, and the views over them."""

    def __init__(self, made, extension, seconds, tree):
        self.tree, self.reads = tree, defaultdict(set)
        for table, names in tree.readers.items():
            for name in names:
                self.reads[name].add(table)
        self.duckdb = connection(extension)
        self.names = sorted(f.name for f in made.iterdir() if f.is_dir() and f.name[0] != ".")
        opened = f"CALL ccl_open('{made / self.names[0]}', schema := 'kinds')"
        for name, kind, _ in self.duckdb.execute(opened).fetchall():
            if kind == "table":
                self.fill(name, made)
        self.duckdb.execute("DROP SCHEMA kinds CASCADE; CREATE SCHEMA alone")
        self.views, self.seen, self.pairs = {}, set(), set()
        for file, name in tree.files.items():
            if kind_of(file) in ("views", "data"):
                self.views[name] = file
        for name in self.views:
            self.view(name)
        keyed = ("SELECT table_name FROM duckdb_columns() "
                 "WHERE column_name = 'trace' AND schema_name = 'main'")
        for name, in self.duckdb.execute(keyed).fetchall():
            self.duckdb.execute(f'CREATE VIEW alone."{name}" AS SELECT * FROM main."{name}" '
                                "WHERE trace = getvariable('trace')")
        self.seconds = seconds

    def fill(self, name, made):
        """A table with the rows of all traces; that of an example is called as its folder."""
        self.duckdb.execute(f"CREATE TABLE main.{name} AS FROM kinds.{name} LIMIT 0")
        files = [str(f) for f in made.glob(f"*/trace=*/{name}/**/*.parquet")]
        if files:
            self.duckdb.execute(
                f"INSERT INTO main.{name} BY NAME SELECT * EXCLUDE (file_of) REPLACE ("
                f"split_part(file_of, '/', {len(made.parts) + 1}) AS trace) FROM read_parquet("
                f"{files}, union_by_name = true, filename = 'file_of', "
                "hive_partitioning = true, hive_types = "
                "{'trace': VARCHAR" + (", 'rank': BIGINT" if "/rank=" in files[0] else "") + "})")

    def view(self, name):
        """Makes a view a table, behind those that it reads."""
        if name in self.seen or name not in self.views:
            return
        self.seen.add(name)
        for other in sorted(self.reads[name]):
            self.view(other)
        made = f'"{name}" AS {self.views[name].read_text()}'
        self.duckdb.execute(f"CREATE VIEW main.{made}")
        columns = [c[0] for c in self.duckdb.execute(f'DESCRIBE main."{name}"').fetchall()]
        # Pairs of all traces would be too many rows.
        if "trace" in columns or kind_of(self.views[name]) == "data":
            self.duckdb.execute(f'DROP VIEW main."{name}"; CREATE TABLE main.{made}')
        else:
            self.pairs.add(name)

    def ask(self, sql, trace=None):
        """The columns of a query, and its rows by trace; of one trace or of all."""
        self.duckdb.execute(f"SET search_path = '{'alone,main' if trace else 'main'}'")
        self.duckdb.execute(f"SET VARIABLE trace = '{trace}'")
        # A key of the trace that is turned around joins nothing of one trace.
        sql = re.sub(r"(\w+\.)?trace <> (\w+\.)?trace", "FALSE", sql)
        # DuckDB's own limit (max_execution_time) does not end every query.
        limit = Timer(self.seconds, self.duckdb.interrupt)
        limit.start()
        try:
            found = self.duckdb.execute(sql)
            columns, every = [c[0] for c in found.description], found.fetchall()
        finally:
            limit.cancel()
        at, rows = columns.index("trace"), defaultdict(list)
        for row in every:
            rows[row[at]].append(row)
        return columns, rows

    def asked(self, name, tags):
        """Traces of which a metric or diagnosis is asked: they have what it needs, no reason."""
        out, params = set(self.names), {p.split()[0]: p.split()[2] for p in tags["param"]}
        tables = {w for line in tags["requires"] for w in line.split()} - set(self.views)
        for table in tables:
            rows = self.duckdb.execute(f"SELECT DISTINCT trace FROM main.{table}").fetchall()
            out &= {trace for trace, in rows}
        inputs = "|".join(sorted(self.reads[name], key=len, reverse=True)) or "-"
        reasons = [(check.split(" | ")[0], "NOT coalesce(({}), FALSE)") for check in tags["check"]]
        reasons += [(check.split(" | ")[0], "({}) IS NOT NULL") for check in tags["reason"]]
        for expression, is_reason in reasons:
            own = re.sub(rf"\b(FROM|JOIN)\s+({inputs})\b", r"\1 (SELECT * FROM main.\2 AS a WHERE "
                         r"a.trace = e.trace) AS \2", with_params(expression, params))
            rows = self.duckdb.execute(f"SELECT trace FROM unnest({sorted(out)}::VARCHAR[]) "
                                       f"AS e(trace) WHERE {is_reason.format(own)}").fetchall()
            out -= {trace for trace, in rows}
        return out


def kind_of(file):
    return file.relative_to(ROOT / "sql").parts[0]


def with_params(sql, params):
    """A query with the values of its parameters in their places."""
    for name, value in params.items():
        text = "NULL" if value == "NULL" else f"'{value}'"
        is_number = re.fullmatch(r"[-\d.]+(e\d+)?", value)
        sql = re.sub(rf"\${name}\b", f"({value})" if is_number else text, sql)
    return sql


class Subject:
    """A view, metric or diagnosis: its cases, and what it says of each trace."""

    def __init__(self, file, traces):
        self.traces, self.file, self.name = traces, file, traces.tree.files[file]
        self.kind, tags = kind_of(file), header(file.read_text())
        self.types = {p.split()[0]: p.split()[1] for p in tags["param"]}
        self.params = {p.split()[0]: p.split()[2] for p in tags["param"]}
        self.value = tags["value"][0].split()[0] if tags["value"] else None
        self.is_ordered = not self.name.startswith("_")
        is_view = self.kind == "views"
        self.of = set(traces.names) if is_view else traces.asked(self.name, tags)
        #: By parameters and trace: the columns that a case compares; none of a reason.
        self.cases = defaultdict(dict)
        folder = GOLDEN / self.name if self.kind == "metrics" else GOLDEN / self.kind / self.name
        for case in folder.glob("*.*"):
            trace, _, words = case.name.rsplit(".", 1)[0].partition("@")
            with open(case, newline="") as text:
                columns = next(reader(text)) if case.suffix == ".csv" else None
            self.cases[words][trace] = columns
        asked = ["", *self.cases]
        for name, kind in self.types.items():
            if kind != "VARCHAR":
                other = "false" if self.params[name] == "true" else "true"
                asked.append(f"{name}={other if kind == 'BOOLEAN' else 2}")
        self.base = {words: self.ask(file.read_text(), words) for words in dict.fromkeys(asked)}

    def ask(self, sql, words, trace=None):
        given = dict(word.split("=", 1) for word in words.split(",") if word)
        params = {n: self.typed(n, v) for n, v in {**self.params, **given}.items()}
        for name, value in params.items():
            sql = re.sub(rf"\${name}\b", value, sql)
        return self.traces.ask(sql, trace)

    def typed(self, name, value):
        text = "NULL" if value == "NULL" else "'" + value + "'"
        kind = self.types[name]
        return f"CAST(CAST({text} AS DOUBLE) AS BIGINT)" if kind == "BIGINT" else \
            f"CAST({text} AS {kind})"

    def rows(self, columns, rows, wanted=None):
        """What is compared of the rows of a trace."""
        if self.kind == "diagnoses":
            wanted = wanted or FINDING
        if self.value and len(rows) == 1 and form(rows[0][columns.index(self.value)]) is None:
            return []
        known = [c for c in wanted or columns if c in columns and c != "trace"]
        places = [columns.index(c) for c in known]
        out = [tuple(form(row[at]) for at in places) for row in rows]
        return out if self.is_ordered else sorted(out, key=repr)

    def differs(self, words, trace, now):
        """What sees that a trace has other rows: `killed` by a case, `seen`, or nothing."""
        (columns, before), (others, after) = self.base[words], now
        old, new = before.get(trace, []), after.get(trace, [])
        if trace not in self.of or old == new:
            return None
        if trace in self.cases[words]:
            wanted = self.cases[words][trace]
            if self.rows(columns, old, wanted) != self.rows(others, new, wanted):
                return "killed"
        return "seen" if self.rows(columns, old) != self.rows(others, new) else None

    def by_cases(self, sql):
        """Whether a case kills a mutant that fails somewhere: each is asked alone."""
        for words, traces in self.cases.items():
            for trace in self.of.intersection(traces):
                try:
                    if self.differs(words, trace, self.ask(sql, words, trace)) == "killed":
                        return True
                except SLOW:
                    continue
                except duckdb.Error:
                    return True
        return False

    def judge(self, sql):
        """What becomes of a mutant."""
        found = set()
        for words in self.base:
            try:
                now = self.ask(sql, words)
            except REFUSED:
                return "refused"
            except duckdb.Error as error:
                other = "slow" if isinstance(error, SLOW) else "seen"
                return "killed" if self.by_cases(sql) else other
            for trace in self.of:
                found.add(self.differs(words, trace, now))
                if "killed" in found:
                    return "killed"
        return "seen" if "seen" in found else "same"


def options_of(what):
    """What is asked for: which mutants, of which traces."""
    parser = argparse.ArgumentParser(description=what.split("\n")[0])
    parser.add_argument("--only", default="", help="files whose path holds this word")
    parser.add_argument("--again", type=Path, help="what an earlier run printed")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--say", default="same", choices=OUTCOMES, help="which are printed")
    parser.add_argument("--out", type=Path, help="a Markdown file that the table is added to")
    parser.add_argument("--seconds", type=float, default=5, help="longest that a query may take")
    parser.add_argument("--made", type=Path, default=CACHE / "screen", help="the traces, kept")
    parser.add_argument("--as-is", action="store_true", help="take what lies there as the traces")
    target = Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target")) / "release"
    parser.add_argument("--target", type=Path, default=target)
    parser.add_argument("--extension", type=Path,
                        default=CACHE / "target/release/ccl_sql.duckdb_extension")
    return parser.parse_args()


def ids_in(file):
    """The mutants whose numbers begin the lines of a file."""
    lines = [line for line in file.read_text().splitlines() if line.strip()]
    return {line.split()[0] for line in lines if not line.startswith("#")}


def screen(tree, files, subject, options):
    """Judges the mutants of files, and tells the outcomes by folder."""
    counts, chosen, known = defaultdict(Counter), random.Random(options.seed), ids_in(KNOWN)
    wanted = ids_in(options.again) if options.again else None
    for file in files:
        place, asks = file.relative_to(ROOT), None
        if options.only not in str(place):
            continue
        for m in tree.mutants(file):
            if chosen.random() >= options.sample or wanted is not None and m.id not in wanted:
                continue
            asks = asks or subject(file)
            outcome = asks.judge(m.text)
            if outcome == "same" and m.id in known:
                outcome = "equivalent"
            counts[str(place.parent)][outcome] += 1
            if outcome == options.say:
                print(f"{m.id} {place}:{m.line} {m.kind}\n  - {m.before}\n  + {m.after}",
                      flush=True)
    lines = [f"| folder | mutants | {' | '.join(OUTCOMES)} |", "| --- " * 8 + "|"]
    for folder, of in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        numbers = " | ".join(str(of[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {folder} | {sum(of.values())} | {numbers} |")
    tell(lines, options.out)


def main():
    options = options_of(__doc__)
    tree = Tree(ROOT / "sql")
    traces = Traces(made_by(options), options.extension, options.seconds, tree)
    files = [file for file, name in tree.files.items() if name not in traces.pairs
             and kind_of(file) in ("views", "metrics", "diagnoses")]
    screen(tree, files, lambda file: Subject(file, traces), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
