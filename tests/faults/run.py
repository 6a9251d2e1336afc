#!/usr/bin/env python3
"""Faults of an ingest: what a kill, a full disk, a bad disk or an odd folder may leave behind.

    run.py [BINARY] [--only WORD]... [--kills N] [--seed N]

The promise: after any fault the data directory is as before or complete, a metric answers from one
of the two, and the next ingest makes what a clean one makes, without reading again what was read
whole. Prints a line per fault and a summary; exit code 1 when one failed. What needs root (mounts)
or a C compiler is skipped with the reason where it is missing.
"""

import argparse
import gzip
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCE = PROJECT / "trace_collection" / "llama-tiny-fsdp2-tp2-4"
RANKS = 8
CHANGED = 3
MEMORY_MB = 300
METRIC = ["metric", "coll_call_num", "--trace", "job", "--format", "value", "-q"]


class Wrong(Exception):
    """What a fault showed."""


class Skip(Exception):
    """Why a fault cannot be made here."""


def check(condition, text):
    if not condition:
        raise Wrong(text)


class Ran:
    """What a run of the program gave, with its peak memory."""

    def __init__(self, code, out, err, seconds, peak_mb):
        self.code, self.out, self.err = code, out, err
        self.seconds, self.peak_mb = seconds, peak_mb

    def codes(self):
        return re.findall(r"^error\[([a-z-]+)\]", self.err, re.M)

    def done(self):
        check(self.code == 0, "exit code %d: %s" % (self.code, self.err.strip()[:400]))
        return self

    def ranks_read(self):
        """Ranks that the summary says were read."""
        found = re.search(r"(\d+) ranks?(?: \((\d+) read\))?,", self.err)
        check(found, "no summary in %r" % self.err[:300])
        if "unchanged" in self.err:
            return 0
        return int(found.group(2) if found.group(2) else found.group(1))


class Running:
    """A run that was started."""

    def __init__(self, program, data, args, env=None):
        self.files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        environment = {k: v for k, v in os.environ.items() if k != "CCL_SQL_DATA"}
        environment.update(env or {})
        self.started = time.monotonic()
        self.child = subprocess.Popen(
            [program, "--data", str(data)] + [a if isinstance(a, bytes) else str(a) for a in args],
            stdin=subprocess.DEVNULL, stdout=self.files[0], stderr=self.files[1], env=environment,
            cwd=tempfile.gettempdir())

    def kill(self):
        self.child.send_signal(signal.SIGKILL)

    def ended(self):
        return self.child.poll() is not None

    def wait(self, timeout=600):
        """Waits with `wait4`, which says how much memory this one child took."""
        timer = threading.Timer(timeout, self.kill)
        timer.start()
        try:
            if self.child.returncode is None:
                _, status, usage = os.wait4(self.child.pid, 0)
                self.child.returncode = os.waitstatus_to_exitcode(status)
                peak = usage.ru_maxrss / 1024
            else:
                peak = 0
        finally:
            late = not timer.is_alive()
            timer.cancel()
        check(not late, "hangs: no end after %d s" % timeout)
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Ran(self.child.returncode, texts[0], texts[1], time.monotonic() - self.started, peak)


class Place:
    """The temporary folder of all tests: a job, the same job with a rank changed, and what clean
    ingests of both make."""

    def __init__(self, program, folder, kills, seed):
        self.program, self.folder, self.kills, self.seed = program, folder, kills, seed
        self.job = folder / "job"
        self.versions = folder / "versions"
        self.versions.mkdir()
        self.made = 0
        make = [sys.executable, PROJECT / "benches" / "make.py", SOURCE]
        subprocess.run(make + [self.job, "--ranks", str(RANKS), "--megabytes", "10"], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(make + [self.versions / "other", "--ranks", str(RANKS), "--megabytes", "8"],
                       check=True, stdout=subprocess.DEVNULL)
        name = "rank%d_trace.json" % CHANGED
        self.changing = self.job / name
        shutil.copy2(self.changing, self.versions / "old")
        os.replace(self.versions / "other" / name, self.versions / "new")
        shutil.rmtree(self.versions / "other")
        self.tables = None
        # Of each version: a data directory, its tables, its metric, the seconds that it took.
        self.clean = {}
        for version in ("new", "old"):
            self.use(version)
            data = self.folder / ("data-" + version)
            ran = self.ingest(data).done()
            self.clean[version] = (data, self.content(data), self.metric(data), ran.seconds)
        check(self.clean["old"][1:3] != self.clean["new"][1:3], "the two versions are the same")

    def use(self, version):
        """Gives the job its old or its new rank; the times of the files stay what they are."""
        aside = self.versions / "next"
        aside.unlink(missing_ok=True)
        os.link(self.versions / version, aside)
        os.replace(aside, self.changing)
        aside.unlink(missing_ok=True)

    def new_folder(self, name):
        self.made += 1
        path = self.folder / ("%s-%d" % (name, self.made))
        path.mkdir()
        return path

    def data(self, version=None):
        """A data directory: empty, or with the trace as a clean ingest of a version made it. Its
        files are links, so that whoever wrote into one in place would spoil the clean one too."""
        path = self.new_folder("data")
        if version:
            shutil.copytree(self.clean[version][0], path, copy_function=os.link, dirs_exist_ok=True)
        return path

    def start(self, data, args, env=None):
        return Running(self.program, data, args, env)

    def run(self, data, args, env=None, timeout=600):
        return self.start(data, args, env).wait(timeout)

    def ingest(self, data, *args, path=None, **more):
        return self.run(data, ["ingest", path or self.job, *args], **more)

    def metric(self, data):
        """The metric, or None where there is no trace."""
        was_there = (data / "trace=job").exists()
        ran = self.run(data, METRIC)
        if ran.codes() == ["trace-unknown"] and not was_there:
            return None
        return ran.done().out

    def content(self, data, trace="job", ran=None):
        """Rows and a checksum over all rows of every table."""
        if self.tables is None:
            out = self.run(data, ["list", "tables", "--format", "json"]).done().out
            self.tables = [t["table"] for t in json.loads(out) if t["kind"] != "view"]
        parts = ["SELECT '%s' AS t, count(*) AS n, sum(hash(t)::HUGEINT)::VARCHAR AS h FROM %s t "
                 "WHERE trace = '%s'" % (t, t, trace) for t in self.tables]
        ran = self.run(data, ["sql", " UNION ALL ".join(parts) + " ORDER BY 1", "--format", "csv"])
        return ran.done().out

    def sound(self, data, versions):
        """The promise: as before, or complete. Gives the version that answers."""
        value = self.metric(data)
        if value is None and None in versions:
            return None
        for version in versions:
            if version and value == self.clean[version][2]:
                check(self.content(data) == self.clean[version][1],
                      "the metric is of the %s trace, and the tables are not" % version)
                return version
        raise Wrong("the metric says %r, neither before nor after" % value)

    def finish(self, data, version, *args):
        """The next ingest makes what a clean one makes, and leaves nothing else."""
        ran = self.ingest(data, *args).done()
        check(self.content(data) == self.clean[version][1], "other tables than a clean ingest")
        check(self.metric(data) == self.clean[version][2], "another metric than a clean ingest")
        check(left(data) == [], "left in the data directory: %s" % left(data))
        return ran

    def drop(self, data):
        shutil.rmtree(data, ignore_errors=True)


def left(data):
    """What is in a data directory besides traces."""
    return sorted(e for e in os.listdir(data) if not e.startswith("trace="))


def whole_spools(data):
    return len(list(Path(data).glob(".tmp-*/spool-*/records.json")))


class Mount:
    """A small file system of its own."""

    def __init__(self, path, kilobytes):
        self.path = path
        ran = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk" % kilobytes, "tmpfs", path],
                             capture_output=True, text=True)
        if ran.returncode:
            raise Skip("mount: " + ran.stderr.strip())

    def again(self, options):
        subprocess.run(["mount", "-o", "remount," + options, self.path], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)


# --- The faults -------------------------------------------------------------------------------


def kill(place, name, before, after, args, seconds, times):
    """Kills an ingest at random moments."""
    chance = random.Random("%s %s" % (place.seed, name))
    place.use(after)
    answers, again, rest = {}, 0, []
    for n in range(times):
        data = place.data(before)
        running = place.start(data, ["ingest", place.job, *args])
        moment = chance.uniform(0, seconds * 1.1)
        while not running.ended() and time.monotonic() - running.started < moment:
            time.sleep(0.001)
        running.kill()
        running.child.wait()
        try:
            spools = whole_spools(data)
            answer = place.sound(data, [before, after])
            ran = place.finish(data, after)
            expected = 0 if answer == after else RANKS if before is None else 1
            if answer != after or "--force" not in args:
                check(ran.ranks_read() <= expected, "read %d ranks again" % ran.ranks_read())
            if answer != after and before is None:
                check(ran.ranks_read() <= RANKS - spools,
                      "read %d ranks again, and %d were whole" % (ran.ranks_read(), spools))
                again += spools > 0
        except Wrong as wrong:
            raise Wrong("kill %d after %.3f s: %s" % (n, moment, wrong)) from None
        answers[answer or "none"] = answers.get(answer or "none", 0) + 1
        place.drop(data)
    for version in ("old", "new"):
        check(place.content(place.clean[version][0]) == place.clean[version][1],
              "a file of another directory was written in place")
    said = ", ".join("%s %d" % item for item in sorted(answers.items()))
    return "%d kills, the answer came from: %s%s" % (
        times, said, "; %d went on with files read whole" % again if again else "")


def fault_kill_first(place):
    """kill -9 in a first ingest"""
    times = (place.kills * 2 + 2) // 5
    return kill(place, "first", None, "new", [], place.clean["new"][3], times)


def seconds_of(place, before, after, args):
    place.use(after)
    data = place.data(before)
    seconds = place.ingest(data, *args).done().seconds
    place.drop(data)
    return seconds


def fault_kill_changed(place):
    """kill -9 in an ingest of one changed rank"""
    seconds = seconds_of(place, "old", "new", [])
    return kill(place, "changed", "old", "new", [], seconds, (place.kills * 2 + 2) // 5)


def fault_kill_force(place):
    """kill -9 in an ingest with --force"""
    seconds = seconds_of(place, "new", "new", ["--force"])
    return kill(place, "force", "new", "new", ["--force"], seconds, (place.kills + 4) // 5)


def fault_kill_twice(place):
    """kill -9 again and again, until one ingest is through"""
    place.use("new")
    data = place.data()
    spools = kills = 0
    while spools < RANKS:
        running = place.start(data, ["ingest", place.job])
        while not running.ended() and whole_spools(data) <= spools:
            time.sleep(0.001)
        running.kill()
        running.child.wait()
        kills += 1
        now = whole_spools(data)
        # A file that is just taken over may be seen in both places, and the kill come too soon.
        check(now >= spools or place.metric(data),
              "ingest %d went back from %d files to %d" % (kills, spools, now))
        check(kills < 100, "no ingest gets through")
        if place.metric(data):
            break
        check(place.sound(data, [None, "new"]) is None, "a trace that is not whole")
        spools = now
    place.finish(data, "new")
    place.drop(data)
    return "%d kills" % kills


def stage(text):
    """Where an ingest was when it failed."""
    if "spool-" in text:
        return "reading"
    if re.search(r"trace=job/(host_events|device_events|flows|counters|metadata|launches)", text):
        return "joining"
    return "deriving"


def fault_disk_full(place):
    """full disk, at every stage"""
    place.use("new")
    size = sum(f.stat().st_size for f in place.clean["new"][0].rglob("*") if f.is_file()) // 1024
    stages, finished, runs = {}, 0, 0
    for before in (None, "old"):
        used = size if before else 0
        shares = [0.02, 0.3, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 1.9, 2.0, 2.1, 2.4]
        for share in [0.02, 0.1, 0.3, 0.6, 1.0, 1.6] if before else shares:
            data = place.new_folder("disk")
            try:
                with Mount(data, int(used * 1.05 + size * share) + 64) as mount:
                    if before:
                        source = place.clean[before][0] / "trace=job"
                        shutil.copytree(source, data / "trace=job")
                    ran = place.ingest(data)
                    runs += 1
                    if ran.code:
                        check(set(ran.codes()) == {"io"}, "codes %s: %s" % (ran.codes(), ran.err))
                        check("free some space" in ran.err, "no hint in %r" % ran.err)
                        check(place.sound(data, [before]) == before, "not as before")
                        check(left(data) == [], "a full disk stays full with %s" % left(data))
                        found = stage(ran.err)
                        stages[found] = stages.get(found, 0) + 1
                    else:
                        check(place.sound(data, ["new"]) == "new", "not complete")
                        finished += 1
                    mount.again("size=%dk" % (size * 8))
                    place.finish(data, "new")
            except Wrong as wrong:
                raise Wrong("%.2f of the size, %s before: %s" % (share, before, wrong)) from None
            place.drop(data)
    for wanted in ("reading", "joining", "deriving"):
        check(wanted in stages, "no disk was full while %s: %s" % (wanted, stages))
    check(finished, "no ingest was through")
    said = ", ".join("%s %d" % item for item in sorted(stages.items()))
    return "%d sizes; full while %s; enough %d" % (runs, said, finished)


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* Reads of the file named FAULT_NAME fail with EIO once FAULT_AFTER bytes of it were read. */
static long left = -1;
static int is_it(int fd) {
  char link[64], path[4096];
  const char *name = getenv("FAULT_NAME");
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (!name || n < 0) return 0;
  path[n] = 0;
  const char *last = strrchr(path, '/');
  return last && !strcmp(last + 1, name);
}
static ssize_t counted(int fd, ssize_t (*real)(void *), void *what, size_t *count) {
  if (!is_it(fd)) return real(what);
  if (left < 0) left = atol(getenv("FAULT_AFTER"));
  if (left == 0) { errno = EIO; return -1; }
  if ((long)*count > left) *count = left;
  ssize_t n = real(what);
  if (n > 0) left -= n;
  return n;
}
struct call { int fd; void *buffer; size_t count; off64_t offset; };
static ssize_t do_read(void *w) {
  struct call *c = w;
  static ssize_t (*f)(int, void *, size_t);
  if (!f) f = dlsym(RTLD_NEXT, "read");
  return f(c->fd, c->buffer, c->count);
}
static ssize_t do_pread(void *w) {
  struct call *c = w;
  static ssize_t (*f)(int, void *, size_t, off64_t);
  if (!f) f = dlsym(RTLD_NEXT, "pread64");
  return f(c->fd, c->buffer, c->count, c->offset);
}
ssize_t read(int fd, void *buffer, size_t count) {
  struct call c = {fd, buffer, count, 0};
  return counted(fd, do_read, &c, &c.count);
}
ssize_t pread64(int fd, void *buffer, size_t count, off64_t offset) {
  struct call c = {fd, buffer, count, offset};
  return counted(fd, do_pread, &c, &c.count);
}
ssize_t pread(int fd, void *buffer, size_t count, off_t offset) {
  return pread64(fd, buffer, count, offset);
}
"""


def fault_read_error(place):
    """a disk that cannot be read on (EIO)"""
    compiler = shutil.which("cc")
    if not compiler:
        raise Skip("no cc")
    folder = place.new_folder("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", folder / "shim.so",
                    folder / "shim.c", "-ldl"], check=True)
    place.use("new")
    bad = "rank5_trace.json"
    codes = set()
    for after in (0, 1000, 3_000_000, 9_999_000):
        for before in (None, "old"):
            data = place.data(before)
            args = ["--force"] if before else []
            env = {"LD_PRELOAD": str(folder / "shim.so"), "FAULT_NAME": bad,
                   "FAULT_AFTER": str(after)}
            ran = place.ingest(data, *args, env=env)
            check(ran.code == 1, "exit code %d: %s" % (ran.code, ran.err))
            check(bad in ran.err and "error 5" in ran.err,
                  "the error does not say which file and why: %s" % ran.err)
            check("gzip" not in ran.err, "a plain file is called gzip: %s" % ran.err)
            codes.update(ran.codes())
            check(place.sound(data, [before]) == before, "not as before")
            ran = place.finish(data, "new")
            check(ran.ranks_read() <= 1, "%d ranks were read again" % ran.ranks_read())
            place.drop(data)
    return "codes %s; the other ranks were not read again" % ", ".join(sorted(codes))


def fault_changing_file(place):
    """a file that grows or is written anew while it is read"""
    place.use("new")
    job = place.new_folder("growing") / "job"
    shutil.copytree(place.job, job, copy_function=os.link)
    victim = job / "rank5_trace.json"
    text = victim.read_bytes()
    seen = {}
    for how in ("grows", "is written anew", "is replaced"):
        for n in range(6):
            victim.unlink()
            victim.write_bytes(text)
            stop = threading.Event()

            def disturb():
                while not stop.is_set():
                    if how == "grows":
                        with open(victim, "ab") as out:
                            out.write(b" " * 1000)
                    elif how == "is written anew":
                        with open(victim, "wb") as out:
                            out.write(text[:len(text) // 2])
                            out.flush()
                            time.sleep(0.005)
                            out.write(text[len(text) // 2:])
                    else:
                        other = job.parent / "next"
                        other.write_bytes(text)
                        os.replace(other, victim)
                    time.sleep(0.01 * (n + 1))

            data = place.data()
            thread = threading.Thread(target=disturb)
            thread.start()
            try:
                ran = place.ingest(data, path=job)
            finally:
                stop.set()
                thread.join()
            if ran.code == 0:
                manifest = json.loads((data / "trace=job" / "manifest.json").read_text())
                source = [s for s in manifest["sources"] if s["rank"] == 5][0]
                whole = text + b" " * (source["bytes"] - len(text))
                check(hashlib.sha256(whole).hexdigest() == source["sha256"], "half of a file")
                key = "complete"
            else:
                # While it is written anew it may be short from the first byte to the last.
                short = how == "is written anew" and ran.codes() == ["trace-truncated"]
                check(short or ran.codes() == ["file-changed"], "%s: %s" % (how, ran.err))
                check("rank5_trace.json" in ran.err, "not which file: %s" % ran.err)
                check(place.metric(data) is None, "a trace in spite of it")
                key = ran.codes()[0]
            seen[key] = seen.get(key, 0) + 1
            ran = place.ingest(data, path=job).done()
            check(place.metric(data) == place.clean["new"][2], "another metric than a clean ingest")
            check(ran.ranks_read() <= 1, "%d ranks were read again" % ran.ranks_read())
            check(left(data) == [], "left: %s" % left(data))
            place.drop(data)
    return ", ".join("%s %d" % item for item in sorted(seen.items()))


def fault_two_at_once(place):
    """two ingests of one trace at once"""
    place.use("new")
    codes = {}
    for n in range(12):
        before = [None, "old"][n % 2]
        data = place.data(before)
        args = [["ingest", place.job], ["ingest", place.job] + (["--force"] if n % 3 == 0 else [])]
        runs = [place.start(data, args[0])]
        time.sleep(0.15 * (n // 2))
        runs.append(place.start(data, args[1]))
        answers = set()
        while not all(r.ended() for r in runs) and n >= 6:
            answers.add(place.metric(data))
        for ran in [r.wait() for r in runs]:
            check(ran.code == 0, "exit code %d: %s" % (ran.code, ran.err))
            codes[ran.code] = codes.get(ran.code, 0) + 1
        good = {place.clean["new"][2], place.clean[before][2] if before else None}
        check(answers <= good, "the metric said %s on the way" % (answers - good))
        check(place.sound(data, ["new"]) == "new", "not complete")
        check(left(data) == [], "left: %s" % left(data))
        place.drop(data)
    return "12 pairs"


def fault_two_traces(place):
    """ingests of different traces into one data directory at once"""
    place.use("new")
    others = []
    for n in range(3):
        folder = place.new_folder("other") / ("other%d" % n)
        shutil.copytree(SOURCE, folder)
        others.append(folder)
    for _ in range(4):
        data = place.data()
        runs = [place.start(data, ["ingest", path]) for path in [place.job] + others]
        for run in runs:
            run.wait().done()
        check(place.sound(data, ["new"]) == "new", "not complete")
        wanted = sorted(["trace=job"] + ["trace=" + o.name for o in others])
        check(sorted(os.listdir(data)) == wanted, "in the data directory: %s" % os.listdir(data))
        place.drop(data)
    return "4 times 4 traces"


def fault_same_name_at_once(place):
    """two folders of one name into one data directory at once"""
    names = set()
    for _ in range(8):
        folders = []
        for _ in range(2):
            folder = place.new_folder("same") / "job"
            shutil.copytree(SOURCE, folder)
            folders.append(folder)
        data = place.data()
        for run in [place.start(data, ["ingest", f]) for f in folders]:
            run.wait().done()
        found = sorted(os.listdir(data))
        wanted = sorted("trace=%s.job" % f.parent.name for f in folders)
        check(found == wanted, "in the data directory: %s, not %s" % (found, wanted))
        for folder in folders:
            check("unchanged" in place.ingest(data, path=folder).done().err, "read again")
        names.update(found)
        place.drop(data)
    return "%d traces of 16" % len(names)


class Disk:
    """What of the files of a recorded run would outlast a loss of power: the bytes that were synced
    after they were written, and the entries of folders that were synced after they were made."""

    def __init__(self):
        self.inodes = {}  # path: inode, of what was made in the recording
        self.changed = {}  # inode or folder: number of its last change
        self.synced = {}  # inode or folder: number of the change that is on the disk
        self.moment = 0

    def change(self, what):
        self.moment += 1
        self.changed[what] = self.moment

    def entry(self, path):
        self.change(os.path.dirname(path))

    def make(self, path, inode=None):
        self.inodes[path] = inode or (path, self.moment)
        self.entry(path)

    def move(self, old, new):
        below = [p for p in self.inodes if p == old or p.startswith(old + "/")]
        inodes = {new + p[len(old):]: self.inodes.pop(p) for p in below}
        gone = [p for p in self.inodes if p == new or p.startswith(new + "/")]
        for path in gone:
            del self.inodes[path]
        self.inodes.update(inodes)
        for numbers in (self.changed, self.synced):
            keys = [k for k in numbers if isinstance(k, str) and (k + "/").startswith(old + "/")]
            for key in keys:
                numbers[new + key[len(old):]] = numbers.pop(key)
        self.entry(old)
        self.entry(new)

    def sync(self, what):
        self.synced[what] = self.changed.get(what, 0)

    def is_on_disk(self, what):
        return self.synced.get(what, 0) >= self.changed.get(what, 0)

    def lost(self, folder):
        """What below a folder is not on the disk."""
        files = [p for p, i in self.inodes.items()
                 if p.startswith(folder + "/") and not self.is_on_disk(i)]
        folders = [k for k in self.changed
                   if isinstance(k, str) and (k + "/").startswith(folder + "/")
                   and not self.is_on_disk(k)]
        return sorted(set(files + folders))


CALLS = ("openat,creat,write,pwrite64,writev,pwritev,ftruncate,copy_file_range,sendfile,"
         "link,linkat,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,"
         "fsync,fdatasync,syncfs")
OF_FOLDERS = ("openat", "linkat", "renameat", "renameat2", "unlinkat", "mkdirat")


def recorded(place, data, *args):
    """An ingest under strace: for each trace that appears what of it was not on the disk then, and
    whether its name is on the disk in the end."""
    log = place.new_folder("strace") / "log"
    command = ["strace", "-f", "-qq", "-y", "-s", "512", "-o", str(log), "-e", "trace=" + CALLS,
               place.program, "--data", str(data), "ingest", str(place.job), *args]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, cwd=tempfile.gettempdir())
    except FileNotFoundError:
        raise Skip("there is no strace") from None
    if ran.returncode and "ptrace" in ran.stderr.lower():
        raise Skip("strace: " + ran.stderr.strip())
    check(ran.returncode == 0, ran.stderr)
    disk, published, waiting, named = Disk(), {}, {}, 0
    top = str(data)
    for line in log.read_text(errors="replace").splitlines():
        pid, _, text = line.partition(" ")
        text = text.strip()
        begun = None
        if text.endswith("<unfinished ...>"):
            waiting[pid] = text[:-len("<unfinished ...>")]
            # A sync takes what was written before it began.
            if text.startswith(("fsync", "fdatasync")):
                waiting[pid] += "#%d" % disk.moment
            continue
        resumed = re.match(r"<\.\.\. \w+ resumed>(.*)", text)
        if resumed:
            text, _, begun = waiting.pop(pid).partition("#")
            text += resumed.group(1)
        found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", text)
        if not found or found.group(3).startswith("-"):
            continue
        call, given = found.group(1), found.group(2)
        of_fd = re.match(r"\d+<([^>]*)>", given)
        paths = [p for p in re.findall(r'"((?:[^"\\]|\\.)*)"', given)]
        if of_fd and call not in OF_FOLDERS:
            path = of_fd.group(1)
            what = disk.inodes.get(path, path)
            if not path.startswith(top):
                continue
            if call in ("fsync", "fdatasync"):
                if not begun or disk.changed.get(what, 0) <= int(begun):
                    disk.sync(what)
            elif call == "syncfs":
                for each in list(disk.changed):
                    disk.sync(each)
            else:
                disk.change(what)
            continue
        if not paths or not paths[0].startswith(top):
            continue
        if call in ("openat", "creat"):
            if call == "creat" or "O_CREAT" in given:
                if paths[0] not in disk.inodes:
                    disk.make(paths[0])
                    disk.change(disk.inodes[paths[0]])
        elif call in ("mkdir", "mkdirat"):
            disk.entry(paths[0])
            disk.change(paths[0])
        elif call in ("link", "linkat"):
            disk.make(paths[1], disk.inodes.get(paths[0]))
        elif call.startswith("rename"):
            if "RENAME_EXCHANGE" in given:
                aside = paths[0] + "#"
                disk.move(paths[1], aside)
                disk.move(paths[0], paths[1])
                disk.move(aside, paths[0])
            else:
                disk.move(paths[0], paths[1])
            if re.fullmatch(re.escape(top) + r"/trace=[^/]+", paths[1]):
                published[paths[1]] = disk.lost(paths[1])
                named = disk.changed[top]
        else:
            disk.inodes.pop(paths[0], None)
            disk.entry(paths[0])
    check(published, "nothing was published in the recording")
    lost = [p for paths in published.values() for p in paths]
    # What was removed since need not be on the disk.
    return len(published), lost, disk.synced.get(top, 0) >= named


def fault_power(place):
    """loss of power after a trace appeared: recorded writes, syncs and renames"""
    place.use("new")
    said = []
    for before, args in ((None, []), ("old", []), ("new", ["--force"])):
        data = place.data(before)
        traces, lost, is_named = recorded(place, data, *args)
        check(not lost, "%d files and folders were not on the disk when the trace appeared: %s"
              % (len(lost), ", ".join(lost[:3])))
        check(is_named, "the name of the trace is not on the disk when the ingest is done")
        check(place.content(data) == place.clean["new"][1], "other tables than a clean ingest")
        said.append("%d trace, nothing lost" % traces)
        place.drop(data)
    # The recording sees what is not synced.
    data = place.data()
    _, lost, is_named = recorded(place, data, "--no-sync")
    check(len(lost) > 10 and not is_named, "with --no-sync all is on the disk")
    place.drop(data)
    return "%s; with --no-sync %d would be lost" % (", ".join(said), len(lost))


def fault_read_only(place):
    """a data directory that cannot be written"""
    place.use("new")
    data = place.new_folder("readonly")
    with Mount(data, 400_000) as mount:
        shutil.copytree(place.clean["old"][0] / "trace=job", data / "trace=job")
        mount.again("ro")
        ran = place.ingest(data)
        check(ran.code == 1 and ran.codes() == ["io"], ran.err)
        check(place.sound(data, ["old"]) == "old", "not as before")
        place.use("old")
        check("unchanged" in place.ingest(data).done().err, "an unchanged trace is not skipped")
        mount.again("rw")
        place.use("new")
        place.finish(data, "new")
    return ran.err.splitlines()[0]


def fault_data_is_a_file(place):
    """a data directory that is a file"""
    file = place.new_folder("file") / "data"
    file.write_text("mine")
    ran = place.ingest(file)
    check(ran.code == 1 and ran.codes() == ["io"], ran.err)
    check(str(file) in ran.err, "the error does not name the path: %s" % ran.err)
    check(file.read_text() == "mine", "the file was written")
    for args in (METRIC, ["sql", "SELECT 1"], ["list", "traces"]):
        check("panicked" not in place.run(file, args).err, "a panic")
    return ran.err.splitlines()[0]


def odd_job(place, name="job"):
    folder = place.new_folder("odd") / name
    shutil.copytree(SOURCE, folder)
    return folder


def plain_metric(place):
    """The metric of the small job."""
    data = place.data()
    place.ingest(data, path=odd_job(place)).done()
    return place.metric(data)


def odd(place, change, name="job", trace="job"):
    """An ingest of a folder with something odd in it, which must not change the answer."""
    job = odd_job(place, name)
    change(job)
    data = place.data()
    ran = place.ingest(data, "-v", path=job, timeout=60)
    ran.done()
    args = ["metric", "coll_call_num", "--trace=" + trace, "--format", "value", "-q"]
    value = place.run(data, args)
    check(value.done().out == plain_metric(place), "another metric: %s" % value.out)
    again = place.ingest(data, path=job, timeout=60).done()
    check("unchanged" in again.err, "not unchanged: %s" % again.err)
    check(left(data) == [], "left: %s" % left(data))
    return ran


def fault_links(place):
    """links in circles, and links to nowhere"""
    def change(job):
        (job / "loop").symlink_to(job)
        (job / "up").symlink_to(job.parent)
        (job / "self").symlink_to("self")
        (job / "gone.txt").symlink_to("nowhere")
        (job / "gone_folder").symlink_to("nowhere/at/all")
    odd(place, change)
    # A link that calls itself a trace is a file that cannot be read, and says so.
    job = odd_job(place)
    (job / "rank9_trace.json").symlink_to("nowhere")
    ran = place.ingest(place.data(), path=job, timeout=60)
    check(ran.code == 1 and "rank9_trace.json" in ran.err, "a rank is lost: %s" % ran.err)
    return "the rest is read; a dangling rank9_trace.json is %s" % ran.codes()


def fault_fifo(place):
    """pipes, devices and folders that are named like traces"""
    def change(job):
        os.mkfifo(job / "x.json")
        os.mkfifo(job / "rank9_trace.json.gz")
        os.mkfifo(job / "cards.yaml")
        (job / "zero.json").symlink_to("/dev/zero")
        (job / "y.json").mkdir()
        (job / "z.json.gz").mkdir()
    odd(place, change)
    fifo = place.new_folder("fifo") / "x.json"
    os.mkfifo(fifo)
    ran = place.ingest(place.data(), path=fifo, timeout=60)
    check(ran.code == 1, "a pipe was ingested")
    named = place.ingest(place.data(), "--rank", "9=%s" % fifo, path=odd_job(place), timeout=60)
    check(named.code == 1, "a pipe was ingested")
    card = place.ingest(place.data(), "--card", fifo, path=odd_job(place), timeout=60)
    check(card.code == 1 and "card-invalid" in card.err, "a pipe as card: %s" % card.err)
    return "no hang; named itself: %s" % ran.err.splitlines()[0]


def fault_many_files(place):
    """100,000 small files in one folder"""
    job = odd_job(place)
    for n in range(100_000):
        (job / ("config_%06d.json" % n)).write_text('{"a": %d}' % n)
    data = place.data()
    ran = place.ingest(data, path=job).done()
    check(ran.peak_mb < MEMORY_MB, "%.0f MB" % ran.peak_mb)
    check(place.metric(data) == plain_metric(place), "another metric")
    again = place.ingest(data, path=job).done()
    check("unchanged" in again.err, again.err[:300])
    check(again.peak_mb < MEMORY_MB, "%.0f MB" % again.peak_mb)
    shutil.rmtree(job)
    return "%.1f s and %.0f MB; unchanged %.1f s and %.0f MB" % (
        ran.seconds, ran.peak_mb, again.seconds, again.peak_mb)


def fault_names(place):
    """names with quotes, line ends, characters of patterns, and bytes that are no UTF-8"""
    names = ["it's", 'a "b"', "line\nend", "st*r[0-9]?", "{a,b}", "per%cent", "-dash", "é😀",
             "semi;colon", "$HOME", "back\\slash", "x" * 240]
    for name in names:
        trace = "".join(c if c.isalnum() or c in "._-+[](),@" else "_" for c in name)

        def change(job, name=name):
            for n in range(4):
                (job / ("rank%d_trace.json" % n)).rename(
                    job / ("%s rank%d.json" % (name[:200], n)))
        odd(place, change, name, trace)
    for bad in (b"caf\xe9", b"\xff\xfe"):
        job = os.fsencode(odd_job(place))
        for n in range(4):
            os.rename(job + b"/rank%d_trace.json" % n, job + b"/%s_rank%d.json" % (bad, n))
        folder = os.path.dirname(job) + b"/" + bad
        os.rename(job, folder)
        data = place.data()
        place.run(data, ["ingest", folder]).done()
        again = place.run(data, ["ingest", folder]).done()
        check("unchanged" in again.err, "not unchanged: %s" % again.err)
        os.utime(folder + b"/%s_rank1.json" % bad, ns=(1, 1))
        with open(folder + b"/%s_rank1.json" % bad, "ab") as out:
            out.write(b"\n")
        ran = place.run(data, ["ingest", folder]).done()
        check(ran.ranks_read() == 1, "%d ranks were read again" % ran.ranks_read())
        value = place.run(data, ["metric", "coll_call_num", "--format", "value", "-q"]).done().out
        check(value == plain_metric(place), "another metric: %s" % value)
    for name in ["d z[1]*?'s", "line\nend", 'quo"te']:
        data = place.new_folder("data") / name
        place.ingest(data, path=odd_job(place)).done()
        check(place.metric(data) == plain_metric(place), "data directory %r" % name)
    data = os.fsencode(place.new_folder("data")) + b"/\xff"
    ran = Running(place.program, os.fsdecode(data), ["ingest", odd_job(place)]).wait(60)
    if ran.code:
        check(ran.codes() == ["io"], "a data directory that is no UTF-8: %s" % ran.err)
    else:
        value = Running(place.program, os.fsdecode(data), METRIC).wait(60).done().out
        check(value == plain_metric(place), "another metric: %s" % value)
    return "%d names of folders and files, 4 of data directories" % (len(names) + 2)


def fault_damaged_trace(place):
    """damaged or missing files in a trace directory"""
    place.use("new")
    good = place.clean["new"]
    names = sorted(str(f.relative_to(good[0])) for f in good[0].rglob("*") if f.is_file())
    wrong, refused, untouched, count = [], 0, 0, 0
    tried = set()
    for name in names:
        # One file of each table and part of a rank.
        if (key := re.sub(r"\d+", "#", name)) in tried:
            continue
        tried.add(key)
        for how in ("missing", "empty", "half", "garbage"):
            data = place.data("new")
            file = data / name
            whole = file.read_bytes()
            file.unlink()
            if how != "missing":
                file.write_bytes({"empty": b"", "half": whole[:len(whole) // 2],
                                  "garbage": b"\x00" * len(whole)}[how])
            count += 1
            value = place.run(data, METRIC)
            try:
                content = place.content(data)
            except Wrong:
                content = None
            if value.code == 0 and value.out != good[2]:
                wrong.append("%s %s: metric" % (name, how))
            # A folder without a manifest is no trace, so the tables are empty.
            is_trace = (data / "trace=job" / "manifest.json").exists()
            if content is not None and content != good[1] and is_trace:
                wrong.append("%s %s: tables" % (name, how))
            check("panicked" not in value.err, "%s %s: %s" % (name, how, value.err))
            refused += value.code != 0
            untouched += value.code == 0
            ran = place.ingest(data)
            try:
                after = place.content(data)
            except Wrong as e:
                after = str(e)
            # Bytes of a file that changed in place are for `--force`; its size is looked at.
            if ran.code or (after != good[1] and how != "garbage"):
                wrong.append("%s %s: not mended: %s" % (name, how, (ran.err or after)[:200]))
            if after != good[1]:
                place.finish(data, "new", "--force")
            place.drop(data)
    check(not wrong, "%d of %d: %s" % (len(wrong), count, "; ".join(wrong[:8])))
    return "%d damages: %d refused, %d without effect; mended by the next ingest" % (
        count, refused, untouched)


def fault_monster(place):
    """an event of 200 MB, plain and gzip"""
    job = place.new_folder("monster")
    head = (SOURCE / "rank0_trace.json").read_bytes()
    at = head.index(b'"traceEvents"')
    at = head.index(b"[", at) + 1
    event = head.rindex(b"},") + 2
    said = []
    for where, cut in (("first", at), ("last", event)):
        for suffix, opened in ((".json", open), (".json.gz", lambda p, m: gzip.open(p, m, 1))):
            for kind in ("text", "blanks", "numbers"):
                path = job / (where + "_" + kind + suffix)
                piece = {"text": b"x" * 1_000_000, "blanks": b'\\"' * 500_000,
                         "numbers": b"1," * 500_000}[kind]
                open_, close = (b"[", b"0]") if kind == "numbers" else (b'"', b'"')
                with opened(path, "wb") as out:
                    out.write(head[:cut])
                    out.write(b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,'
                              b'"args":{"a":' + open_)
                    for _ in range(200):
                        out.write(piece)
                    out.write(close + b"}}," + head[cut:])
                data = place.data()
                ran = place.ingest(data, path=path)
                path.unlink()
                check(ran.code == 1 and ran.codes() == ["value-too-large"], ran.err[:300])
                offset = re.search(r"byte (\d+)", ran.err)
                check(offset and abs(int(offset.group(1)) - cut) < 100,
                      "%s: the offset is not %d: %s" % (path.name, cut, ran.err))
                check(ran.peak_mb < MEMORY_MB, "%s: %.0f MB" % (path.name, ran.peak_mb))
                check(left(data) == [], "left: %s" % left(data))
                said.append(ran.peak_mb)
    return "%d files refused with the offset; peak memory %.0f MB" % (len(said), max(said))


def fault_resume(place):
    """an interrupted ingest goes on where it was"""
    place.use("new")
    said = []
    for signal_ in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        data = place.data()
        running = place.start(data, ["ingest", place.job])
        while not running.ended() and whole_spools(data) < 3:
            time.sleep(0.001)
        running.child.send_signal(signal_)
        running.child.wait()
        whole = whole_spools(data)
        check(whole >= 3, "%d files read whole are left" % whole)
        ran = place.finish(data, "new")
        check(ran.ranks_read() == RANKS - whole,
              "%d were whole, and %d were read" % (whole, ran.ranks_read()))
        check("(%d read)" % ran.ranks_read() in ran.err, ran.err)
        said.append("%d whole, %d read" % (whole, ran.ranks_read()))
        place.drop(data)
    # A file that changed since is read; a spool that is damaged is not used.
    data = place.data()
    place.use("old")
    running = place.start(data, ["ingest", place.job, "--jobs", "1"])
    while not running.ended() and whole_spools(data) < CHANGED + 2:
        time.sleep(0.001)
    running.kill()
    running.child.wait()
    place.use("new")
    for n, record in enumerate(sorted(data.glob(".tmp-*/spool-*/records.json"))):
        if n == 0:
            record.write_bytes(record.read_bytes()[:100])
    place.finish(data, "new")
    place.drop(data)
    # Another folder's ingest leaves what waits alone.
    data = place.data()
    running = place.start(data, ["ingest", place.job])
    while not running.ended() and whole_spools(data) < 3:
        time.sleep(0.001)
    running.kill()
    running.child.wait()
    whole = whole_spools(data)
    place.ingest(data, path=odd_job(place, "another")).done()
    check(whole_spools(data) == whole, "the ingest of another folder took what waits")
    check(place.ingest(data).done().ranks_read() == RANKS - whole, "read again")
    place.drop(data)
    return "; ".join(said)


def main():
    # Started in the background of a shell, what it starts would ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    target = os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache/ccl-sql/target"
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary", nargs="?", default=Path(target) / "release" / "ccl-sql")
    parser.add_argument("--only", action="append", default=[], help="faults whose name holds this")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = [(n[6:], f) for n, f in globals().items() if n.startswith("fault_")]
    if options.only:
        faults = [(n, f) for n, f in faults if any(word in n for word in options.only)]
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="ccl-sql-faults-") as folder:
        binary = str(Path(options.binary).resolve())
        place = Place(binary, Path(folder), options.kills, options.seed)
        for name, fault in faults:
            started = time.monotonic()
            try:
                word, text = "passed", fault(place)
                passed += 1
            except Skip as skip:
                word, text = "skipped", str(skip)
                skipped += 1
            except Wrong as wrong:
                word, text = "FAILED", str(wrong)
                failed += 1
            except Exception:
                word, text = "FAILED", traceback.format_exc()
                failed += 1
            print("%-7s %s (%s, %.0f s): %s" % (
                word, fault.__doc__, name, time.monotonic() - started, text), flush=True)
    print("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
