#!/usr/bin/env python3
"""Readers of traces that are replaced meanwhile: each sees one version of each trace.

    run.py [BINARY] [--seconds N] [--readers N] [--seed N]

A job has two versions, A and B, whose times differ. Two writers ingest it again and again, each
under a name of its own, now as A, now as B. Readers ask meanwhile: metrics, SQL and a report, of
one trace or of both, without kept answers and with them.

The promise: every answer is that of A or that of B for each trace, as a quiet data directory gives
it, with exit code 0; and when all is over, an ingest leaves nothing behind but the traces.
Prints counts, and each fault with what differed; exit code 1 when there was one.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "trace_collection" / "llama-tiny-fsdp2-tp2-4"
TRACES = ("one", "two")
VERSIONS = ("A", "B")
FACTOR = 1.5
SHOWN = 20
# Seconds after which a command hangs.
HANGS = 300

SQL = """
SELECT trace, (SELECT count(*) FROM host_events h WHERE h.trace = t.trace) AS host,
    (SELECT sum(dur_ns) FROM host_events h WHERE h.trace = t.trace) AS host_ns,
    (SELECT sum(dur_ns) FROM device_events d WHERE d.trace = t.trace) AS device_ns,
    (SELECT max(ts_ns + dur_ns) - min(ts_ns) FROM device_events d WHERE d.trace = t.trace) AS ns,
    (SELECT string_agg(sha256, ' ' ORDER BY sha256) FROM sources s WHERE s.trace = t.trace) AS files
FROM (SELECT DISTINCT trace FROM host_events) t ORDER BY trace
"""

# The rows of a metric beside those of a table.
JOINED = """
SELECT w.*, (SELECT sum(dur_ns) FROM device_events d WHERE d.trace = w.trace) AS device_ns,
    c.* EXCLUDE (trace)
FROM wall_time_s w JOIN coll_call_num c USING (trace) ORDER BY trace
"""

# What is asked, of which traces.
QUESTIONS = [
    ("metrics", ("metric", "--all", "--trace", "one", "--format", "csv"), ("one",)),
    ("sql", ("sql", SQL, "--format", "csv"), TRACES),
    ("report", ("report", "two"), ("two",)),
    ("metric", ("metric", "wall_time_s", "exposed_comm_by_group", "--format", "json"), TRACES),
    ("sql of one", ("sql", SQL, "--trace", "two", "--format", "csv"), ("two",)),
    ("metrics in sql", ("sql", JOINED, "--format", "csv"), TRACES),
    ("page", ("report", "one", "--format", "html"), ("one",)),
]


def run(program, data, args, folder):
    """Runs the program; exit code, output, messages."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CCL_SQL_DATA")}
    try:
        done = subprocess.run([program, "--data", str(data), *map(str, args)], capture_output=True,
                              stdin=subprocess.DEVNULL, env=environment, cwd=folder,
                              timeout=HANGS)
    except subprocess.TimeoutExpired:
        return -1, b"", "no end after %d s" % HANGS
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def make_versions(folder):
    """The job as it is, and the same job where everything takes longer."""
    shutil.copytree(SOURCE, folder / "A")
    shutil.copytree(SOURCE, folder / "B")
    for path in sorted((folder / "B").glob("rank*_trace.json")):
        trace = json.loads(path.read_text())
        for event in trace["traceEvents"]:
            for key in ("ts", "dur"):
                if key in event:
                    event[key] = round(event[key] * FACTOR, 3)
        path.write_text(json.dumps(trace))


def use(jobs, versions, trace, version):
    """Puts a version of the job into the folder of a trace."""
    new, old, job = jobs / (trace + ".new"), jobs / (trace + ".old"), jobs / trace
    shutil.copytree(versions / version, new)
    if job.exists():
        job.rename(old)
    new.rename(job)
    shutil.rmtree(old, ignore_errors=True)


class Trial:
    """What writers and readers share."""

    def __init__(self, program, folder, seconds, seed):
        self.program, self.folder, self.seconds, self.seed = program, folder, seconds, seed
        self.versions, self.jobs, self.data = folder / "versions", folder / "jobs", folder / "data"
        for path in (self.versions, self.jobs):
            path.mkdir()
        make_versions(self.versions)
        self.expected = {}
        self.lock = threading.Lock()
        self.counts, self.seen, self.faults = {}, {}, []

    def ingest(self, data, trace, version):
        use(self.jobs, self.versions, trace, version)
        return run(self.program, data, ["ingest", self.jobs / trace, "--name", trace, "-q"],
                   self.folder)

    def expect(self):
        """The answers of a quiet data directory, for each version of each trace."""
        data = self.folder / "quiet"
        for state in itertools.product(VERSIONS, repeat=len(TRACES)):
            for trace, version in zip(TRACES, state):
                code, _, err = self.ingest(data, trace, version)
                if code:
                    sys.exit("the job cannot be ingested: " + err)
            for what, args, of in QUESTIONS:
                versions = tuple(v for t, v in zip(TRACES, state) if t in of)
                known = self.expected.setdefault(what, {})
                if versions in known:
                    continue
                code, out, err = run(self.program, data, [*args, "-q", "--no-cache"], self.folder)
                if code:
                    sys.exit("%s fails where nothing else runs: %s" % (what, err))
                known[versions] = out
        for what, known in self.expected.items():
            if len(set(known.values())) != len(known):
                sys.exit("%s is the same of both versions: it tells nothing" % what)
        for trace, version in zip(TRACES, VERSIONS):
            self.ingest(self.data, trace, version)

    def count(self, what, seen=None):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
            if seen is not None:
                self.seen.setdefault(what, set()).add(seen)

    def fault(self, text):
        with self.lock:
            self.faults.append(text)
            if len(self.faults) <= SHOWN:
                print("FAULT %s" % text, flush=True)

    def write(self, trace, until):
        for version in itertools.cycle(VERSIONS):
            if time.monotonic() > until:
                return
            code, _, err = self.ingest(self.data, trace, version)
            self.count("ingest of " + trace)
            if code:
                self.fault("ingest of %s: exit code %d: %s" % (trace, code, err.strip()[:400]))

    def read(self, number, until):
        drawn = random.Random("%d %d" % (self.seed, number))
        for turn in itertools.count(number):
            if time.monotonic() > until:
                return
            what, args, _ = QUESTIONS[turn % len(QUESTIONS)]
            kept = drawn.random() < 0.25
            code, out, err = run(self.program, self.data,
                                 [*args, "-q", *([] if kept else ["--no-cache"])], self.folder)
            known = self.expected[what]
            seen = next((state for state, text in known.items() if text == out), None)
            self.count(what, seen)
            if code or seen is None:
                self.fault("%s%s: exit code %d, %s: %s" % (
                    what, " (kept)" if kept else "", code,
                    "a known answer" if seen else self.differs(known, out), err.strip()[:400]))

    def differs(self, known, out):
        """Where an answer differs from the nearest one of a version."""
        lines = out.decode(errors="replace").splitlines()

        def odd(text):
            return [(a, b) for a, b in itertools.zip_longest(
                lines, text.decode(errors="replace").splitlines()) if a != b]
        state, nearest = min(((s, odd(t)) for s, t in known.items()), key=lambda p: len(p[1]))
        got, wanted = nearest[0]
        return "%d lines differ from %s, first %.200r in place of %.200r" % (
            len(nearest), "".join(state), got, wanted)

    def left(self):
        """What lies in the data directory after a last ingest that is no trace."""
        for trace in TRACES:
            code, _, err = self.ingest(self.data, trace, "A")
            if code:
                self.fault("last ingest of %s: %s" % (trace, err.strip()[:400]))
        wanted = {"trace=" + trace for trace in TRACES} | {".answers"}
        for path in sorted(self.data.iterdir()):
            if path.name not in wanted:
                self.fault("left behind: %s" % path.name)
        for path in sorted(self.data.rglob("*")):
            if path.name.startswith(".") and path.name != ".answers":
                self.fault("left behind: %s" % path.relative_to(self.data))
        for what, args, of in QUESTIONS:
            code, out, err = run(self.program, self.data, [*args, "-q"], self.folder)
            if code or out != self.expected[what][("A",) * len(of)]:
                self.fault("%s after all: exit code %d: %s" % (what, code, err.strip()[:400]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary", nargs="?", default=str(PROJECT / "target/release/ccl-sql"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ccl-readers-") as folder:
        trial = Trial(str(Path(args.binary).resolve()), Path(folder), args.seconds, args.seed)
        trial.expect()
        until = time.monotonic() + args.seconds
        threads = [threading.Thread(target=trial.write, args=(t, until)) for t in TRACES]
        threads += [threading.Thread(target=trial.read, args=(n, until))
                    for n in range(args.readers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        trial.left()
    for what, count in sorted(trial.counts.items()):
        seen = sorted("".join(state) for state in trial.seen.get(what, ()))
        print("%-16s %6d%s" % (what, count, "  versions seen: " + " ".join(seen) if seen else ""))
    print("%d faults in %.0f s, %d readers, %d writers, seed %d" % (
        len(trial.faults), args.seconds, args.readers, len(TRACES), args.seed))
    return 1 if trial.faults else 0


if __name__ == "__main__":
    sys.exit(main())
