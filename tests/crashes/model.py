"""A file system that loses what it may: the states that a crash leaves of a recording.

A **kill** leaves every operation up to it. A **loss of power** leaves what was synced, and of the
rest any part of those below:

- A change of entries is on the disk when its folder was synced after it; a rename, which is one
  change in two folders, when one of both was. Changes of one name stay in their order.
- Bytes and sizes of a file are on the disk when the file was synced after they were written.
  A sync of a file says nothing of its name, and one of a folder nothing of the files in it.

Real file systems promise more: ext4, XFS and btrfs keep the order of all changes of entries. What
holds here holds there.

Of a crash after each operation these losses are tried: all changes of entries, none; those of each
folder, all but those of each folder; each change by itself; a few drawn by chance. Each with all
bytes and without those that were not synced; the first two also with bytes of each file, and of
all files, missing in other ways (`WAYS`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from record import Data, Entries, Recording, Sync

# How the bytes of a file that were not synced may be missing.
WAYS = ("lost", "zeros", "half", "hole")

# Further losses of entries that are drawn at each operation.
DRAWN = 3


@dataclass(frozen=True)
class State:
    """A crash: after so many operations, without some changes of entries, and with bytes missing of
    some files, or of all (None).
    """

    after: int
    is_kill: bool
    without: frozenset[int] = frozenset()
    missing: tuple[tuple[int | None, str], ...] = ()

    def __str__(self) -> str:
        if self.is_kill:
            return f"a kill after {self.after} operations"
        text = f"power lost after {self.after} operations"
        if self.without:
            text += f", without changes {sorted(self.without)}"
        for inode, way in self.missing:
            text += f", bytes of {'all files' if inode is None else f'inode {inode}'}: {way}"
        return text


@dataclass
class Tree:
    """What is there: the entries of each folder, and the bytes of files as they are asked for."""

    entries: dict[int, dict[str, int]]
    data: Callable[[int], bytes]
    digest: Callable[[int], str]

    def walk(self, folder: int = 0, prefix: str = "") -> Iterator[tuple[str, int, bool]]:
        """Path, inode, and whether it is a folder: all that is there, outer ones first."""
        for name, inode in sorted(self.entries[folder].items()):
            path = prefix + name
            is_folder = inode in self.entries
            yield path, inode, is_folder
            if is_folder:
                yield from self.walk(inode, path + "/")


@dataclass
class Model:
    """The states of a recording."""

    recording: Recording
    # For each operation the sync that it is on the disk after.
    safe: list[float] = field(init=False)
    changes: list[tuple[int, Entries]] = field(init=False)
    writes: dict[int, list[tuple[int, Data]]] = field(init=False)
    contents: dict[tuple[int, int, int, str], tuple[bytes, str]] = field(default_factory=dict)
    # Changes by their number, and those of each folder.
    by_number: dict[int, Entries] = field(init=False)
    folders: dict[int, list[tuple[int, str, int | None]]] = field(init=False)
    # All folders after so many operations, of which nothing is lost.
    whole: tuple[int, dict[int, dict[str, int]]] = field(init=False)

    def __post_init__(self) -> None:
        ops = self.recording.ops
        self.safe = [float("inf")] * len(ops)
        self.changes = [(i, op) for i, op in enumerate(ops) if isinstance(op, Entries)]
        self.by_number = dict(self.changes)
        self.folders = {i.number: [] for i in self.recording.inodes if i.is_folder}
        for i, change in self.changes:
            for folder, name, inode in change.changes:
                self.folders[folder].append((i, name, inode))
        self.whole = (-1, {})
        self.writes = {}
        for i, op in enumerate(ops):
            if isinstance(op, Data):
                self.writes.setdefault(op.inode, []).append((i, op))
        for at, sync in enumerate(ops):
            if not isinstance(sync, Sync):
                continue
            for i, op in enumerate(ops[: sync.begun]):
                if isinstance(op, Entries):
                    is_of = sync.inode is None or any(c[0] == sync.inode for c in op.changes)
                else:
                    is_of = isinstance(op, Data) and sync.inode in (None, op.inode)
                if is_of:
                    self.safe[i] = min(self.safe[i], at)
        # What was done to a name before is on the disk with what was done to it last.
        soonest: dict[tuple[int, str], float] = {}
        for i, op in reversed(self.changes):
            keys = [(folder, name) for folder, name, _ in op.changes]
            self.safe[i] = min([self.safe[i], *(soonest.get(k, float("inf")) for k in keys)])
            for key in keys:
                soonest[key] = self.safe[i]

    def content(self, inode: int, after: int, way: str) -> tuple[bytes, str]:
        """Bytes of a file, and their hash."""
        writes = self.writes.get(inode, [])
        done = sum(i < after for i, _ in writes)
        synced = sum(i < after and self.safe[i] < after for i, _ in writes)
        if synced == done:
            way = ""
        key = (inode, done, synced, way)
        if key not in self.contents:
            before = self.recording.inodes[inode].data
            whole = played(before, [op for _, op in writes[:done]])
            kept = played(before, [op for i, op in writes[:done] if self.safe[i] < after])
            data = torn(whole, kept, way)
            self.contents[key] = data, hashlib.sha256(data).hexdigest()
        return self.contents[key]

    def dirty(self, after: int) -> list[int]:
        """Files with bytes that were not synced."""
        return [
            inode
            for inode, writes in self.writes.items()
            if any(i < after <= self.safe[i] for i, _ in writes)
        ]

    def folder(self, number: int, after: int, without: frozenset[int]) -> dict[str, int]:
        """The entries of a folder after so many operations, without some of them."""
        entries = dict(self.recording.inodes[number].entries)
        for i, name, inode in self.folders[number]:
            if i >= after:
                break
            if i in without:
                continue
            if inode is None:
                entries.pop(name, None)
            else:
                entries[name] = inode
        return entries

    def tree(self, state: State) -> Tree:
        """What a crash leaves."""
        after, whole = self.whole
        if after != state.after:
            whole = {n: self.folder(n, state.after, frozenset()) for n in self.folders}
            self.whole = state.after, whole
        entries = dict(whole)
        for i in state.without:
            for folder, _, _ in self.by_number[i].changes:
                entries[folder] = self.folder(folder, state.after, state.without)
        ways = dict(state.missing)

        def content(inode: int) -> tuple[bytes, str]:
            return self.content(inode, state.after, ways.get(inode, ways.get(None, "")))

        return Tree(entries, lambda inode: content(inode)[0], lambda inode: content(inode)[1])

    def losses(self, afters: Iterable[int], seed: int) -> Iterator[State]:
        """The losses of power after so many operations."""
        for after in afters:
            open_ = [(i, op) for i, op in self.changes if i < after <= self.safe[i]]
            everything = frozenset(i for i, _ in open_)
            dirty = self.dirty(after)
            for without in dict.fromkeys((frozenset(), everything)):
                yield State(after, False, without)
                for way in WAYS:
                    if len(dirty) > 1:
                        yield State(after, False, without, ((None, way),))
                    for inode in dirty:
                        yield State(after, False, without, ((inode, way),))
            for without in self.partial(open_, random.Random(f"{seed} {after}")):
                if without in (frozenset(), everything):
                    continue
                yield State(after, False, without)
                if dirty:
                    yield State(after, False, without, ((None, "lost"),))

    def partial(
        self, open_: list[tuple[int, Entries]], chance: random.Random
    ) -> Iterator[frozenset[int]]:
        """Parts of the changes of entries that may be lost."""
        everything = {i for i, _ in open_}
        folders = sorted({c[0] for _, op in open_ for c in op.changes})
        for folder in folders:
            of_it = {i for i, op in open_ if any(c[0] == folder for c in op.changes)}
            yield closed(open_, of_it)
            yield closed(open_, everything - of_it)
        for i in sorted(everything):
            yield closed(open_, {i})
        for _ in range(DRAWN if len(open_) > 2 else 0):
            yield closed(open_, {i for i in sorted(everything) if chance.random() < 0.5})


def played(data: bytes, writes: list[Data]) -> bytes:
    """Bytes of a file after writes."""
    out = bytearray(data)
    for op in writes:
        if op.data is None:
            del out[op.offset :]
            out.extend(bytes(op.offset - len(out)))
        else:
            out.extend(bytes(max(0, op.offset - len(out))))
            out[op.offset : op.offset + len(op.data)] = op.data
    return bytes(out)


def torn(whole: bytes, kept: bytes, way: str) -> bytes:
    """Bytes of a file of which some were not synced."""
    if way == "lost":
        return kept
    if way == "zeros":
        return kept[: len(whole)] + bytes(max(0, len(whole) - len(kept)))
    if way == "half":
        return whole[: max(len(whole) // 2, min(len(kept), len(whole)))]
    if way == "hole":
        third = len(whole) // 3
        return whole[:third] + bytes(third) + whole[2 * third :]
    return whole


def closed(open_: list[tuple[int, Entries]], lost: set[int]) -> frozenset[int]:
    """Changes that are lost, with the later ones of the same names."""
    out: set[int] = set()
    names: set[tuple[int, str]] = set()
    for i, op in open_:
        keys = {(folder, name) for folder, name, _ in op.changes}
        if i in lost or keys & names:
            out.add(i)
            names |= keys
    return frozenset(out)
