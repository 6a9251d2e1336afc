"""A profile of XLA: `.xplane.pb` by a decoder of protobuf's wire, or the `.trace.json` made of it.

Times are picoseconds. A device is a rank.
"""

from __future__ import annotations

import json
import re
import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from kineto import direction
from raw import Call, Event, Rank, Step, UnreadableError, data, kind_of, product

Stats = dict[str, Any]
CATEGORIES = re.compile(
    r"^(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"
    r"|send|recv)"
)
NCCL = re.compile(r"^(nccl|rccl)", re.IGNORECASE)
SHAPE = re.compile(r"\b(pred|token|bf16|[sufc]\d+|f8\w+)\[([\d,<=]*)\]")
TYPES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 2,
    8: 4,
    9: 8,
    10: 2,
    11: 4,
    12: 8,
    15: 8,
    16: 2,
    18: 16,
}


@dataclass
class Slice:
    """An event of a line."""

    name: str
    start: int
    dur: int
    stats: Stats
    text: str = ""
    instant: bool = False

    @property
    def end(self) -> int:
        """When it ends."""
        return self.start + self.dur


@dataclass
class Plane:
    """A device, or a host."""

    name: str
    lines: list[tuple[str, list[Slice]]] = field(default_factory=list)


@dataclass
class Op:
    """An instruction of a program."""

    opcode: str
    result: int | None
    operands: list[int]
    members: list[list[int]]
    size_in: int | None = None


def wire(raw: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number, and an integer or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        out = shift = 0
        while True:
            if at >= len(raw) or shift > 63:
                raise UnreadableError("a message that is cut short")
            byte = raw[at]
            at += 1
            out |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return out

    while at < len(raw):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or (varint() if key & 7 == 2 else -1)
        if size < 0 or at + size > len(raw):
            raise UnreadableError("a message that is cut short")
        yield key >> 3, raw[at : at + size]
        at += size


def signed(value: int) -> int:
    """An integer of 64 bits with its sign."""
    return value - (1 << 64) if value >= 1 << 63 else value


def one(raw: bytes) -> dict[int, Any]:
    """The fields of a message, of each the last."""
    return dict(wire(raw))


def packed(raw: Any) -> list[int]:
    """Integers in a row, or one of them."""
    if isinstance(raw, int):
        return [signed(raw)]
    out, rest = [], 0
    shift = 0
    for byte in raw:
        rest |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(signed(rest))
            rest = shift = 0
    return out


def text(raw: Any) -> str:
    """A text, of bytes that may be no UTF-8."""
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""


class Xplane:
    """The planes of an `.xplane.pb`, and the programs in it."""

    def __init__(self, raw: bytes) -> None:
        self.planes: list[Plane] = []
        self.programs: dict[int, Program] = {}
        self.began = 0
        for number, value in wire(raw):
            if number == 1:
                self.plane(value)

    def plane(self, raw: bytes) -> None:
        """One plane. Lines come before the names that they need."""
        fields = list(wire(raw))
        names = {n: text(one(e[2]).get(2, b"")) for n, e in self.entries(fields, 5)}
        metadata = dict(self.entries(fields, 4))
        plane = Plane(text(dict(fields).get(2, b"")))
        if plane.name == "Task Environment":
            said = self.stats([v for n, v in fields if n == 6], names)
            self.began = int(said.get("profile_start_time", 0)) * 1000
        known = {}
        for number, entry in metadata.items():
            about = list(wire(entry[2]))
            stats = self.stats([v for n, v in about if n == 5], names)
            known[number] = (text(dict(about).get(2, b"")), text(dict(about).get(4, b"")), stats)
            if isinstance(stats.get("Hlo Proto"), bytes):
                program = Program(stats["Hlo Proto"])
                self.programs[program.number] = program
        for number, value in fields:
            if number == 3:
                plane.lines.append(self.line(value, names, known))
        self.planes.append(plane)

    @staticmethod
    def entries(fields: list[tuple[int, Any]], which: int) -> Iterator[tuple[int, dict[int, Any]]]:
        """The entries of a map."""
        for number, value in fields:
            if number == which:
                entry = one(value)
                yield signed(entry.get(1, 0)), {1: 0, 2: b"", **entry}

    @staticmethod
    def stats(raw: list[bytes], names: dict[int, str]) -> Stats:
        """Statistics by name; a reference is a name, too."""
        out: Stats = {}
        for each in raw:
            stat = one(each)
            name = names.get(signed(stat.pop(1, 0)), "")
            for number, value in stat.items():
                out[name] = (
                    struct.unpack("<d", value)[0]
                    if number == 2
                    else text(value)
                    if number == 5
                    else names.get(value, "")
                    if number == 7
                    else signed(value)
                    if number == 4
                    else value
                )
        return out

    def line(
        self, raw: bytes, names: dict[int, str], known: dict[int, Any]
    ) -> tuple[str, list[Slice]]:
        """A line, with its events."""
        fields = list(wire(raw))
        begin = signed(dict(fields).get(3, 0)) * 1000
        out = []
        for number, value in fields:
            if number != 4:
                continue
            event = list(wire(value))
            plain = dict(event)
            if 5 in plain:
                continue
            name, display, stats = known.get(signed(plain.get(1, 0)), ("", "", {}))
            own = self.stats([v for n, v in event if n == 4], names)
            out.append(
                Slice(
                    display or name,
                    begin + signed(plain.get(2, 0)),
                    signed(plain.get(3, 0)),
                    {**stats, **own},
                    name,
                )
            )
        return text(dict(fields).get(2, b"")), out


class Program:
    """A module of HLO: its instructions, and which devices it runs on."""

    def __init__(self, raw: bytes) -> None:
        module = list(wire(one(raw).get(1, b"")))
        self.number = signed(dict(module).get(5, 0))
        self.devices: list[int] = []
        self.ops: dict[str, Op] = {}
        for number, value in module:
            if number == 3:
                self.computation(value)
            if number == 15:
                # Of each partition the devices of its replicas; ranks count replica by replica.
                parts = [packed(one(v).get(1, b"")) for n, v in wire(value) if n == 3]
                self.devices = [
                    device for replica in zip(*parts, strict=False) for device in replica
                ]

    def computation(self, raw: bytes) -> None:
        """The instructions of a computation; operands are of the same."""
        by_id: dict[int, tuple[str, Op]] = {}
        for number, value in wire(raw):
            if number == 2:
                fields = list(wire(value))
                plain = dict(fields)
                op = Op(
                    text(plain.get(2, b"")),
                    shape_bytes(plain.get(3, b"")),
                    packed(plain.get(36, b"")),
                    groups(fields),
                )
                by_id[signed(plain.get(35, 0))] = (text(plain.get(1, b"")), op)
        for name, op in by_id.values():
            sizes = [by_id[i][1].result if i in by_id else None for i in op.operands]
            op.size_in = None if None in sizes else sum(s for s in sizes if s is not None)
            self.ops[name] = op


def shape_bytes(raw: bytes) -> int | None:
    """The bytes of a shape, of a tuple those of its parts."""
    fields = list(wire(raw))
    parts = [shape_bytes(v) for n, v in fields if n == 4]
    if parts:
        return None if None in parts else sum(p for p in parts if p is not None)
    width = TYPES.get(dict(fields).get(2, 0))
    sizes = [size for n, v in fields if n == 3 for size in packed(v)]
    elements = product(sizes)
    return elements * width if width and elements is not None else None


def groups(fields: list[tuple[int, Any]]) -> list[list[int]]:
    """Who communicates with whom, in any of the three forms."""
    pairs = [tuple(packed_pair(v)) for n, v in fields if n == 52]
    if pairs:
        return rings([(a, b) for a, b in pairs])
    out = [packed(one(v).get(1, b"")) for n, v in fields if n == 49]
    for n, v in fields:
        if n == 87:
            for inner, value in wire(v):
                if inner == 1:
                    out.append(packed(one(value).get(1, b"")))
                if inner == 2:
                    iota = one(value)
                    out += regular(
                        iota.get(1, 0),
                        iota.get(2, 0),
                        packed(iota.get(3, b"")),
                        packed(iota.get(4, b"")),
                    )
    return [group for group in out if group]


def packed_pair(raw: bytes) -> list[int]:
    """Source and target."""
    pair = one(raw)
    return [signed(pair.get(1, 0)), signed(pair.get(2, 0))]


def rings(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Whom the pairs of a permute join."""
    out: list[set[int]] = []
    for pair in pairs[: 1 << 12]:
        touched = [group for group in out if group & set(pair)]
        out = [group for group in out if group not in touched] + [set(pair).union(*touched)]
    return [sorted(group) for group in out]


def regular(count: int, size: int, dims: list[int], order: list[int]) -> list[list[int]]:
    """Groups as a matrix of all numbers, reshaped and transposed."""
    total = count * size
    if not dims or len(dims) > 16 or product(dims) != total or total > 1 << 20:
        return []
    order = order or list(range(len(dims)))
    flat = []
    for at in range(total):
        # Coordinates in the transposed matrix, then the number that stands there.
        rest, coordinates = at, [0] * len(dims)
        for axis in reversed(order):
            coordinates[axis] = rest % dims[axis]
            rest //= dims[axis]
        number = 0
        for axis, dim in enumerate(dims):
            number = number * dim + coordinates[axis]
        flat.append(number)
    return [flat[i : i + size] for i in range(0, total, size)]


def planes_of_json(raw: bytes) -> list[Plane]:
    """The planes of a `.trace.json`: processes, with their threads as lines."""
    file = json.loads(raw, parse_float=Decimal, parse_constant=lambda _: None)
    events = file.get("traceEvents") if isinstance(file, dict) else None
    if not isinstance(events, list):
        raise UnreadableError("no list of events")
    planes: dict[Any, Plane] = {}
    lines: dict[Any, tuple[str, list[Slice]]] = {}
    names: dict[Any, str] = {}
    for event in events:
        if event.get("ph") == "M" and event.get("name") == "process_name":
            planes[event["pid"]] = Plane(str(event["args"]["name"]))
        if event.get("ph") == "M" and event.get("name") == "thread_name":
            names[event["pid"], event["tid"]] = str(event["args"]["name"])
    for event in events:
        if event.get("ph") not in ("X", "i") or event.get("pid") not in planes:
            continue
        key = event["pid"], event["tid"]
        if key not in lines:
            lines[key] = (names.get(key, ""), [])
            planes[key[0]].lines.append(lines[key])
        args = event.get("args") or {}
        lines[key][1].append(
            Slice(
                str(event["name"]),
                picoseconds(event["ts"]),
                picoseconds(event.get("dur", 0)),
                args,
                str(args.get("long_name", "")),
                event["ph"] == "i",
            )
        )
    return list(planes.values())


def picoseconds(us: Any) -> int:
    """Microseconds as they stand there, to the nearest picosecond."""
    value = Decimal(us) * 1_000_000
    if not abs(value) < 10**24:
        raise UnreadableError("a time that is none")
    return int(value.to_integral_value())


class Reader:
    """Makes ranks of planes."""

    def __init__(self, path: str) -> None:
        raw = data(path)
        self.programs: dict[int, Program] = {}
        if raw.lstrip()[:1] == b"{":
            self.planes = planes_of_json(raw)
        else:
            space = Xplane(raw)
            self.planes, self.programs = space.planes, space.programs
            # Times of several hosts are compared.
            for each in (s for plane in self.planes for _, line in plane.lines for s in line):
                each.start += space.began
        self.ranks: dict[int, Rank] = defaultdict(Rank)

    def read(self) -> dict[int, Rank]:
        """The ranks: devices by their place in the program, else by their number."""
        steps = []
        for plane in self.planes:
            device = re.search(r"/device:(TPU|GPU):(\d+)", plane.name)
            if device and device[1] == "TPU":
                self.tpu(int(device[2]), plane)
            elif device:
                self.gpu(int(device[2]), plane)
            elif "/host:CPU" in plane.name:
                self.cpu(plane)
                for _, slices in plane.lines:
                    steps += [
                        s
                        for s in slices
                        if str(s.stats.get("_r")) == "1"
                        and str(s.stats.get("step_num", "")).isdigit()
                    ]
        for rank in self.ranks.values():
            rank.unlinked = True
            rank.steps = sorted(
                (Step(int(s.stats["step_num"]), s.start, s.end) for s in steps),
                key=lambda step: step.start,
            )
        return dict(self.ranks)

    def tpu(self, number: int, plane: Plane) -> None:
        """The leaves of the operations of a chip, on its own clock."""
        slices = [s for name, line in plane.lines if name == "XLA Ops" for s in line]
        for each in slices:
            offset, dur = (each.stats.get(f"device_{k}_ps") for k in ("offset", "duration"))
            if offset is not None and dur is not None:
                each.start, each.dur = int(offset), int(dur)
        slices.sort(key=lambda s: (s.start, -s.dur))
        leaves = []
        for i, each in enumerate(slices):
            later = slices[i + 1] if i + 1 < len(slices) else None
            if not (later and later.start < each.end and later.end <= each.end and each.dur):
                leaves.append(each)
        begun: dict[str, Slice] = {}
        for each in leaves:
            category = str(each.stats.get("hlo_category", ""))
            start = re.search(r"-done\(.*?%?([\w.-]+-start[\w.]*)\)", each.text)
            if "-start" in each.name:
                begun[each.name.lstrip("%")] = each
            elif start and start[1] in begun:
                first = begun.pop(start[1])
                self.work(
                    number,
                    Slice(first.name, first.start, each.end - first.start, first.stats, first.text),
                    category,
                )
            else:
                self.work(number, each, category)
        for each in begun.values():
            self.work(number, each, str(each.stats.get("hlo_category", "")))

    def work(self, number: int, each: Slice, category: str) -> None:
        """An operation of a chip."""
        scatter = category == "all-reduce-scatter fusion"
        kind = "comm" if CATEGORIES.match(category) or scatter else "compute"
        kind = "copy" if category.startswith("copy") else kind
        event = Event(kind, each.name, each.start, each.end, number)
        flops = each.stats.get("model_flops", each.stats.get("flops"))
        event.flops = int(flops) if flops is not None else None
        event.label = category
        if kind == "copy":
            event.direction, event.bytes = copied(each.text)
        rank = self.ranks[number]
        rank.events.append(event)
        if kind == "comm":
            rank.calls.append(
                self.call_of_text(number, each, "reduce-scatter" if scatter else category)
            )

    @staticmethod
    def call_of_text(number: int, each: Slice, category: str) -> Call:
        """A call by the text of its operation."""
        call = Call(kind_of(category), each.start, each.end)
        head, _, rest = each.text.partition(" = ")
        found = re.search(r" ([a-z-]+)\(", rest)
        if not found:
            return call
        result = text_bytes(rest[: found.start()])
        operands = text_bytes(rest[found.end() :].split("), ")[0])
        call.size = operands if call.kind in ("reduce_scatter", "all_to_all") else result
        members = next((group for group in text_groups(rest) if number in group), None)
        if members:
            call.ranks, call.group = len(members), f"{head} {members}"
        elif call.kind == "reduce_scatter" and operands and result:
            call.ranks = operands // result
        return call

    def gpu(self, number: int, plane: Plane) -> None:
        """The streams of a GPU."""
        for name, slices in plane.lines:
            if not name.startswith("Stream #"):
                continue
            for each in slices:
                copy = "memcpy_details" in each.stats or "copyBuffer" in each.name
                kind = "comm" if NCCL.match(each.name) else "copy" if copy else "compute"
                kind = "set" if re.search("memset|fillBuffer", each.name, re.I) else kind
                event = Event(kind, each.name, each.start, each.end, number)
                size = re.search(r"size:(\d+)", str(each.stats.get("memcpy_details", "")))
                if kind == "copy":
                    event.direction = direction(each.name.replace("2", "to"))
                    event.bytes = int(size[1]) or None if size else None
                self.ranks[number].events.append(event)
                program = self.programs.get(int(each.stats.get("program_id", -1)))
                op = program.ops.get(str(each.stats.get("hlo_op"))) if program else None
                if kind == "comm" and program and op and CATEGORIES.match(op.opcode):
                    # The plane says the place of a device on its host, not in the job.
                    of = [*range(len(program.devices))] if not op.members else op.members[0]
                    one_group = len(op.members) < 2
                    call = self.call_of_op(each, op, of if one_group else None)
                    self.ranks[number].calls.append(call)

    def cpu(self, plane: Plane) -> None:
        """The thunks of the devices that a host plays by itself."""
        for _, slices in plane.lines:
            meetings = sorted((s for s in slices if s.name == "Rendezvous"), key=lambda s: s.start)
            for each in slices:
                if "hlo_op" in each.stats and "device_ordinal" in each.stats:
                    self.thunk(each, meetings)

    @staticmethod
    def call_of_op(each: Slice, op: Op, members: list[int] | None) -> Call:
        """A call by the operation of the program that it is."""
        call = Call(kind_of(op.opcode), each.start, each.end)
        call.ranks = len(members) if members else None
        call.group = f"{each.stats.get('hlo_module')} {each.stats['hlo_op']} {members}"
        call.size = op.result if call.kind in ("all_gather", "all_reduce") else op.size_in
        return call

    def thunk(self, each: Slice, meetings: list[Slice]) -> None:
        """One operation of a device of a host."""
        ordinal = int(each.stats["device_ordinal"])
        program = self.programs.get(int(each.stats.get("program_id", 0)))
        op = program.ops.get(str(each.stats["hlo_op"])) if program else None
        number = ordinal
        if program and ordinal in program.devices:
            number = program.devices.index(ordinal)
        place = bisect_left(meetings, each.start, key=lambda s: s.start)
        met = place < len(meetings) and meetings[place].end <= each.end
        said = str(meetings[place].stats.get("name", "")) if met else ""
        word = op.opcode if op else said.split("RendezvousKey")[0]
        kind = (
            "comm"
            if kind_of(word) != "unknown" and (op is None or CATEGORIES.match(word)) and word
            else "copy"
            if word == "copy"
            else "compute"
        )
        event = Event(kind, each.name, each.start, each.end, ordinal)
        rank = self.ranks[number]
        rank.events.append(event)
        if kind != "comm":
            return
        call = Call(kind_of(word), each.start, each.end)
        if op:
            members = next((g for g in op.members if number in g), None)
            if members is None and not op.members and program:
                members = list(range(len(program.devices)))
            call = self.call_of_op(each, op, members)
        elif found := re.search(r"global_devices=\[([\d, ]+)\]", said):
            call.ranks = len(found[1].split(","))
            call.group = f"{each.stats.get('hlo_module')} {each.stats['hlo_op']} {found[1]}"
        rank.calls.append(call)


def text_groups(rest: str) -> list[list[int]]:
    """The groups that the text of an operation names."""
    plain = re.search(r"replica_groups=\{(\{[\d,{}]*\})\}", rest)
    if plain:
        return [[int(i) for i in g.split(",")] for g in re.findall(r"\{([\d,]+)\}", plain[1])]
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", rest)
    if not iota:
        return []
    dims, order = ([int(i) for i in (iota[n] or "").split(",") if i] for n in (3, 4))
    return regular(int(iota[1]), int(iota[2]), dims, order)


def copied(text: str) -> tuple[str | None, int | None]:
    """Direction and bytes of a copy: the first of its result is the target, S(5) is the host."""
    parts = re.findall(r"\w+\[[\d,]*\]\{[^{}]*\}", text.partition(" = ")[2])
    if len(parts) < 2:
        return None, None
    target, origin = ("S(5)" in part for part in parts[:2])
    way = {(False, False): "d2d", (True, False): "d2h", (False, True): "h2d", (True, True): "h2h"}
    return way[target, origin], text_bytes(parts[0])


def text_bytes(shapes: str) -> int | None:
    """The bytes of the shapes that a text holds."""
    total = 0
    for name, dims in SHAPE.findall(shapes):
        bits = 8 if name == "pred" or name.startswith("f8") else int(re.sub(r"\D", "", name) or 0)
        elements = product(int(d) for d in dims.replace("<=", "").split(",") if d)
        if elements is None:
            return None
        total += elements * bits // 8
    return total or None
