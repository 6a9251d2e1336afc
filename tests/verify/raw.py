"""What the readers of raw files share: the bytes of a file, events, calls, and sets of intervals.

Nothing here knows how `ccl-sql` reads or computes. All is written to be plainly right, not fast.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LIMIT = 1 << 30
"""Bytes of one file, unpacked, above which this program leaves it: it holds all of it at once."""

DEVICE = ("compute", "comm", "copy", "set")
"""Classes of work on a device. A whole graph is busy time too, of no kind."""

Interval = tuple[int, int]


class UnreadableError(Exception):
    """A file that this program does not read, and why."""


@dataclass
class Event:
    """Work on a device, in ticks of its trace."""

    kind: str
    name: str
    start: int
    end: int
    device: int
    stream: int | None = None
    bytes: int | None = None
    direction: str | None = None
    launch: int | None = None
    call: int | None = None
    """Number of the call that launched it: one call may launch many."""
    label: str = ""
    """What stands for the name, where names are numbered operations."""
    flops: int | None = None

    @property
    def dur(self) -> int:
        return self.end - self.start


@dataclass
class Call:
    """What one rank does in a call of communication."""

    kind: str
    start: int
    end: int
    size: int | None = None
    """S of nccl-tests, in bytes."""
    ranks: int | None = None
    """Size of the group, as the trace states it."""
    group: str | None = None
    """What is the same on all ranks of the group, and on no others."""
    seq: int | None = None
    sent: int | None = None
    """Bytes that the splits of an uneven all-to-all send to others; -1 where they are cut off."""
    uneven: bool = False
    """Whether no one size describes it: what comes out is not what went in."""
    launch: int | None = None

    @property
    def dur(self) -> int:
        return self.end - self.start


@dataclass
class Step:
    """A step of a rank."""

    number: int
    start: int
    end: int


@dataclass
class Rank:
    """All that is known of one rank."""

    events: list[Event] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    host: Counter[str] = field(default_factory=Counter)
    """Slices of the host, by category as recorded."""
    host_span: Interval | None = None
    memory: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Samples of each device: ticks, bytes allocated, bytes reserved."""
    unlinked: bool = False
    """Whether the profiler says of no event what launched it, so that steps go by their own start."""


@dataclass
class Trace:
    """The raw files of a trace."""

    profiler: str
    per_second: int
    ranks: dict[int, Rank] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)
    """Figures, by name, that this program cannot recompute here, and why."""
    on_host: bool = False
    """Whether there is no work on devices: communication runs on the host, as gloo's does."""
    world: int | None = None
    """Ranks of the job, as the trace states it."""
    snapshots: dict[int, dict[str, float]] = field(default_factory=dict)
    """What the memory of a rank held, in bytes."""
    card: dict[str, str] = field(default_factory=dict)
    """The workload card, flat: `workload.data.batch_size`."""


def data(path: str) -> bytes:
    """The bytes of a file, unpacked if they are gzip."""
    with open(path, "rb") as file:
        head = file.read(2)
        file.seek(0)
        if head == b"PK":
            raise UnreadableError("a zip archive")
        if head != b"\x1f\x8b":
            whole = file.read(LIMIT + 1)
            if len(whole) > LIMIT:
                raise UnreadableError("more than 1 GiB")
            return whole
        out = bytearray()
        unpack = zlib.decompressobj(31)
        while piece := file.read(1 << 20):
            while piece:
                out += unpack.decompress(piece, LIMIT + 1 - len(out))
                if len(out) > LIMIT:
                    raise UnreadableError("more than 1 GiB when it is unpacked")
                piece = unpack.unconsumed_tail
                if unpack.eof:
                    piece = unpack.unused_data
                    unpack = zlib.decompressobj(31)
        return bytes(out)


def integer(value: Any) -> int | None:
    """A number that is an integer, and no truth value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def product(sizes: Iterable[Any]) -> int | None:
    """The elements of a tensor of these sizes."""
    out = 1
    for size in sizes:
        if integer(size) is None:
            return None
        out *= size
    return out


def union(parts: Iterable[Interval]) -> list[Interval]:
    """Intervals merged, half-open, in order."""
    out: list[Interval] = []
    for start, end in sorted(p for p in parts if p[1] > p[0]):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def length(parts: Iterable[Interval]) -> int:
    """The time that intervals cover."""
    return sum(end - start for start, end in union(parts))


def common(left: Iterable[Interval], right: Iterable[Interval]) -> int:
    """The time that both cover: what each covers, less what they cover together."""
    left, right = list(left), list(right)
    return length(left) + length(right) - length([*left, *right])


def innermost(ranges: list[tuple[int, int, Any]], at: int) -> Any:
    """Of ranges (start, end, what) the shortest that holds a time."""
    best: tuple[int, Any] | None = None
    for start, end, what in ranges:
        if start <= at < end and (best is None or end - start <= best[0]):
            best = (end - start, what)
    return None if best is None else best[1]


KINDS = [
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("collectivepermute", "send_recv"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("barrier", "barrier"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("send", "send"),
    ("recv", "recv"),
]


def kind_of(name: str) -> str:
    """The kind of communication that a name says, in whatever spelling."""
    plain = "".join(c for c in name.lower() if c.isalpha())
    for word, kind in KINDS:
        if word in plain:
            return kind
    return "unknown"


def bus_factor(kind: str, n: int) -> float:
    """The factor of nccl-tests between algorithm and bus bandwidth."""
    if kind == "all_reduce":
        return 2 * (n - 1) / n
    if kind in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (n - 1) / n
    return 1.0
