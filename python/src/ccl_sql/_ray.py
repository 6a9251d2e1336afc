"""Runs tasks of the program on Ray: python _ray.py PROGRAM PLAN ADDRESS [OPTION ...].

It asks the program which tasks of the plan wait for nothing, runs them, and asks again. Where PLAN
is `-`, the tasks stand on standard input, and none waits for another. What a task does, and
whether it is done, is the program's to know: a task that is killed, or run twice, does no harm.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import time
from typing import Any

TRIES = 4
"""How often a task is run that may succeed when it is tried again."""
SLOW = 3.0
"""A task that has run so many times the median gets a second copy, where a slot is idle."""
SLOW_S = 10.0
"""Seconds before which no task counts as slow."""
ALONE = ("layout", "finish")
"""Steps of one task, which takes a whole machine: nothing else can be done meanwhile."""


def task(command: list[str]) -> str:
    """Runs a command; what it says on standard error, where trying again would change nothing."""
    import ctypes
    import signal
    import subprocess

    def end_with_worker() -> None:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    done = subprocess.run(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=end_with_worker,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    return done.stderr if done.returncode else ""


class Step:
    """The open tasks of one step: number, size, memory, and the words of the command."""

    def __init__(self, ray: Any, name: str, tasks: list[dict[str, Any]]) -> None:
        self.ray, self.name = ray, name
        self.cpus = 1
        if name in ALONE:
            alive = (node["Resources"] for node in ray.nodes() if node["Alive"])
            self.cpus = max(int(resources.get("CPU", 1)) for resources in alive)
        self.waiting = sorted(tasks, key=lambda t: (t["size"], t["n"]))
        self.all = {t["n"]: t for t in tasks}
        self.running: dict[Any, tuple[int, float]] = {}
        self.took: list[float] = []
        self.done: set[int] = set()

    def start(self, n: int) -> None:
        """Starts a task, or a copy of it."""
        remote = self.ray.remote(task).options(
            num_cpus=self.cpus,
            memory=self.all[n]["memory_mb"] << 20,
            max_retries=TRIES - 1,
            retry_exceptions=True,
            name=f"{self.name} {n}",
        )
        threads = ["--jobs", str(self.cpus)] if self.name in ALONE else []
        command = [*self.all[n]["command"], *threads]
        self.running[remote.remote(command)] = (n, time.monotonic())

    def fill(self) -> None:
        """Starts what the cluster has room for: the largest first, then copies of slow tasks."""
        slots = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        while self.waiting and len(self.running) < slots:
            self.start(self.waiting.pop()["n"])
        if self.waiting or not self.took:
            return
        slow = max(SLOW_S, SLOW * statistics.median(self.took))
        copies = [n for n, _ in self.running.values()]
        for n, since in list(self.running.values()):
            idle = len(self.running) < slots
            if idle and copies.count(n) == 1 and time.monotonic() - since > slow:
                self.start(n)

    def wait(self) -> None:
        """Waits for the next task that ends."""
        ended, _ = self.ray.wait(list(self.running), timeout=1.0)
        for ref in ended:
            if ref not in self.running:
                continue
            n, since = self.running.pop(ref)
            if n in self.done:
                continue
            self.ray.get(ref)
            self.done.add(n)
            self.took.append(time.monotonic() - since)
            for other, (same, _) in list(self.running.items()):
                if same == n:
                    self.ray.cancel(other, force=True)
                    del self.running[other]

    def run(self, show: bool, total: int) -> None:
        """Runs all; what is wrong with a file is said at the end, by the program."""
        while self.waiting or self.running:
            self.fill()
            self.wait()
            if show:
                done = total - len(self.all) + len(self.done)
                print(f"\r\033[K{self.name} {done}/{total}", end="", file=sys.stderr, flush=True)


def listed(program: str, plan: str, options: list[str]) -> dict[str, Any]:
    """The tasks of a plan that wait for nothing."""
    listing = [program, "task", "list", plan, *options]
    now: dict[str, Any] = json.loads(
        subprocess.run(listing, stdout=subprocess.PIPE, check=True).stdout
    )
    for one in now["tasks"]:
        numbered = [] if now["step"] in ALONE else [str(one["n"])]
        one["words"] = ["task", now["step"], plan, *numbered]
    return now


def main(arguments: list[str]) -> int:
    """Runs a plan, or the tasks given, to the end; the exit code."""
    program, plan, address, *options = arguments
    given = json.load(sys.stdin) if plan == "-" else None
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ModuleNotFoundError:
        print(f"{sys.executable} has no Ray: pip install ray", file=sys.stderr)
        return 1
    show = sys.stderr.isatty() and "--quiet" not in options
    try:
        ray.init(address=address or None, logging_level=logging.ERROR, log_to_driver=False)
        while True:
            now = given or listed(program, plan, options)
            if now["step"] is None:
                return 0
            for one in now["tasks"]:
                one["command"] = [program, *one["words"], *options]
            Step(ray, now["step"], now["tasks"]).run(show, now["total"])
            if given:
                return 0
    except KeyboardInterrupt:
        # With the driver its workers go, and with a worker its task.
        return 130
    except (subprocess.CalledProcessError, ray.exceptions.RayError) as error:
        print(f"\n{error}".rstrip(), file=sys.stderr)
        return 1
    finally:
        if show:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
