"""The commands that crash, and what may be there before, between and after."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from model import Model, State, Tree
from place import ASIDE, Place
from record import Entries, record

World = dict[str, str]

# Folders for work in progress: after a loss of power they are removed unread.
WORK = (".tmp-", ".ccl-sql-spill-")

# Hidden files that stay where another job was killed: files that were read wait for its ingest.
READ = (".answers", ".tmp-")

# Where every answer is kept nothing is opened that removes the spill of a killed command.
ASKED = (".answers", ".ccl-sql-spill-")

# An operation that a file system refuses: the exchange of two names.
NO_EXCHANGE = "renameat2:error=EINVAL"


@dataclass(frozen=True)
class Command:
    """A command that crashes. Words and worlds name jobs and versions of `Place`."""

    name: str
    given: tuple[str, ...]
    # What a crash may leave; the last one is what the command leaves. None: no trace.
    worlds: tuple[World, ...]
    # The version of the job at the start, the one at the command, and further traces.
    start: str | None = "two"
    at: str = "two"
    beside: bool = False
    # The command that comes next, and what must be there then.
    next: tuple[str, ...] = ("ingest", "JOB")
    then: tuple[World, ...] = ({"job": "two"},)
    # A file that the command writes; whether it is there before, and the same each time.
    output: str | None = None
    replaces: bool = False
    same: bool = True
    # A name that finds a trace when it is called so.
    alias: tuple[str, str] | None = None
    data: str = "data"
    inject: str | None = None
    # Whether nothing is promised of a loss of power but that what is lost is refused.
    scratch: bool = False
    prepared: Callable[[Place, Path], None] | None = None
    # Whether files hold the path of the folder: then each state is made in the same.
    fixed: bool = False
    # Hidden files that may stay.
    stays: tuple[str, ...] = (".answers",)

    def full(self, place: Place, root: Path, words: tuple[str, ...]) -> list[str]:
        """The words of a command line."""
        paths = {
            "JOB": str(place.job),
            "B": str(place.jobs / "b"),
            "NAMESAKE": str(place.namesake),
            "PLAN": next((str(p) for p in (root / self.data).glob(".plan-*")), ""),
        }
        return ["--data", self.data, *(paths.get(word, word) for word in words)]

    def prepare(self, place: Place, root: Path) -> None:
        """Makes what is there before the command."""
        if self.start:
            place.copy(self.start, root / self.data)
        if self.beside:
            place.copy("b", root / self.data)
        if self.prepared:
            self.prepared(place, root)
        if self.output and self.replaces:
            (root / self.output).parent.mkdir()
            (root / self.output).write_bytes(b"before")
        place.use(self.at)

    def signature(self, tree: Tree, is_kill: bool) -> object:
        """What two states have in common in which the program finds the same: everything, or after
        a loss of power all but the inside of folders for work.
        """
        out: list[tuple[str, str]] = []

        def look(folder: int, prefix: str) -> None:
            for name, inode in sorted(tree.entries[folder].items()):
                path = prefix + name
                if inode not in tree.entries:
                    is_aside = name.startswith(ASIDE) and not is_kill
                    out.append((path, "" if is_aside else tree.digest(inode)))
                elif name.startswith(WORK) and not is_kill:
                    out.append((path, "with a lock" if "lock" in tree.entries[inode] else "/"))
                else:
                    out.append((path, "/"))
                    look(inode, path + "/")

        look(0, "")
        return tuple(out)


def of_other_sql(_: Place, root: Path) -> None:
    """Says that the derived tables are of other SQL."""
    path = root / "data" / "trace=job" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["derived_sha256"] = "0" * 64
    path.write_text(json.dumps(manifest))


def killed_ingest(place: Place, root: Path) -> None:
    """Leaves what an ingest does that is killed when it has read every file."""
    place.use("two")
    recording = record(
        [place.program, "--data", "data", "ingest", str(place.job)],
        root,
        place.folder / "strace",
        None,
        place.env,
    )
    shutil.rmtree(root / "data")
    model = Model(recording)
    read = [
        i
        for i, op in enumerate(recording.ops)
        if isinstance(op, Entries) and any(name == "records.json" for _, name, _ in op.changes)
    ][1]
    place.write(model.tree(State(read + 1, True)), root, True)


def steps(place: Place, root: Path, count: int) -> None:
    """Plans an ingest, and runs so many of its steps."""
    place.use("two")
    plan = place.done(root, "--data", "data", "plan", str(place.job)).strip()
    for words in STEPS[:count]:
        place.done(root, "--data", "data", "task", words[0], plan, *words[1:])


def planned(name: str, given: tuple[str, ...], done: int, last: World) -> Command:
    """A step of a plan that crashes; then the same plan is made again and all of it is done."""
    return Command(
        name,
        given,
        ({}, last) if last else ({},),
        start=None,
        next=("PLAN",),
        fixed=True,
        stays=(".answers", ".plan-"),
        prepared=(lambda place, root: steps(place, root, done)) if done >= 0 else None,
    )


# The steps of a plan, one task each.
STEPS = (
    ("read", "0/1"),
    ("layout",),
    ("join", "0/1"),
    ("derive", "0/1"),
    ("groups", "0/1"),
    ("place", "0/1"),
    ("match", "0/1"),
    ("collect", "0/1"),
    ("finish",),
)

REPORT = ("report", "job", "-o")
EXPORT = ("export", "job")

COMMANDS = (
    Command("ingest", ("ingest", "JOB"), ({}, {"job": "two"}), start=None),
    Command("ingest deeper", ("ingest", "JOB"), ({}, {"job": "two"}), start=None, data="a/b/data"),
    Command(
        "ingest again",
        ("ingest", "JOB"),
        ({"job": "one"}, {"job": "two"}),
        start="one",
    ),
    Command(
        "no exchange",
        ("ingest", "JOB"),
        ({"job": "one"}, {}, {"job": "two"}),
        start="one",
        inject=NO_EXCHANGE,
        next=("ingest", "B"),
        then=({"job": "one", "b": "b"}, {"job": "two", "b": "b"}),
        stays=READ,
    ),
    Command(
        "ingest goes on",
        ("ingest", "JOB"),
        ({}, {"job": "two"}),
        start=None,
        prepared=killed_ingest,
    ),
    Command(
        "ingest beside",
        ("ingest", "B"),
        ({}, {"b": "b"}),
        start=None,
        prepared=killed_ingest,
        then=({"job": "two"}, {"job": "two", "b": "b"}),
        stays=READ,
    ),
    Command(
        "namesake",
        ("ingest", "NAMESAKE"),
        ({"job": "two"}, {"jobs.job": "two"}, {"jobs.job": "two", "namesake.job": "namesake"}),
        next=("ingest", "NAMESAKE"),
        then=({"jobs.job": "two", "namesake.job": "namesake"},),
        alias=("jobs.job", "job"),
    ),
    Command("derived anew", ("ingest", "JOB"), ({"job": "two"},), prepared=of_other_sql),
    Command(
        "remove",
        ("remove", "job"),
        ({"job": "two", "b": "b"}, {"b": "b"}),
        beside=True,
        then=({"job": "two", "b": "b"},),
    ),
    Command(
        "rename",
        ("rename", "job", "kept"),
        ({"job": "two"}, {"kept": "two"}),
        then=({"job": "two"}, {"kept": "two"}),
        alias=("kept", "job"),
    ),
    Command(
        "metric",
        ("metric", "--all", "--format", "json"),
        ({"job": "two", "b": "b"},),
        beside=True,
        next=("metric", "--all", "--format", "json"),
        then=({"job": "two", "b": "b"},),
        stays=ASKED,
    ),
    Command(
        "report",
        (*REPORT, "out/report.html"),
        ({"job": "two"},),
        output="out/report.html",
        next=(*REPORT, "out/report.html", "--force"),
        stays=ASKED,
    ),
    Command(
        "workbook",
        (*REPORT, "out/book.xlsx", "--force"),
        ({"job": "two"},),
        output="out/book.xlsx",
        replaces=True,
        next=(*REPORT, "out/book.xlsx", "--force"),
        stays=ASKED,
    ),
    Command(
        "timeline",
        (*EXPORT, "-o", "out/job.pftrace"),
        ({"job": "two"},),
        output="out/job.pftrace",
        next=(*EXPORT, "-o", "out/job.pftrace", "--force"),
        stays=ASKED,
    ),
    Command(
        "database",
        (*EXPORT, "--duckdb", "out.duckdb", "--table", "steps", "--table", "mfu"),
        ({"job": "two"},),
        output="out.duckdb",
        same=False,
        next=(*EXPORT, "--duckdb", "out.duckdb", "--table", "steps", "--force"),
        stays=ASKED,
    ),
    planned("plan", ("plan", "JOB"), -1, {}),
    planned("task read", ("task", "read", "PLAN", "0/1"), 0, {}),
    planned("task layout", ("task", "layout", "PLAN"), 1, {}),
    planned("task join", ("task", "join", "PLAN", "0/1"), 2, {}),
    planned("task derive", ("task", "derive", "PLAN", "0/1"), 3, {}),
    planned("task collect", ("task", "collect", "PLAN", "0/1"), 7, {}),
    planned("task finish", ("task", "finish", "PLAN"), 8, {"job": "two"}),
    Command(
        "no sync",
        ("ingest", "JOB", "--no-sync"),
        ({"job": "one"}, {"job": "two"}),
        start="one",
        scratch=True,
    ),
)
