#!/usr/bin/env python3
"""Asks the mutants of derived tables of all traces, as `screen.py` does those of what reads them.

    tests/mutants/screen_derived.py [--only WORD] [--sample SHARE] [--seed N] [--say OUTCOME]

The ingested tables of each fixture, made-up job and example lie in a schema of one DuckDB. There
all derived tables are made once, and compared with those that the program made: a trace of which
one differs is named, and not asked. A mutant is asked of one trace after the other. Where a step on
the way has other rows, what reads it is made with them, until a table of the trace differs:

    refused   DuckDB cannot bind it
    killed    a golden case of a derived table gives other rows, or an error: no trace is made
    seen      a table differs on some trace, of which it has no case
    same      no trace shows a difference
    slow      it does not end in time

What the sweeps in Rust read is not looked at: the merged busy spans, and the times of hosts.
The rest is as in `screen.py`. A mutant takes a tenth of a second to three.
"""

import sys
from collections import defaultdict
from csv import reader
from threading import Timer

import duckdb
from run import ROOT, Tree
from screen import (
    GOLDEN, REFUSED, SLOW, connection, form, header, kind_of, made_by, options_of, screen)

#: The step that is kept under another name.
KEPT_AS = {"_findings": "ingest_log"}


def compared(rows):
    """Rows as they are compared: without an order."""
    return sorted((tuple(form(v) for v in row) for row in rows), key=repr)


class Step:
    """A file that makes a derived table, or a step on the way to one."""

    def __init__(self, file, name, tags, columns):
        self.file, self.name = file, name
        self.requires = {w for line in tags["requires"] for w in line.split()}
        self.inputs = self.requires | {w for line in tags["reads"] for w in line.split()}
        self.checks = [check.split(" | ")[0] for check in tags["check"]]
        self.is_kept = not name.startswith("_") or name in KEPT_AS
        #: Columns and types: of a table of the trace those of its schema, else as the file says.
        self.columns = columns or [tuple(c.split()[:2]) for c in tags["column"]]
        #: By trace: the columns that its case compares.
        self.cases = {}
        for case in (GOLDEN / "derived" / KEPT_AS.get(name, name)).glob("*.csv"):
            with open(case, newline="") as text:
                self.cases[case.stem] = next(reader(text))

    def select(self, sql):
        """The columns that are kept, with their types."""
        if not self.is_kept or self.name in KEPT_AS:
            return sql
        columns = ", ".join(f'CAST("{name}" AS {ty}) AS "{name}"' for name, ty in self.columns)
        return f"SELECT {columns} FROM (\n{sql}\n)"

    def empty(self):
        columns = ", ".join(f'CAST(NULL AS {ty}) AS "{name}"' for name, ty in self.columns)
        return f"SELECT {columns} WHERE false"


class Traces:
    """The traces, each in a schema, with the derived tables that the files make."""

    def __init__(self, made, extension, seconds, tree):
        self.duckdb, self.seconds = connection(extension), seconds
        derived = {name: file for file, name in tree.files.items() if kind_of(file) == "derived"}
        folders = sorted(f for f in made.glob("*/trace=*") if f.is_dir())
        kinds = defaultdict(list)
        self.duckdb.execute(f"CALL ccl_open('{folders[0].parent}', schema := 'kinds')")
        said = "SELECT table_name, column_name, data_type FROM duckdb_columns() " \
               "WHERE schema_name = 'kinds' AND column_name <> 'trace' ORDER BY column_index"
        for table, name, kind in self.duckdb.execute(said).fetchall():
            kinds[table].append((name, kind))
        self.duckdb.execute("DROP SCHEMA kinds CASCADE; CREATE SCHEMA changed")
        for file, name in tree.files.items():
            if kind_of(file) == "data":
                self.duckdb.execute(f"CREATE TABLE main.{name} AS {file.read_text()}")
        steps = {name: Step(file, name, header(file.read_text()),
                            kinds[name] if not name.startswith("_") else None)
                 for name, file in derived.items()}
        self.steps = {}
        while len(self.steps) < len(steps):
            for name, step in steps.items():
                if name not in self.steps and not step.inputs & steps.keys() - self.steps.keys():
                    self.steps[name] = step
        self.steps_of = {step.file: name for name, step in self.steps.items()}
        raw = {name for step in steps.values() for name in step.inputs} - steps.keys()
        raw &= kinds.keys() - set(tree.files.values())
        self.base, self.names = {}, {}
        for number, folder in enumerate(folders):
            # A trace without ranks has no derived tables.
            if (folder / "ranks").exists():
                self.add(f"t{number}", folder, {name: kinds[name] for name in raw})

    def add(self, schema, folder, raw):
        """Makes the tables of a trace."""
        self.duckdb.execute(f"CREATE SCHEMA {schema}")
        for name, columns in raw.items():
            table = f"{schema}.{name}"
            typed = ", ".join(f'"{column}" {ty}' for column, ty in columns)
            self.duckdb.execute(f"CREATE TABLE {table} ({typed})")
            if rows := self.stored(folder, name):
                self.duckdb.execute(f"INSERT INTO {table} BY NAME {rows}")
        base, wrong = {}, []
        for name, step in self.steps.items():
            self.path(schema)
            applies = self.applies(step)
            query = step.select(step.file.read_text()) if applies else step.empty()
            self.duckdb.execute(f"CREATE TABLE {schema}.{name} AS {query}")
            rows = self.duckdb.execute(f"FROM {schema}.{name}").fetchall()
            base[name] = (applies, rows, compared(rows))
            if step.is_kept and name not in KEPT_AS:
                stored = self.stored(folder, name)
                columns = ", ".join(f'"{column}"' for column, _ in step.columns)
                known = self.duckdb.execute(f"SELECT {columns} FROM ({stored})").fetchall() \
                    if stored else []
                if compared(known) != base[name][2]:
                    wrong.append(name)
        if wrong:
            print(f"{folder.parent.name} is not asked: {', '.join(wrong)}", file=sys.stderr)
            self.duckdb.execute(f"DROP SCHEMA {schema} CASCADE")
            return
        self.base[schema], self.names[schema] = base, folder.parent.name

    @staticmethod
    def stored(folder, name):
        """The query of a table that the program made; None where it has no rows."""
        files = [str(f) for f in folder.glob(f"{name}/**/*.parquet")]
        hive = ", hive_types = {'rank': BIGINT}" if files and "/rank=" in files[0] else ""
        return files and (
            f"SELECT * EXCLUDE (trace) FROM read_parquet({files}, union_by_name = true, "
            f"hive_partitioning = true{hive})")

    def path(self, *schemas):
        self.duckdb.execute(f"SET search_path = '{','.join([*schemas, 'main'])}'")

    def applies(self, step):
        """Whether a table is made of what the path shows."""
        if not step.columns:
            return True
        for name in step.requires:
            if not self.duckdb.execute(f"SELECT EXISTS (FROM {name})").fetchone()[0]:
                return False
        said = (f"SELECT coalesce(({check}), FALSE)" for check in step.checks)
        return all(self.duckdb.execute(query).fetchone()[0] for query in said)

    def rows(self, query):
        limit = Timer(self.seconds, self.duckdb.interrupt)
        limit.start()
        try:
            return self.duckdb.execute(query).fetchall()
        finally:
            limit.cancel()

    def is_same(self, schema, name, rows):
        _, before, sorted_before = self.base[schema][name]
        return rows == before or compared(rows) == sorted_before

    def differs(self, schema, name, query):
        """What sees that a trace has other rows of a step: `killed`, `seen`, or nothing."""
        self.path(schema)
        rows = self.rows(self.steps[name].select(query))
        if self.is_same(schema, name, rows):
            return None
        changed, queries, found = {name: rows}, {name: query}, None
        try:
            for at in list(self.steps)[list(self.steps).index(name):]:
                step = self.steps[at]
                if at != name:
                    if not step.inputs & changed.keys():
                        continue
                    self.path("changed", schema)
                    queries[at] = step.file.read_text() if self.applies(step) else step.empty()
                    rows = self.rows(step.select(queries[at]))
                    if self.is_same(schema, at, rows):
                        continue
                    changed[at] = rows
                if step.is_kept:
                    found = "seen"
                    if self.by_case(schema, step, rows):
                        return "killed"
                self.path(*["changed"] * (at != name), schema)
                self.duckdb.execute(
                    f"CREATE TABLE changed.{at} AS {step.select(queries[at])}")
        finally:
            for at in changed:
                self.duckdb.execute(f"DROP TABLE IF EXISTS changed.{at}")
        return found

    def by_case(self, schema, step, rows):
        """Whether a case of a table compares what differs."""
        wanted = step.cases.get(self.names[schema])
        if wanted is None:
            return False
        if step.name in KEPT_AS:
            return True
        names = [name for name, _ in step.columns]
        places = [names.index(name) for name in wanted if name in names]
        before = self.base[schema][step.name][1]
        return compared([[row[at] for at in places] for row in rows]) != \
            compared([[row[at] for at in places] for row in before])


class Subject:
    """A file whose mutants are asked: of traces that have cases first, then of the others."""

    def __init__(self, file, traces):
        self.traces, self.name = traces, traces.steps_of[file]
        with_cases = {trace for step in traces.steps.values() for trace in step.cases}
        asked = [schema for schema, base in traces.base.items() if base[self.name][0]]
        self.order = [[schema for schema in asked if (traces.names[schema] in with_cases) == has]
                      for has in (True, False)]

    def judge(self, sql):
        outcome = "same"
        for order in self.order:
            for at, schema in enumerate(order):
                try:
                    found = self.traces.differs(schema, self.name, sql)
                except REFUSED:
                    return "refused"
                except SLOW:
                    found, outcome = None, "slow"
                except duckdb.Error:
                    found = "killed"
                if found:
                    # It may show the next a difference too.
                    order.insert(0, order.pop(at))
                    outcome = found
                if found == "killed" or found and order is self.order[1]:
                    return found
            if outcome != "same":
                return outcome
        return outcome


def main():
    options = options_of(__doc__)
    tree = Tree(ROOT / "sql")
    traces = Traces(made_by(options), options.extension, options.seconds, tree)
    screen(tree, list(traces.steps_of), lambda file: Subject(file, traces), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
