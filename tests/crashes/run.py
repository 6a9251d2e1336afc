#!/usr/bin/env python3
"""Crashes, replayed: what the disk may hold after a crash at any moment of a command.

    run.py [PROGRAM] [--all | --sample N] [--only WORD]... [--seed N] [--jobs N]

Commands run once under `strace`, which says every byte that they write. The states that a kill or
a loss of power may leave (see model.py) are made one by one in a folder. In each the program must
find every trace whole, as it was before the command or as it is after, and the next ingest must end
as a clean one does, without a hand.

States that differ only in what the next command removes unread are one: of each such class one is
checked, and `--more` further ones that are drawn. Prints a line for each command; exit code 1 when
a promise does not hold.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check import Checker
from commands import COMMANDS, Command
from model import Model, State
from place import Place, Wrong
from record import Recording, Untraceable, record


def recorded(place: Place, command: Command) -> tuple[Recording, Path, Path]:
    """Runs a command under strace; what it did, and the folder before and after."""
    root = place.same_folder("same") if command.fixed else place.new_folder("root")
    before = place.new_folder("before")
    command.prepare(place, root)
    shutil.copytree(root, before, dirs_exist_ok=True, symlinks=True)
    recording = record(
        [place.program, *command.full(place, root, command.given)],
        root,
        place.folder / "strace",
        command.inject,
        place.env,
    )
    if recording.exit_code:
        raise Wrong(f"the command itself fails: {recording.said[:300]}")
    after = place.new_folder("after")
    root.rename(after)
    return recording, before, after


def replayed_whole(place: Place, model: Model, after: Path) -> None:
    """The recording, replayed to its end, is what the command left."""
    root = place.new_folder("whole")
    place.write(model.tree(State(len(model.recording.ops), True)), root, True)

    def files(folder: Path) -> dict[str, bytes | None]:
        found = folder.rglob("*")
        return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in found}

    ours, theirs = files(root), files(after)
    place.drop(root)
    if ours != theirs:
        names = [n for n in ours | theirs if ours.get(n, "") != theirs.get(n, "")]
        raise Wrong(f"the recording is not what was done: {sorted(names)[:5]}")


def chosen(
    model: Model, command: Command, options: argparse.Namespace
) -> tuple[list[State], Counter[str]]:
    """The states to check, and how many there are."""
    chance = random.Random(f"{options.seed} {command.name}")
    counts: Counter[str] = Counter()
    first: dict[object, State] = {}
    others: list[State] = []
    end = len(model.recording.ops)
    afters: list[int] = list(range(end + 1))
    if not options.all:
        afters = [*chance.sample(afters, min(MOMENTS, end)), end]
    kills = [State(after, True) for after in afters]
    for state in [*kills, *model.losses(afters, options.seed)]:
        counts["kills" if state.is_kill else "losses"] += 1
        tree = model.tree(state)
        key = (state.is_kill, is_end(model, state), command.signature(tree, state.is_kill))
        if key not in first:
            first[key] = state
        elif not state.is_kill:
            others.append(state)
    counts["classes"] = len(first)
    states = list(first.values())
    if options.all:
        if options.most:
            states = chance.sample(states, min(options.most, len(states)))
        states += chance.sample(others, min(options.more, len(others)))
    else:
        states = chance.sample(states, min(options.sample, len(states)))
    return states, counts


# Moments of a command of which a sample has states.
MOMENTS = 10


def is_end(model: Model, state: State) -> bool:
    """Whether the command was done."""
    return state.after == len(model.recording.ops)


def tried(place: Place, command: Command, options: argparse.Namespace) -> tuple[str, int]:
    """Records a command and checks what its crashes leave; a line, and the number of faults."""
    started = time.monotonic()
    recording, before, after = recorded(place, command)
    model = Model(recording)
    replayed_whole(place, model, after)
    checker = Checker(place, command, before, after)
    states, counts = chosen(model, command, options)
    ready = time.monotonic()

    def look(state: State) -> str | None:
        root = place.same_folder("same") if command.fixed else place.new_folder("state")
        try:
            place.write(model.tree(state), root, state.is_kill)
            checker.check(root, state.is_kill, is_end(model, state) and not state.is_kill)
        except Wrong as wrong:
            return str(wrong)
        finally:
            place.drop(root)
        return None

    with ThreadPoolExecutor(1 if command.fixed else options.jobs) as pool:
        faults = [(s, f) for s, f in zip(states, pool.map(look, states), strict=True) if f]
    seen: Counter[str] = Counter()
    for state, fault in faults:
        seen[fault] += 1
        if seen[fault] == 1 and len(seen) <= options.shown:
            print(f"  {command.name}: {state}\n    {fault}", flush=True)
    for folder in (before, after):
        place.drop(folder)
    if command.scratch and options.all and not checker.refused:
        raise Wrong("nothing is lost of files that were never synced: the model is wrong")
    said = (
        f"{command.name:<14} {len(recording.ops):>5} operations {counts['kills']:>5} kills "
        f"{counts['losses']:>7} losses {counts['classes']:>5} classes {len(states):>5} checked "
        f"{len(faults):>4} faults  {ready - started:.0f} + {time.monotonic() - ready:.0f} s"
    )
    if checker.refused:
        said += f"  {checker.refused} refused, {checker.forced} of them mended by --force alone"
    return said, len(faults)


def main() -> int:
    """Tries the commands; the exit code."""
    target = os.environ.get("CARGO_TARGET_DIR") or Path.home() / ".cache/ccl-sql/target"
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", nargs="?", default=str(Path(target) / "release" / "ccl-sql"))
    parser.add_argument("--all", action="store_true", help="every class of states")
    parser.add_argument("--sample", type=int, default=8, help="states of each command")
    parser.add_argument("--more", type=int, default=40, help="with --all: further states of each")
    parser.add_argument("--most", type=int, help="with --all: no more classes of each than these")
    parser.add_argument("--only", action="append", default=[], help="commands that hold this word")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="states that are checked at a time")
    parser.add_argument("--shown", type=int, default=5, help="kinds of faults that are printed")
    options = parser.parse_args()
    shared = Path("/dev/shm")  # noqa: S108
    where = shared if os.access(shared, os.W_OK) else None
    faults = 0
    with tempfile.TemporaryDirectory(prefix="ccl-sql-crashes-", dir=where) as folder:
        program = str(Path(options.program).resolve())
        place = Place(program, Path(folder).resolve())
        for command in COMMANDS:
            if options.only and not any(word in command.name for word in options.only):
                continue
            try:
                said, wrong = tried(place, command, options)
            except Untraceable as why:
                print(f"nothing is tried here: {why}")
                return 0
            except Wrong as why:
                said, wrong = f"{command.name:<14} {why}", 1
            print(said, flush=True)
            faults += wrong
    print(f"{faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
