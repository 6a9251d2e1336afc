#!/usr/bin/env python3
"""Changes one thing of the Rust code at a time, and says whether a test sees it.

    tests/mutants/rust.py [--only WORD] [--run WORD] [--kinds WORD] [--units] [--skip WORD]
        [--again FILE] [--sample SHARE]

All mutants are compiled into one program, each behind a switch (`rust_places.py`): a build for each
would take hours. `CCL_SQL_MUTANT` switches one on. Every test runs once without any, and says which
places it came by (`CCL_SQL_REACHED`): the others cannot see a mutant. Those that came by run with
it, the unit tests first, then the quickest, as long as `--patience` lasts. A mutant is killed where
one fails or does not end, lives where none does, and is not reached where no test came by. What
does not compile is left out. What lives is the same program in other words, which
`equivalent_rust.txt` says with a reason, or wants a test that kills it.

It needs tree-sitter and tree-sitter-rust, and makes its own copy of the tree and its own build.
"""

import argparse
import functools
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rust_places import File, one_line

ROOT = Path(__file__).resolve().parent.parent.parent
KNOWN = Path(__file__).with_name("equivalent_rust.txt")
FEATURES = ["--release", "--locked", "--no-default-features", "--features", "engine,object-stores"]
#: Of the program alone: half the time of a build, and no other answer.
PROFILE = ["--config", "profile.release.package.ccl-sql.opt-level=1",
           "--config", "profile.release.debug=false"]
#: Tests that ask for other things than answers, or much longer: faults, fuzzing, a store, growth.
NOT_ASKED = re.compile(r"^(cli::faults|readers::fuzz)\b")
#: Tests that run many cases, and where these lie: each case counts as a test (`CCL_SQL_CASE`).
CASES = {"sql::golden::every_case_gives_its_known_answer": "tests/golden",
         "readers::cases::every_case_gives_its_tables": "tests/ingest"}
#: Seconds after which a test without any mutant is left out.
LONGEST = 300
#: Seconds after which a test is timed without saying what it came by.
SLOW = 2
#: Unit tests up to this many seconds run together.
QUICK = 0.3
#: Tests that are asked one by one before cases of one folder run together.
FIRST = 6

SWITCH = """//! Which change is on, and which places a process came by.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

const UNREAD: u32 = u32::MAX;
const RECORDS: u32 = u32::MAX - 1;
static ON: AtomicU32 = AtomicU32::new(UNREAD);
static SEEN: [AtomicU32; COUNT] = [const { AtomicU32::new(0) }; COUNT];

/// Whether the change of a number is on.
#[inline]
pub fn on(number: u32) -> bool {
    let on = ON.load(Ordering::Relaxed);
    on == number || on >= RECORDS && asked(number)
}

#[cold]
fn asked(number: u32) -> bool {
    if ON.load(Ordering::Relaxed) == UNREAD {
        let of = |name| std::env::var_os(name);
        let on = of("CCL_SQL_MUTANT").and_then(|n| n.to_str()?.parse().ok()).unwrap_or(0);
        let records = of("CCL_SQL_REACHED").is_some();
        ON.store(if records { RECORDS } else { on }, Ordering::Relaxed);
        return self::on(number);
    }
    let (word, bit) = (&SEEN[number as usize / 32], 1 << (number % 32));
    // To read costs much less than to exchange, and most places are come by again and again.
    if word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
        let path = std::env::var_os("CCL_SQL_REACHED").unwrap_or_default();
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| file.write_all(format!("{number}\\n").as_bytes()));
    }
    false
}
"""


class Build:
    """A copy of the tree with all mutants, and its programs."""

    def __init__(self, work, target, only):
        self.tree, self.target = work / "tree", target
        self.dropped_file = work / "dropped.txt"
        listed = subprocess.run(["git", "ls-files", "-z", "src", "sql", "tests", "docs", "examples",
                                 "python", "Cargo.toml", "Cargo.lock", "README.md", "benches",
                                 "trace_collection", ".github", ".ci", "rustfmt.toml"],
                                cwd=ROOT, check=True, capture_output=True, text=True).stdout
        self.files, kept = [], set()
        for name in filter(None, listed.split("\0")):
            if not (ROOT / name).is_file():
                continue
            kept.add(name)
            if self.is_changed(name) and only.search(name):
                self.files.append(File(name, (ROOT / name).read_bytes()))
            elif name != "src/lib.rs":
                self.put(name, (ROOT / name).read_bytes(), (ROOT / name).stat().st_mode)
        for file in self.tree.rglob("*.rs"):
            if str(file.relative_to(self.tree)) not in kept | {"src/mutant.rs"}:
                file.unlink()
        dropped = self.dropped_file.read_text().split() if self.dropped_file.exists() else []
        self.all = [m for file in self.files for m in file.mutants()]
        for number, mutant in enumerate(self.all, 1):
            mutant.number = number
        self.dropped = {m.id for m in self.all} & set(dropped)
        self.said = [self.hash_of(name) for name in sorted(kept) if name.startswith("src/")]
        self.said.append(only.pattern)

    @staticmethod
    def is_changed(name):
        """Whether a file is code of the library, and not a test."""
        last = name.rsplit("/", 1)[-1]
        return (name.startswith("src/") and last.endswith(".rs") and "/extension/" not in name
                and last not in ("lib.rs", "main.rs", "build.rs", "tests.rs")
                # Stands in for object stores where they are left out.
                and name != "src/remote/missing.rs")

    @staticmethod
    def hash_of(name):
        """Stands for the code of a file, without its unit tests."""
        code = re.split(rb"#\[cfg\(test\)\]\n.*\bmod tests \{", (ROOT / name).read_bytes())[0]
        return hashlib.sha256(code).hexdigest()

    def recorded(self):
        """Stands for the code and its mutants: what was recorded of others is void."""
        said = self.said + [f"{m.number} {m.id}" for m in self.all if m.id not in self.dropped]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()

    def put(self, name, text, mode=0o644):
        """Writes a file where it changes: cargo goes by the time."""
        path = self.tree / name
        if not path.exists() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            path.chmod(mode & 0o777)

    def write(self):
        """Writes all files with their mutants; gives the places of these."""
        places = {}
        for file in self.files:
            file.drop(self.dropped)
            text, places[file.name] = file.written()
            self.put(file.name, text)
        self.put("src/mutant.rs", SWITCH.replace("COUNT", str(len(self.all) // 32 + 1)).encode())
        lib = (ROOT / "src/lib.rs").read_text()
        allowed = "warnings, arithmetic_overflow, unconditional_panic, overflowing_literals"
        self.put("src/lib.rs", f"#![allow({allowed})]\n{lib}\nmod mutant;\n".encode())
        return places

    def cargo(self, *words):
        """What cargo says, message for message."""
        env = {**os.environ, "CARGO_TARGET_DIR": str(self.target)}
        done = subprocess.run(["cargo", *words, *FEATURES, *PROFILE, "--message-format=json"],
                              cwd=self.tree, env=env, check=False, capture_output=True, text=True)
        messages = [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]
        return done.returncode, messages, done.stderr

    def check(self):
        """Leaves out what does not compile, until the rest does."""
        while True:
            places = self.write()
            code, messages, said = self.cargo("check", "--lib")
            if code == 0:
                break
            errors = [m["message"] for m in messages if m["reason"] == "compiler-message"]
            errors = [e for e in errors if e["level"] == "error" and e["spans"]]
            wrong = set()
            for error in errors:
                wrong |= self.blamed(error, places)
            if not wrong:
                said = "\n".join(e["rendered"] for e in errors[:5]) or said
                sys.exit(f"no mutant is to blame:\n{said}")
            self.dropped |= wrong
            print(f"{len(wrong)} mutants do not compile", file=sys.stderr, flush=True)
            self.dropped_file.write_text("\n".join(sorted(self.dropped)) + "\n")

    @staticmethod
    def blamed(error, places):
        """The mutants of the innermost place around an error, those within it, or the nearest."""
        spans = sorted(error["spans"], key=lambda s: not s["is_primary"])
        for is_within in (False, True):
            for span in spans:
                start, end = span["byte_start"], span["byte_end"]
                of = places.get(span["file_name"], [])
                if is_within:
                    found = [p for p in of if start <= p[0] and p[1] <= end]
                    if found:
                        return {m.id for _, _, mutants in found for m in mutants}
                else:
                    found = [p for p in of if p[0] <= start and end <= p[1]]
                    if found:
                        innermost = min(found, key=lambda p: p[1] - p[0])
                        return {m.id for m in innermost[2]}
        for span in spans:
            of = places.get(span["file_name"], [])
            if of:
                nearest = min(of, key=lambda p: abs(p[0] - span["byte_start"]))
                return {m.id for m in nearest[2]}
        return set()

    def programs(self, units_alone):
        """Compiles; gives the unit tests, the integration tests and the program."""
        code, messages, said = self.cargo("test", "--no-run", *["--lib"] * units_alone)
        if code:
            sys.exit(said)
        of = {m["target"]["kind"][0]: m["executable"] for m in messages
              if m["reason"] == "compiler-artifact" and m.get("executable")}
        return of["lib"], of.get("test"), of.get("bin")


@functools.cache
def said_of(name):
    """Stands for a file with tests; None where there is none."""
    path = ROOT / name
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else None


def limited():
    """What a mutant may take before it is stopped: 8 GB of memory, files of 1 GB."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Tests:
    """The tests, how long each takes, and what each comes by."""

    def __init__(self, build, work, units_alone, skip):
        self.build, self.work, self.skip = build, work, skip
        self.units, self.whole, self.program = build.programs(units_alone)
        self.seconds, self.reach = {}, {}

    def listed(self, program):
        out = subprocess.run([program, "--list"], check=True, capture_output=True, text=True,
                             cwd=self.build.tree).stdout
        return re.findall(r"^(.*): test$", out, re.M)

    def all(self):
        """Each test as (program, name, cases)."""
        out = [("unit", name, "") for name in self.listed(self.units)]
        for name in self.listed(self.whole) if self.whole else []:
            if self.skip and self.skip in name:
                continue
            if name in CASES:
                tree = self.build.tree
                files = (f.relative_to(tree) for f in (tree / CASES[name]).rglob("*.*"))
                # `tests/golden/METRIC`, or a folder of that; what lies deeper is of one case.
                cases = {"/".join(f.parent.parts[:4]) for f in files if (tree / f).is_file()}
                out += [("it", name, f"/{case}/") for case in sorted(cases)]
            elif not NOT_ASKED.search(name):
                out.append(("it", name, ""))
        return out

    def run(self, tests, patience, **variables):
        """Whether tests of one program pass, and the seconds that they took."""
        program = self.units if tests[0][0] == "unit" else self.whole
        scratch = tempfile.mkdtemp(dir=self.work)
        env = {**os.environ, "CARGO_MANIFEST_DIR": str(self.build.tree), "RUST_BACKTRACE": "0",
               "CARGO_BIN_EXE_ccl-sql": str(self.program), "TMPDIR": scratch,
               "CCL_SQL_FIRST": "1", **variables}
        # With it the golden test asks metrics alone.
        env.pop("CCL_SQL_PROGRAM", None)
        if tests[0][2]:
            env["CCL_SQL_CASE"] = tests[0][2]
        begin = time.monotonic()
        process = subprocess.Popen([program, "--exact", *(name for _, name, _ in tests)], env=env,
                                   cwd=self.build.tree, preexec_fn=limited,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            passes = process.wait(patience) == 0
        except subprocess.TimeoutExpired:
            passes = False
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        shutil.rmtree(scratch, ignore_errors=True)
        return passes, time.monotonic() - begin

    def said_by(self, test):
        """Stands for the file of a test: what was recorded of another text of it is void."""
        root = "src" if test[0] == "unit" else "tests/it"
        parts = test[1].split("::")
        parts = parts[:parts.index("tests")] if test[0] == "unit" else parts[:-1]
        for n in range(len(parts), 0, -1):
            for end in ("/tests.rs", ".rs", "/mod.rs"):
                if said := said_of("/".join([root, *parts[:n]]) + end):
                    return said
        return ""

    def record(self, jobs):
        """Runs every test once; what an earlier run said of the same code is as good."""
        file, key = self.work / "reached.jsonl", self.build.recorded()
        lines = file.read_text().splitlines() if file.exists() else []
        if lines[:1] != [key]:
            file.write_text(key + "\n")
        known = {}
        for test, seconds, reach, said in map(json.loads, lines[1:] * (lines[:1] == [key])):
            if said == self.said_by(test):
                known[tuple(test)] = seconds, reach

        def one(test):
            with tempfile.NamedTemporaryFile("r", dir=self.work) as place:
                passes, seconds = self.run([test], LONGEST, CCL_SQL_REACHED=place.name)
                reach = [int(line) for line in place.read().split()]
            if not passes or seconds > SLOW:
                # To say what it came by takes a loop several times as long: too long for some, of
                # which what they came by until then counts.
                passes, seconds = self.run([test], LONGEST)
            reach = reach if passes else None
            with open(file, "a") as out:
                out.write(json.dumps([test, seconds, reach, self.said_by(test)]) + "\n")
            if not passes:
                print(f"left out: {' '.join(test)} ({seconds:.0f} s)", file=sys.stderr, flush=True)
            return test, (seconds, reach)

        with ThreadPoolExecutor(jobs) as pool:
            known.update(pool.map(one, (test for test in self.all() if test not in known)))
        for test, (seconds, reach) in known.items():
            if reach is not None:
                self.seconds[test], self.reach[test] = seconds, set(reach)
        self.begins = min(self.seconds.values(), default=0)

    def verdict(self, mutant, patience, kills):
        """(killed, by what), or (lives, how many of how many tests ran)."""
        tests = [t for t, reach in self.reach.items() if mutant.number in reach]
        if not tests:
            return "not reached", ""
        quick = [t for t in tests if t[0] == "unit" and self.seconds[t] <= QUICK]
        rest = [t for t in tests if t not in quick]
        # A test that killed others may kill this one, those of the file above all; so may one whose
        # name has a word of its path.
        of, all_of = kills[mutant.file], kills[""]
        words = set(re.split(r"\W|_", mutant.file.removesuffix(".rs"))) - {"src", "mod"}
        rest.sort(key=lambda t: self.seconds[t] / (
            1 + 4 * of[t] + all_of[t] + 4 * len(words & set(re.split(r"\W|_", t[1])))))
        spent, asked = 0, 0
        for some in [quick, *([t] for t in rest[:FIRST]), *together(rest[FIRST:])]:
            if not some:
                continue
            # Together they begin once.
            usual = self.begins + sum(self.seconds[t] - self.begins for t in some)
            if asked and spent + usual > patience:
                continue
            passes, seconds = self.run(as_one(some), 5 * usual + 2,
                                       CCL_SQL_MUTANT=str(mutant.number))
            asked, spent = asked + len(some), spent + seconds
            if not passes:
                if len(some) == 1:
                    of.update(some)
                    all_of.update(some)
                return "killed", "unit tests" if some is quick else some[0][1]
        return "lives", f"{asked} of {len(tests)} tests"


def together(tests):
    """Tests in the order in which they run: cases of one folder of readers at once, where they lie
    beside each other on several threads; the others alone."""
    folders = defaultdict(list)
    for test in tests:
        if test[2].startswith("/tests/ingest/"):
            folders[test[2].split("/")[3]].append(test)
    return [*folders.values(), *([t] for t in tests if not t[2].startswith("/tests/ingest/"))]


def as_one(tests):
    """What is run for tests that run together: cases are words of one test."""
    if not tests[0][2]:
        return tests
    program, name, _ = tests[0]
    return [(program, name, ",".join(case for _, _, case in tests))]


def folder_of(name):
    """The folder below `src`, of some the one below that."""
    parts = name.removesuffix(".rs").split("/")[1:]
    return "/".join(parts[:2] if parts[0] in ("readers", "spool", "ingest") else parts[:1])


def table(build, outcomes, lines):
    """The outcomes by folder, as lines of Markdown."""
    counts = defaultdict(Counter)
    for m in build.all:
        counts[folder_of(m.file)]["dropped" if m.id in build.dropped else "all"] += 1
    for m, outcome in outcomes:
        counts[folder_of(m.file)][outcome] += 1
        counts[folder_of(m.file)]["asked"] += 1
    counts["all"] = sum(counts.values(), Counter())
    lines += ["| folder | compiled | dropped | asked | not reached | killed | equivalent | live | "
              "killed of the rest |", "| --- |" + " --- |" * 8]
    for name, of in counts.items():
        rest = of["asked"] - of["equivalent"]
        share = f"{100 * of['killed'] / rest:.1f} %" if rest else ""
        lines.append(f"| {name} | {of['all']} | {of['dropped']} | {of['asked']} | "
                     f"{of['not reached']} | {of['killed']} | {of['equivalent']} | {of['lives']} | "
                     f"{share} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="build the mutants of files that match this")
    parser.add_argument("--run", default="", help="ask for those of files that match this")
    parser.add_argument("--kinds", default="", help="ask for those of kinds that match this")
    parser.add_argument("--again", type=Path, help="what an earlier run said: what lived there")
    parser.add_argument("--sample", type=float, default=1.0, help="share of the mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--units", action="store_true", help="ask the unit tests alone")
    parser.add_argument("--skip", default="", help="ask no integration tests of this name")
    parser.add_argument("--patience", type=float, default=20, help="seconds for one mutant")
    parser.add_argument("--list", action="store_true", help="say the mutants, run none")
    parser.add_argument("--out", type=Path, help="a Markdown file that the table is added to")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ccl-sql/mutants"
    parser.add_argument("--work", type=Path, default=cache, help="the copy, and what is kept")
    parser.add_argument("--target", type=Path, help="cargo's folder; else in that of --work")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    build = Build(options.work, options.target or options.work / "target",
                  re.compile(options.only))
    known = {line.split()[0] for line in KNOWN.read_text().splitlines()
             if line.strip() and not line.startswith("#")} if KNOWN.exists() else set()
    chosen, wanted = random.Random(options.seed), re.compile(options.run)
    kinds = re.compile(options.kinds)
    mutants = [m for m in build.all if wanted.search(m.file) and kinds.search(m.kind)]
    mutants = [m for m in mutants if chosen.random() < options.sample]
    if options.again:
        lived = {line.split()[0] for line in options.again.read_text().splitlines() if line.strip()}
        mutants = [m for m in mutants if m.id in lived]
    if options.list:
        for m in mutants:
            print(m.id, f"{m.file}:{m.line}", m.kind, one_line(m.before), "->", one_line(m.after))
        return 0
    engine = subprocess.run([ROOT / "tests/engine.sh"], check=True, capture_output=True, text=True)
    os.environ["DUCKDB_LIB_DIR"] = os.environ["LD_LIBRARY_PATH"] = engine.stdout.strip()
    build.check()
    tests = Tests(build, options.work, options.units, options.skip)
    tests.record(options.jobs)
    outcomes, kills = [], defaultdict(Counter)
    with ThreadPoolExecutor(options.jobs) as pool:

        def one(m):
            return m, *tests.verdict(m, options.patience, kills)

        for m, outcome, why in pool.map(one, (m for m in mutants if m.id not in build.dropped)):
            if outcome != "killed" and m.id in known:
                outcome = "equivalent"
            outcomes.append((m, outcome))
            with open(options.work / "log.txt", "a") as log:
                log.write(f"{m.id} {m.file}:{m.line} {m.kind} {outcome} ({why})\n")
            if outcome in ("lives", "not reached"):
                print(f"{m.id} {m.file}:{m.line} {m.kind} {outcome} {why}\n"
                      f"  - {one_line(m.before)}\n  + {one_line(m.after)}", flush=True)
    lines = table(build, outcomes, [])
    print("\n".join(lines))
    if options.out:
        with open(options.out, "a") as out:
            out.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
