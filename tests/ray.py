"""An ingest on Ray, while its processes are killed and its tasks run twice, makes the files of one
machine; metrics asked on Ray are those of one machine too.

    python tests/ray.py PROGRAM TRACES WORK [store]

Needs Ray. TRACES is a folder with many files (benches/make.py makes one), WORK an empty folder.
With `store` the data directory and the plan lie in an object store, moto's, which must be there
too.
"""

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

STEPS = ("read", "join", "derive", "groups", "place", "match", "collect")
"""Steps of many tasks."""
LAKE = "s3://lake/ccl-data"
"""The data directory in the store."""


def digests(data: Path) -> dict[str, str]:
    """The hash of every file of the traces, by its path; answers that are kept are none of them."""
    files = (p for p in data.rglob("*") if p.is_file() and "trace=" in str(p))
    return {
        str(p.relative_to(data)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in files
        if p.name != ".answers"
    }


class Moto:
    """A server of object stores, with an empty bucket."""

    def __init__(self, environment: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        environment |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
        server = Path(sys.executable).with_name("moto_server")
        self.server = subprocess.Popen(
            [server, "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        import boto3

        self.s3: Any = boto3.client(
            "s3",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            aws_access_key_id="test",
            aws_secret_access_key="test",
            region_name="us-east-1",
        )
        for _ in range(100):
            time.sleep(0.1)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
        self.s3.create_bucket(Bucket="lake")

    def keys(self) -> list[str]:
        """The keys of all objects."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket="lake")
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def digests(self) -> dict[str, str]:
        """The hash of every table of the traces, by its path as on a disk; not of what is kept."""
        out = {}
        for key in self.keys():
            trace, at, file = key.removeprefix("ccl-data/").partition("/v=")
            if at and file.endswith(".parquet") and "/.partials/" not in file:
                body = self.s3.get_object(Bucket="lake", Key=key)["Body"].read()
                out[f"{trace}/{file.split('/', 1)[1]}"] = hashlib.sha256(body).hexdigest()
        return out


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
        is_worker = words[0].startswith(tuple(f"ray::{step}" for step in STEPS))
        is_task = [Path(words[0]).name, *words[1:2]] == ["ccl-sql", "task"]
        if is_worker or (is_task and words[2] in STEPS):
            found.append(int(folder.name))
    return found


class Killer(threading.Thread):
    """Kills a task or a worker every second, and runs tasks a second time."""

    def __init__(self, program: str, data: Path, plan: str, environment: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self.program, self.data, self.plan, self.environment = program, data, plan, environment
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
            plans = [self.plan] if self.plan else list(map(str, self.data.glob(".plan-*")))
            if plans:
                for n in range(0, 1000, 5):
                    step = chance.choice(STEPS)
                    command = [self.program, "task", step, plans[0], str(n), "--quiet"]
                    ended = subprocess.run(
                        command, capture_output=True, check=False, env=self.environment
                    )
                    if ended.returncode == 2:
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
    environment = {**os.environ, "CCL_SQL_PYTHON": sys.executable}
    moto = Moto(environment) if sys.argv[4:] == ["store"] else None
    try:
        return compared(program, traces, work, environment, moto)
    finally:
        if moto:
            moto.server.kill()


def compared(
    program: str, traces: str, work: Path, environment: dict[str, str], moto: Moto | None
) -> int:
    """Ingests and asks both ways; the exit code."""
    one, many = work / "one", work / "many"
    place: list[str | Path] = ["--data", many]
    plan = ""
    if moto:
        place = ["--data", LAKE, "--cache-dir", work / "cache"]
        asked = [program, "plan", traces, *place]
        planned = subprocess.run(asked, stdout=subprocess.PIPE, check=True, env=environment)
        plan = planned.stdout.decode().strip()
    began = time.monotonic()
    subprocess.run([program, "ingest", traces, "--data", one], check=True)
    print(f"one machine: {time.monotonic() - began:.1f} s")
    killer = Killer(program, many, plan, environment)
    killer.start()
    began = time.monotonic()
    command = [program, "ingest", traces, *place, "--engine", "ray"]
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
    here, there = digests(one), moto.digests() if moto else digests(many)
    if moto:
        here = {name: of for name, of in here.items() if name.endswith(".parquet")}
        left = [key for key in moto.keys() if "/v=" not in key and "/trace=" not in key]
        print(f"left in the store: {left}")
    differ = sorted(k for k in here.keys() | there.keys() if here.get(k) != there.get(k))
    answers = []
    for options in (["--data", one, "--no-cache"], [*place, "--engine", "ray"]):
        ask = [program, "metric", "--all", "--format", "json", *options]
        asked = subprocess.run(ask, stdout=subprocess.PIPE, env=environment, check=False)
        answers.append(json.loads(asked.stdout))
    print(f"{len(here)} files, {len(differ)} differ {differ[:5]}")
    print(f"metric --all is {'equal' if answers[0] == answers[1] else 'different'}")
    same = not differ and answers[0] == answers[1]
    if moto:
        same = same and not left
        kept = [key for key in moto.keys() if "/.partials/" in key]
    else:
        kept = [p.name for p in many.rglob(".partials/*.parquet")]
    shares = {name.split(".")[-2].split("-")[1] for name in kept}
    print(f"{len(kept)} files of what is of each rank, as shares of {sorted(shares)}")
    same = same and any(int(of) > 1 for of in shares)
    return int(not (here and same and killer.killed and killer.copies and most < size / 4))


if __name__ == "__main__":
    sys.exit(main())
