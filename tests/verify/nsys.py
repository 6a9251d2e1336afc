"""An export of Nsight Systems, read with `sqlite3`: several ranks a file."""

from __future__ import annotations

import os
import re
import sqlite3
import struct
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from raw import (
    Call,
    Event,
    Ranges,
    Rank,
    Span,
    Step,
    UnreadableError,
    data,
    innermost,
    kind_of,
    pair_of,
)

COMM = re.compile(r"^(nccl|rccl)|nccl(Dev)?Kernel|cross_device_reduce|mscclpp", re.IGNORECASE)
API = re.compile("nccl[A-Z]")
STEP = re.compile(r"^(?:iteration|step)[ _](\d{1,18})$", re.IGNORECASE)
DIRECTIONS = {1: "h2d", 2: "d2h", 8: "d2d", 9: "h2h", 10: "p2p"}
COPY, SET, GRAPH = (f"CUPTI_ACTIVITY_KIND_{t}" for t in ("MEMCPY", "MEMSET", "GRAPH_TRACE"))
KERNEL, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
OTHERS = (
    "OSRT_API",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_OVERHEAD",
    "PROFILER_OVERHEAD",
)
PER_PEER = ("all_gather", "reduce_scatter", "all_to_all")
"""Calls whose count is that of one rank, so that S is so many times it."""

Row = dict[str, Any]
Key = tuple[int, int]
"""A process and a device."""


class Export:
    """The tables of a file, by name of column."""

    def __init__(self, path: str) -> None:
        self.copy: str | None = None
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        if packed:
            handle, self.copy = tempfile.mkstemp(suffix=".sqlite")
            with os.fdopen(handle, "wb") as out:
                out.write(data(path))
        where = os.path.abspath(self.copy or path).replace("%", "%25").replace("?", "%3f")
        self.file = sqlite3.connect(
            f"file:{where.replace('#', '%23')}?mode=ro&immutable=1", uri=True
        )
        self.file.text_factory = lambda raw: raw.decode("utf-8", "replace")
        self.file.row_factory = sqlite3.Row
        tables = self.file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables = {row[0] for row in tables}
        self.base = 0
        self.base = self.began()
        self.strings = {row["id"]: row["value"] for row in self.rows("StringIds")}

    def began(self) -> int:
        """The Unix time of time 0: clocks of several files are compared."""
        shift = 0
        for row in self.rows("META_DATA_EXPORT"):
            if row.get("name") == "EXPORT_CONFIG_TIME_SHIFT":
                shift = int(row["value"])
        for row in self.rows("TARGET_INFO_SESSION_START_TIME"):
            return (row.get("utcEpochNs") or 0) - shift
        return 0

    def rows(self, table: str) -> Iterator[Row]:
        """The rows of a table; none where there is no such table."""
        if table in self.tables:
            for row in self.file.execute(f'SELECT * FROM "{table}"'):
                out = dict(zip(row.keys(), row, strict=True))
                for key in ("start", "end"):
                    if self.base and out.get(key) is not None:
                        out[key] += self.base
                yield out

    def text(self, row: Row, *columns: str) -> str:
        """The first of some names that the file resolves."""
        for column in columns:
            value = self.strings.get(row.get(column))
            if value:
                return str(value)
        return ""

    def close(self) -> None:
        """Leaves nothing behind."""
        self.file.close()
        if self.copy:
            os.unlink(self.copy)


class Reader:
    """Reads one file: what ran on each device, and the calls around it."""

    def __init__(self, path: str) -> None:
        self.export = Export(path)
        self.ranks: dict[Key, Rank] = defaultdict(Rank)
        self.host: Counter[str] = Counter()
        self.span: tuple[int, int] | None = None
        self.launches: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.ranges: dict[int, list[Span]] = defaultdict(list)
        self.sizes: dict[int, dict[int, int]] = defaultdict(dict)
        self.places: dict[int, dict[int, int]] = defaultdict(dict)
        self.held: dict[int, Ranges] = {}
        self.groups: dict[int, list[tuple[str, Row]]] = {}
        self.schemas: dict[int, list[Row]] = defaultdict(list)

    def read(self) -> dict[Key, Rank]:
        """The ranks by process and device."""
        try:
            if KERNEL in self.export.tables:
                names = self.export.file.execute(f'SELECT * FROM "{KERNEL}" LIMIT 0').description
                if "deviceId" not in {name[0] for name in names}:
                    raise UnreadableError("kernels without a device")
            for row in self.export.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES"):
                self.schemas[row["schemaId"]].append(row)
            self.read_host()
            self.held = defaultdict(lambda: Ranges([]))
            for thread, ranges in self.ranges.items():
                self.held[thread] = Ranges(ranges)
                self.group([one for one in ranges if API.match(one[2][0])])
            self.read_devices()
            pids = {process(thread) for thread in self.ranges}
            if not self.ranks and len(pids) == 1:
                self.ranks[pids.pop(), -1].host_span = self.span
            for key, rank in self.ranks.items():
                self.steps(key, rank)
            return self.ranks
        finally:
            self.export.close()

    def read_host(self) -> None:
        """Calls of the runtime, and ranges of NVTX."""
        for row in self.export.rows(RUNTIME):
            self.slice(RUNTIME, row["start"], row["end"])
            if row["globalTid"] is None or row["end"] is None:
                continue
            key = (process(row["globalTid"]), row["correlationId"])
            dur = row["end"] - row["start"]
            if dur >= self.launches.get(key, (0, -1, 0))[1]:
                self.launches[key] = (row["start"], dur, row["globalTid"])
        for row in self.export.rows("NVTX_EVENTS"):
            name = row.get("text") or self.export.text(row, "textId")
            if row["eventType"] in (59, 60) and row["end"] is not None:
                self.slice("NVTX_EVENTS", row["start"], row["end"])
                self.ranges[row["globalTid"]].append((row["start"], row["end"], (name, row)))
                fields = self.payload(row)
                if "No. of ranks" in fields:
                    comm = fields["NCCL communicator ID"]
                    self.sizes[process(row["globalTid"])][comm] = fields["No. of ranks"]
                    if "Rank" in fields:
                        self.places[process(row["globalTid"])][comm] = fields["Rank"]
        for table in OTHERS:
            for row in self.export.rows(table):
                self.slice(table, row["start"], row["end"])

    def slice(self, table: str, start: int, end: int | None) -> None:
        """Counts a slice of the host."""
        if end is not None:
            self.host[table] += 1
            span = self.span or (start, end)
            self.span = (min(span[0], start), max(span[1], end))

    def payload(self, row: Row) -> dict[str, int]:
        """The fields that NCCL puts into a range; none where the bytes are not as they must be."""
        raw = row.get("binaryData")
        if not isinstance(raw, bytes) or len(raw) < 32:
            return {}
        _, schema, size, place = struct.unpack_from("<4Q", raw)
        entries = self.schemas.get(schema, [])
        if len(raw) < 32 + size or place not in (32, 32 + size):
            return {}
        out = {}
        for entry in entries:
            form = {5: "<i", 6: "<I", 17: "<q", 18: "<Q", 22: "<Q"}.get(entry["type"])
            offset = entry["offset"] or 0
            if form and offset + struct.calcsize(form) <= size:
                out[str(entry["name"])] = int(struct.unpack_from(form, raw, 32 + offset)[0])
        return out

    def read_devices(self) -> None:
        """Kernels, copies, sets and graphs."""
        for table in (KERNEL, COPY, SET, GRAPH):
            for row in self.export.rows(table):
                if row["end"] is None or row["deviceId"] is None or row["end"] < row["start"]:
                    continue
                pid = process(row.get("globalPid") or 0)
                event = self.device_event(table, row)
                rank = self.ranks[pid, row["deviceId"]]
                rank.events.append(event)
                launch = self.launches.get((pid, row["correlationId"]))
                if launch:
                    event.launch, event.call = launch[0], row["correlationId"]
                if event.kind == "comm":
                    rank.calls.append(self.call(event, launch))

    def device_event(self, table: str, row: Row) -> Event:
        """A row of a table of the device."""
        event = Event("graph", "", row["start"], row["end"], row["deviceId"])
        event.stream = row.get("streamId")
        if table == KERNEL:
            event.name = self.export.text(row, "demangledName", "shortName")
            short = self.export.text(row, "shortName", "demangledName")
            event.kind = "other" if not short else "comm" if COMM.search(short) else "compute"
        elif table in (COPY, SET):
            event.kind = "copy" if table == COPY else "set"
            event.bytes = row.get("bytes")
            event.direction = DIRECTIONS.get(row.get("copyKind") or 0)
        return event

    def call(self, event: Event, launch: tuple[int, int, int] | None) -> Call:
        """What a kernel communicates, by the ranges around its launch."""
        call = Call(kind_of(event.name), event.start, event.end, launch=event.launch)
        if not launch:
            return call
        at, _, thread = launch
        around = self.held[thread].around(at)
        torch = innermost(r for r in around if r[2][0].startswith("nccl:"))
        api = innermost(r for r in around if API.match(r[2][0]))
        if api:
            self.size(call, thread, self.groups.get(id(api[1]), [api]))
        if torch:
            call.kind = kind_of(torch[0].split(",")[0])
        return call

    def group(self, ranges: list[Span]) -> None:
        """The calls between the outermost start of a group and its end, which launches them."""
        held: list[tuple[str, Row]] = []
        depth = 0
        for _, _, (name, row) in sorted(ranges, key=lambda one: (one[0], -one[1])):
            if name == "ncclGroupStart":
                held = [] if depth == 0 else held
                depth += 1
            elif name == "ncclGroupEnd":
                depth = max(0, depth - 1)
                self.groups[id(row)] = [] if depth else held
                held = held if depth else []
            elif depth:
                held.append((name, row))

    def size(self, call: Call, thread: int, held: list[tuple[str, Row]]) -> None:
        """Kind, bytes and group that the calls of NCCL's API say."""
        held = [(name, row) for name, row in held if kind_of(name) != "unknown"]
        kinds = {kind_of(name) for name, _ in held}
        fields = [(kind_of(name), self.payload(row)) for name, row in held]
        if len(kinds) == 1:
            call.kind = next(iter(kinds))
        elif kinds == {"send", "recv"}:
            call.kind = "send_recv"
        known = [(kind, f) for kind, f in fields if "Message size [bytes]" in f]
        if not known or len(known) < len(fields):
            return
        comm = known[0][1].get("NCCL communicator ID")
        call.ranks = self.sizes[process(thread)].get(comm) if comm is not None else None
        call.group = None if comm is None else str(comm)
        sizes = [f["Message size [bytes]"] for kind, f in known if kind != "recv"]
        call.size = sum(sizes)
        if call.kind in ("send", "recv", "send_recv"):
            call.size = call.size if sizes else sum(f["Message size [bytes]"] for _, f in known)
            peers = {f.get("Peer rank") for _, f in known}
            own = self.places[process(thread)].get(comm) if comm is not None else None
            call.pair = pair_of(call.kind, own, peers.pop() if len(peers) == 1 else None)
            # What a rank sends to itself leaves nothing.
            sends = [f for kind, f in known if kind == "send" and f.get("Peer rank") == own]
            if own is not None and sends:
                call.sent = call.size - sum(f["Message size [bytes]"] for f in sends)
        if call.kind in PER_PEER:
            call.size = call.size * call.ranks if call.ranks else None

    def steps(self, key: Key, rank: Rank) -> None:
        """Ranges whose names number a step."""
        for thread, ranges in self.ranges.items():
            if process(thread) != key[0]:
                continue
            for start, end, (name, _) in ranges:
                if found := STEP.match(name):
                    rank.steps.append(Step(int(found[1]), start, end))
        rank.steps.sort(key=lambda step: step.start)


def process(number: int) -> int:
    """The pid in a global id of a thread or a process."""
    return (number >> 24) & 0xFFFFFF
