"""An ingest on Ray, while its processes are killed and its tasks run twice, makes the files of one
machine; metrics asked on Ray are those of one machine too.

    python tests/ray.py PROGRAM TRACES WORK

Needs Ray. TRACES is a folder with many files (benches/make.py makes one), WORK an empty folder.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path


def digests(data: Path) -> dict[str, str]:
    """The hash of every file of the traces, by its path; answers that are kept are none of them."""
    files = (p for p in data.rglob("*") if p.is_file() and "trace=" in str(p))
    return {
        str(p.relative_to(data)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in files
        if p.name != ".answers"
    }


def processes() -> list[int]:
    """Tasks that run, and the workers of Ray that run them."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        is_worker = words[0].startswith(("ray::read", "ray::derive"))
        is_task = [Path(words[0]).name, *words[1:2]] == ["ccl-sql", "task"]
        if is_worker or (is_task and words[2] in ("read", "derive")):
            found.append(int(folder.name))
    return found


class Killer(threading.Thread):
    """Kills a task or a worker every second, and runs tasks a second time."""

    def __init__(self, program: str, data: Path) -> None:
        super().__init__(daemon=True)
        self.program, self.data = program, data
        self.killed = self.copies = 0
        self.stop = threading.Event()

    def run(self) -> None:
        """Goes on until it is stopped."""
        chance = random.Random(1)
        while not self.stop.wait(1.0):
            victims = processes()
            if victims:
                try:
                    os.kill(chance.choice(victims), signal.SIGKILL)
                    self.killed += 1
                except ProcessLookupError:
                    pass
            plans = list(self.data.glob(".plan-*"))
            if plans:
                for n in range(0, 1000, 5):
                    step = chance.choice(["read", "derive"])
                    command = [self.program, "task", step, str(plans[0]), str(n), "--quiet"]
                    if subprocess.run(command, capture_output=True, check=False).returncode == 2:
                        break
                    self.copies += 1
                    if self.stop.is_set():
                        break


def read_bytes(pid: int | str) -> int:
    """The bytes that a process read, with those of its children that ended."""
    try:
        return int(Path(f"/proc/{pid}/io").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def watched(command: list[str | Path], environment: dict[str, str]) -> tuple[int, int]:
    """Runs a command: its exit code, and the bytes that it read itself, without the client."""
    process = subprocess.Popen(command, env=environment)
    of_all, of_client = 0, 0
    while process.poll() is None:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        except OSError:
            children = []
        of_client = max([of_client, *map(read_bytes, children)])
        of_all = max(of_all, read_bytes(process.pid))
        time.sleep(0.02)
    return process.wait(), max(0, of_all - of_client)


def main() -> int:
    """Ingests on one machine and on Ray, and compares."""
    program, traces, work = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    one, many = work / "one", work / "many"
    began = time.monotonic()
    subprocess.run([program, "ingest", traces, "--data", one], check=True)
    print(f"one machine: {time.monotonic() - began:.1f} s")
    killer = Killer(program, many)
    killer.start()
    began = time.monotonic()
    environment = {**os.environ, "CCL_SQL_PYTHON": sys.executable}
    command = [program, "ingest", traces, "--data", many, "--engine", "ray"]
    tries, most = 1, 0
    # Where one task was killed more often than Ray tries it, the same command goes on.
    while True:
        code, read = watched(command, environment)
        most = max(most, read)
        if not code or tries == 10:
            break
        tries += 1
    killer.stop.set()
    killer.join()
    print(
        f"on Ray: {time.monotonic() - began:.1f} s, {killer.killed} killed, "
        f"{killer.copies} tasks run again beside, {tries} runs of the command"
    )
    size = sum(p.stat().st_size for p in Path(traces).rglob("*") if p.is_file())
    print(f"the driver read {most / 1e6:.1f} MB; the traces are {size / 1e6:.1f} MB")
    here, there = digests(one), digests(many)
    differ = sorted(k for k in here.keys() | there.keys() if here.get(k) != there.get(k))
    answers = []
    for data, options in ((one, ["--no-cache"]), (many, ["--engine", "ray"])):
        ask = [program, "metric", "--all", "--format", "json", "--data", data, *options]
        asked = subprocess.run(ask, stdout=subprocess.PIPE, env=environment, check=False)
        answers.append(json.loads(asked.stdout))
    print(f"{len(here)} files, {len(differ)} differ {differ[:5]}")
    print(f"metric --all is {'equal' if answers[0] == answers[1] else 'different'}")
    kept = [p.name for p in many.rglob(".partials/*.parquet")]
    shares = {name.split(".")[-2].split("-")[1] for name in kept}
    print(f"{len(kept)} files of what is of each rank, as shares of {sorted(shares)}")
    same = not differ and answers[0] == answers[1] and any(int(of) > 1 for of in shares)
    return int(not (here and same and killer.killed and killer.copies and most < size / 4))


if __name__ == "__main__":
    sys.exit(main())
