"""The folder that everything happens in: a small job, its versions, and runs of the program."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from model import Tree

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "trace_collection" / "gloo-ddp-2rank"

# Where this start of the machine has its name, and the one of another start.
BOOT = Path("/proc/sys/kernel/random/boot_id")
OTHER_BOOT = b"00000000-0000-4000-8000-000000000000\n"

# What has lain there for two days, after a crash: nobody works on it any more.
ASIDE = (".answers-", ".ccl-sql.")
TWO_DAYS_S = 2 * 24 * 60 * 60


class Wrong(Exception):
    """A promise that does not hold."""


class Place:
    """Traces, and what the program makes of them when nothing crashes."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CCL_SQL_")}
        self.boot = BOOT.read_bytes() if BOOT.exists() else b""
        self.made = 0
        self.jobs = folder / "jobs"
        self.job, self.namesake = self.jobs / "job", self.jobs / "namesake" / "job"
        out = json.loads(self.done(folder, "list", "tables", "--format", "json"))
        tables_of = [t["table"] for t in out if t["kind"] != "view"]
        # Findings also tell how a trace came to its name.
        self.names = [name for name in tables_of if name != "ingest_log"]
        # The tables of a trace directory say its version, and rows are those of a clean ingest.
        self.versions: dict[frozenset[tuple[str, str]], str] = {}
        self.rows: dict[str, str] = {}
        self.clean: dict[str, Path] = {}
        job(self.job, 2)
        job(self.namesake, 2)
        job(self.jobs / "b", 3)
        self.other = {
            version: json.dumps(shortened(1, steps)).encode()
            for version, steps in (("one", 1), ("two", 2))
        }
        for version, path in (
            ("one", self.job),
            ("two", self.job),
            ("b", self.jobs / "b"),
            ("namesake", self.namesake),
        ):
            self.use(version)
            self.ingested(version, path)
        if len(self.versions) < len(self.clean) or len(set(self.rows.values())) < 3:
            raise Wrong("two versions are the same")

    def use(self, version: str) -> None:
        """Gives the job the second rank of a version; its time stays what it is."""
        path = self.job / "kineto_trace_1.json"
        if version in self.other and path.read_bytes() != self.other[version]:
            path.write_bytes(self.other[version])
        if version in self.other:
            then = 1_700_000_000 + len(self.other[version])
            os.utime(path, (then, then))

    def ingested(self, version: str, path: Path) -> None:
        """Ingests a job with nothing in the way."""
        root = self.new_folder("clean")
        self.done(root, "--data", "data", "ingest", str(path))
        (self.clean[version],) = (root / "data").iterdir()
        self.versions[tables(self.clean[version])] = version
        self.rows[version] = self.content(root, "data", path.name)

    def copy(self, version: str, data: Path) -> None:
        """Puts a trace into a data directory."""
        name = self.clean[version].name
        shutil.copytree(self.clean[version], data / name, copy_function=shutil.copy)

    def new_folder(self, name: str) -> Path:
        """An empty folder."""
        self.made += 1
        path = self.folder / f"{name}-{self.made}"
        path.mkdir()
        return path

    def same_folder(self, name: str) -> Path:
        """A folder under the same path each time."""
        path = self.folder / name
        path.mkdir()
        return path

    def run(self, root: Path, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *args],
            cwd=root,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )

    def done(self, root: Path, *args: str) -> str:
        """What a run says that must not fail."""
        ran = self.run(root, *args)
        if ran.returncode:
            said = ran.stderr.strip().splitlines()[:3]
            raise Wrong(f"`{' '.join(args)}` exits with {ran.returncode}: {' | '.join(said)}")
        return ran.stdout

    def listed(self, root: Path, data: str) -> set[str]:
        out = self.done(root, "--data", data, "list", "traces", "--format", "json")
        return {trace["trace"] for trace in json.loads(out)}

    def content(self, root: Path, data: str, trace: str) -> str:
        """Rows and a checksum over all rows of every table, but for the name of the trace."""
        parts = [
            f"SELECT '{t}' AS t, count(*) AS n, sum(hash(r)::HUGEINT)::VARCHAR AS h FROM "
            f"(SELECT * EXCLUDE (trace) FROM {t}) r"
            for t in self.names
        ]
        sql = " UNION ALL ".join(parts) + " ORDER BY 1"
        return self.done(root, "--data", data, "sql", sql, "--trace", trace, "--format", "csv")

    def world(self, root: Path, data: str) -> dict[str, str]:
        """The version of each trace that is there."""
        out = {}
        for path in sorted((root / data).glob("trace=*")):
            name = path.name.removeprefix("trace=")
            found = tables(path)
            # Other bytes may be the same rows.
            if (version := self.versions.get(found)) is None:
                try:
                    rows = self.content(root, data, name)
                except Wrong:
                    version = "refused"
                else:
                    same = [v for v, of in self.rows.items() if of == rows]
                    version = same[0] if same else "wrong"
                    if same:
                        self.versions[found] = version
            elif not (path / "manifest.json").exists():
                version = "refused"
            out[name] = version
        return out

    def write(self, tree: Tree, root: Path, is_kill: bool) -> None:
        """Makes a state: files of several names are links."""
        first: dict[int, Path] = {}
        for name, inode, is_folder in tree.walk():
            path = root / name
            if is_folder:
                path.mkdir()
            elif inode in first:
                os.link(first[inode], path)
            else:
                first[inode] = path
                data = tree.data(inode)
                is_lock = path.name == "lock"
                # After a loss of power the machine has started anew.
                path.write_bytes(
                    OTHER_BOOT if is_lock and not is_kill and data == self.boot else data
                )
            if path.name.startswith(ASIDE) and not is_folder:
                age(path)

    def drop(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)


def age(path: Path) -> None:
    """Makes a file two days old."""
    then = path.stat().st_mtime - TWO_DAYS_S
    os.utime(path, (then, then))


def tables(directory: Path) -> frozenset[tuple[str, str]]:
    """The files of a trace directory with their hashes; the manifest also holds its names."""
    files = (Path(folder) / f for folder, _, names in os.walk(directory) for f in names)
    return frozenset(
        (str(path.relative_to(directory)), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in files
        if not path.name.startswith(".") and path.name != "manifest.json"
    )


def left(folder: Path, stays: tuple[str, ...]) -> list[str]:
    """Hidden files below a folder, but for those that begin so and stay."""
    found = []
    for above, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            if name.startswith(".") and not is_of(name, stays):
                found.append(os.path.relpath(os.path.join(above, name), folder))
        folders[:] = [f for f in folders if not f.startswith(".")]
    return sorted(found)


def is_of(name: str, kinds: tuple[str, ...]) -> bool:
    """Whether a name is one of these, or begins with one that ends in a dash."""
    return any(name == kind or (kind.endswith("-") and name.startswith(kind)) for kind in kinds)


def job(folder: Path, steps: int) -> None:
    """A job of two ranks, with the communication of so many steps of a real one."""
    folder.mkdir(parents=True)
    for rank in (0, 1):
        name = f"kineto_trace_{rank}.json"
        (folder / name).write_text(json.dumps(shortened(rank, steps)))
    shutil.copy(SOURCE / "workload_card.yaml", folder)


def shortened(rank: int, steps: int) -> dict[str, object]:
    """A rank of the job."""
    trace: dict[str, object] = json.loads((SOURCE / f"kineto_trace_{rank}.json").read_text())
    events = trace["traceEvents"]
    assert isinstance(events, list)
    ranges = [e for e in events if e.get("cat") == "user_annotation"]
    marks = sorted(
        (e for e in ranges if e["name"].startswith("ProfilerStep")), key=lambda e: float(e["ts"])
    )
    end = float(marks[steps - 1]["ts"]) + float(marks[steps - 1]["dur"])
    heads = [e for e in events if e.get("ph") == "M"]
    trace["traceEvents"] = heads + [e for e in ranges if float(e["ts"]) < end]
    return trace
