"""What the readers of raw files share: the bytes of a file, events, calls, and sets of intervals.

Nothing here knows how `ccl-sql` reads or computes. All is written to be plainly right, not fast.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
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
        """How long it takes."""
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
    peer: int | None = None
    """Who gets what is sent, or sends what is received: a rank of the job."""
    pair: str | None = None
    """The two ranks of a send or receive, or of an exchange of both, as the group names them."""
    launch: int | None = None

    @property
    def dur(self) -> int:
        """How long it takes."""
        return self.end - self.start


def pair_of(kind: str, own: int | None, peer: int | None) -> str | None:
    """What a send and its receive have in common."""
    if own is None or peer is None:
        return None
    ways = {"send": f"{own} to {peer}", "recv": f"{peer} to {own}"}
    return ways.get(kind, f"{min(own, peer)} and {max(own, peer)}")


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
    """Whether nothing says what launched an event, so that steps go by its own start."""


@dataclass(eq=False)
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
        if out >= 1 << 63:
            return None
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


Span = tuple[int, int, Any]
"""Start, end, and what it is."""


class Ranges:
    """Ranges of a thread, asked for those that hold a time."""

    def __init__(self, ranges: Iterable[Span]) -> None:
        self.ranges = sorted(ranges, key=lambda one: (one[0], -one[1]))
        self.starts = [one[0] for one in self.ranges]
        self.latest = list(accumulate((one[1] for one in self.ranges), max))

    def around(self, at: int) -> list[Span]:
        """Those that hold a time, the latest start first."""
        out = []
        place = bisect_right(self.starts, at) - 1
        while place >= 0 and self.latest[place] > at:
            if self.ranges[place][1] > at:
                out.append(self.ranges[place])
            place -= 1
        return out


def innermost(ranges: Iterable[Span]) -> Any:
    """What the shortest range is."""
    best = min(ranges, key=lambda one: one[1] - one[0], default=None)
    return None if best is None else best[2]


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
