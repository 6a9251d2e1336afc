"""A Kineto trace of PyTorch, read with `json`: one rank a file."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from typing import Any

from raw import (
    Call,
    Event,
    Ranges,
    Rank,
    Step,
    UnreadableError,
    data,
    innermost,
    integer,
    kind_of,
    pair_of,
    product,
)

COMM = re.compile(
    r"^(nccl|rccl)|nccl(Dev)?Kernel|rcclGenericKernel|cross_device_reduce|mscclpp"
    r"|(one|two)_?shot_?all_?reduce|allreduce_fusion|quickreduce::|deep_ep::.*(dispatch|combine)",
    re.IGNORECASE,
)
CATEGORIES = {"gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "set", "memset": "set"}
RUNTIME = ("cuda_runtime", "cuda_driver", "runtime", "mtia_runtime")
BYTES = {
    8: ("double", "float64", "long", "int64", "complexfloat", "long int"),
    4: ("float", "float32", "int", "int32", "unsigned int"),
    2: ("half", "bfloat16", "short", "c10::half", "c10::bfloat16", "short int"),
    1: ("char", "byte", "bool", "int8", "uint8", "unsigned char", "signed char"),
}
WIDTH = {word: width for width, words in BYTES.items() for word in words}
GROUP = ("Group size", "Process Group Name", "Process Group Ranks")
EPOCH = Decimal(10) ** 15
"""Times in microseconds that are since 1970 by themselves."""


def load(path: str) -> dict[str, Any]:
    """The whole file, its decimals as they are written."""
    text = data(path).decode("utf-8-sig", "replace")
    file = json.loads(text, parse_float=Decimal, parse_constant=lambda _: None)
    if isinstance(file, list):
        file = {"traceEvents": file}
    if not isinstance(file, dict) or not isinstance(file.get("traceEvents"), list):
        raise UnreadableError("no list of events")
    return file


def rank_of(file: dict[str, Any]) -> int | None:
    """The rank that the trace itself says."""
    info = file.get("distributedInfo")
    rank = integer(info.get("rank")) if isinstance(info, dict) else None
    return rank if rank is not None and rank >= 0 else None


def decimal(value: Any) -> Decimal | None:
    """A time as it stands there."""
    try:
        out = Decimal(value) if isinstance(value, (int, str, Decimal)) else None
    except InvalidOperation:
        return None
    return out if out is not None and out.is_finite() else None


class Reader:
    """Reads the events of one file."""

    def __init__(self, file: dict[str, Any]) -> None:
        self.base = integer(file.get("baseTimeNanoseconds")) or 0
        self.file = file
        self.rank = Rank()
        self.device: list[tuple[Event, dict[str, Any]]] = []
        self.launches: dict[int, tuple[int, int, tuple[str, str]]] = {}
        self.comm_ops: dict[tuple[str, str], list[tuple[int, int, Any]]] = defaultdict(list)
        self.ranges: dict[tuple[str, str], Ranges] = {}
        self.gloo: list[tuple[int, int, dict[str, Any]]] = []
        self.records: dict[int, dict[str, Any]] = {}
        self.operators: dict[int, list[Any]] = {}
        self.launched: dict[tuple[str, str], list[int]] = {}

    def ns(self, value: Any, base: int = 0) -> int | None:
        """Microseconds to nanoseconds, exactly."""
        us = decimal(value)
        if us is None or abs(us) > EPOCH * 100:
            return None
        return int((us * 1000).to_integral_value()) + (base if us < EPOCH else 0)

    def read(self) -> Rank:
        """All that the file says of its rank."""
        for event in self.file["traceEvents"]:
            if isinstance(event, dict):
                self.event(event)
        own = [a.get("External id") for _, a in self.device]
        same = [a.get("correlation") for _, a in self.device]
        # In files of 2022 the external id is the correlation, and names no operator.
        if own == same:
            self.records = {}
        self.ranges = defaultdict(
            lambda: Ranges([]), {key: Ranges(ops) for key, ops in self.comm_ops.items()}
        )
        for event, args in self.device:
            self.finish(event, args)
        self.rank.events = [event for event, _ in self.device]
        if not any(event.kind == "comm" for event in self.rank.events):
            self.rank.calls = [self.gloo_call(*one) for one in self.gloo]
        self.rank.steps.sort(key=lambda step: step.start)
        return self.rank

    def event(self, event: dict[str, Any]) -> None:
        """Takes an event for what its category says."""
        raw = event.get("args")
        args: dict[str, Any] = raw if isinstance(raw, dict) else {}
        name, category = event.get("name"), event.get("cat")
        name = name if isinstance(name, str) else ""
        category = category if isinstance(category, str) else ""
        start = self.ns(event.get("ts"), self.base)
        if name == "[memory]":
            self.sample(start, args)
            return
        if event.get("ph") != "X" or start is None:
            return
        dur = self.ns(event.get("dur", 0))
        if dur is None or dur < 0:
            return
        low = category.lower()
        kind = self.device_kind(low, name, args)
        if kind:
            device = integer(args.get("device")) or 0
            copied = integer(args.get("bytes", args.get("size")))
            work = Event(kind, name, start, start + dur, device, bytes=copied)
            work.stream = integer(args.get("stream"))
            work.direction = direction(str(args.get("direction", name))) if kind == "copy" else None
            self.device.append((work, args))
            return
        self.rank.host[category] += 1
        span = self.rank.host_span or (start, start + dur)
        self.rank.host_span = (min(span[0], start), max(span[1], start + dur))
        self.on_host(low, name, (start, start + dur), event, args)

    @staticmethod
    def device_kind(category: str, name: str, args: dict[str, Any]) -> str | None:
        """The class of an event on a device; nothing for one of the host."""
        if category == "mtia_ccp_events":
            # The order between streams is no work.
            work = None if name.endswith(("_wait", "_record")) else "compute"
            return "copy" if name == "dma_request" else work
        if category != "kernel":
            return CATEGORIES.get(category)
        if "__amd_rocclr_fillBuffer" in name:
            return "set"
        if "__amd_rocclr_copyBuffer" in name:
            return "copy"
        return "comm" if COMM.search(name) or args.get("Collective name") else "compute"

    def on_host(
        self,
        low: str,
        name: str,
        span: tuple[int, int],
        event: dict[str, Any],
        args: dict[str, Any],
    ) -> None:
        """Keeps what tells of launches, steps and communication."""
        thread = (str(event.get("pid")), str(event.get("tid")))
        if low in RUNTIME:
            key = integer(args.get("correlation"))
            if key is not None and span[1] - span[0] >= self.launches.get(key, (0, -1))[1]:
                self.launches[key] = (span[0], span[1] - span[0], thread)
        elif low in ("user_annotation", "operator") and name.startswith("ProfilerStep#"):
            step = name.removeprefix("ProfilerStep#")
            if step.isdecimal() and len(step) < 19:
                self.rank.steps.append(Step(int(step), *span))
        elif name.startswith("gloo:") and low == "user_annotation":
            self.gloo.append((*span, {"name": name, **args}))
        if name == "record_param_comms" or name.startswith(("nccl:", "c10d::")):
            self.comm_ops[thread].append((*span, {"name": name, **args}))
            given = args.get("Concrete Inputs")
            if isinstance(given, list):
                self.operators[integer(args.get("Record function id")) or 0] = given
            number = integer(args.get("External id"))
            if name == "record_param_comms" and number is not None:
                self.records[number] = args

    def sample(self, start: int | None, args: dict[str, Any]) -> None:
        """A sample of the memory of a device."""
        device, total = integer(args.get("Device Id")), integer(args.get("Total Allocated"))
        if args.get("Device Type") in (1, 6) and None not in (start, device, total):
            held = integer(args.get("Total Reserved")) or 0
            self.rank.memory.setdefault(device, []).append((start, total, held))  # type: ignore[arg-type]

    def finish(self, event: Event, args: dict[str, Any]) -> None:
        """Links an event to its launch, and makes a call of a kernel that communicates."""
        launch = self.launches.get(integer(args.get("correlation")) or -1)
        if launch:
            event.launch, event.call = launch[0], args["correlation"]
        if event.kind == "comm":
            self.rank.calls.append(self.call(event, args, launch))

    def call(self, event: Event, args: dict[str, Any], launch: Any) -> Call:
        """Kind, size and group of a kernel: of itself, its record, or what stands around it."""
        around = self.ranges[launch[2]].around(launch[0]) if launch else []
        named = self.records.get(integer(args.get("External id")) or -1, {})
        held = innermost(r for r in around if r[2]["name"] == "record_param_comms")
        for said in (args, named, held or {}):
            if said.get("Collective name") not in (None, "wait"):
                return self.stated(event, said)
        call = Call(kind_of(event.name), event.start, event.end, launch=event.launch)
        note = innermost(r for r in around if r[2]["name"].startswith("nccl:"))
        if note and note["name"] == "nccl:coalesced" and launch:
            return self.coalesced(event, call, self.run_before(launch))
        op = innermost(r for r in around if r[2]["name"].startswith("c10d::"))
        if note:
            call.kind, call.size = kind_of(note["name"]), tensor_bytes(note, 0)
        elif op:
            call.kind = kind_of(op["name"])
        # The operator names the output before the input.
        if op and call.kind == "all_gather":
            into, call.size = tensor_bytes(op, 1), tensor_bytes(op, 0)
            call.ranks = call.size // into if call.size and into else None
        if op and call.kind == "all_to_all":
            call.uneven = tensor_bytes(op, 0) != tensor_bytes(op, 1)
        return call

    def run_before(self, launch: tuple[int, int, tuple[str, str]]) -> list[dict[str, Any]]:
        """The records before the range around a launch, of one group, that launched nothing."""
        at, _, thread = launch
        begun = max(
            start
            for start, end, said in self.comm_ops[thread]
            if said["name"] == "nccl:coalesced" and start <= at < end
        )
        if thread not in self.launched:
            of = [args.get("correlation") for event, args in self.device if event.kind == "comm"]
            calls = [self.launches.get(integer(key) or -1) for key in of]
            self.launched[thread] = sorted(c[0] for c in calls if c and c[2] == thread)
        times = self.launched[thread]
        run: list[dict[str, Any]] = []
        earlier = [one for one in self.comm_ops[thread] if one[0] < begun]
        for start, end, said in sorted(earlier, key=lambda one: one[0], reverse=True):
            if said["name"] not in ("record_param_comms", "nccl:coalesced"):
                continue
            first = bisect_left(times, start)
            launches = first < len(times) and times[first] < end
            kind = kind_of(str(said.get("Collective name", "unknown")))
            same = not run or all(said.get(key) == run[-1].get(key) for key in GROUP)
            ends = said["name"] == "nccl:coalesced" or kind in ("unknown", "barrier")
            if ends or launches or not same:
                break
            run.append(said)
        return run

    def coalesced(self, event: Event, call: Call, run: list[dict[str, Any]]) -> Call:
        """A group of calls that one launch serves: all of a kind, or sends and receives."""
        parts = [self.stated(event, said) for said in run]
        kinds = {part.kind for part in parts}
        if not parts or (len(kinds) > 1 and kinds != {"send", "recv"}):
            return call
        out = parts[0]
        types = {str(said.get("dtype")) for said in run}
        of = [part for part in parts if part.kind != "recv"] or parts
        known = len(types) == 1 and all(part.size is not None for part in of)
        out.size = sum(part.size or 0 for part in of) if known else None
        peers = {part.peer for part in parts}
        out.kind = "send_recv" if len(kinds) > 1 else out.kind
        out.pair = pair_of(out.kind, rank_of(self.file), peers.pop() if len(peers) == 1 else None)
        return out

    def stated(self, event: Event, said: dict[str, Any]) -> Call:
        """A call whose sizes and group stand there in so many words."""
        call = Call(kind_of(str(said["Collective name"])), event.start, event.end)
        call.launch = event.launch
        width = WIDTH.get(str(said.get("dtype")).lower())
        if str(said.get("dtype")).lower().startswith("float8"):
            width = 1
        elements = integer(said.get("In msg nelems"))
        if call.kind == "all_gather":
            elements = integer(said.get("Out msg nelems"))
        if width and elements is not None and call.kind != "barrier":
            call.size = elements * width
        call.ranks = integer(said.get("Group size")) or None
        ranks = ranks_of(said.get("Process Group Ranks"))
        if call.ranks:
            call.group = f"{said.get('Process Group Name')} {ranks}"
        call.seq = integer(said.get("Seq"))
        if call.kind in ("send", "recv"):
            call.peer = integer(said.get("Dst Rank" if call.kind == "send" else "Src Rank"))
            call.pair = pair_of(call.kind, rank_of(self.file), call.peer)
        split = ranks_of(said.get("In split size"))
        own = rank_of(self.file)
        call.uneven = call.kind == "all_to_all" and len(set(split)) > 1
        if call.kind == "all_to_all" and split and width and own in ranks:
            if len(split) == len(ranks) == call.ranks:
                call.sent = (sum(split) - split[ranks.index(own)]) * width
            else:
                call.sent = -1
        return call

    def gloo_call(self, start: int, end: int, said: dict[str, Any]) -> Call:
        """A call of gloo, which runs on a thread of the host."""
        call = Call(kind_of(said["name"].removeprefix("gloo:")), start, end, launch=start)
        info = self.file.get("distributedInfo")
        groups = info.get("pg_config") if isinstance(info, dict) else None
        if isinstance(groups, list) and len(groups) == 1 and isinstance(groups[0], dict):
            call.ranks = integer(groups[0].get("pg_size"))
            call.group = "the only one"
        if call.kind in ("send", "recv"):
            # The operator before it has the place of the peer among its inputs.
            number = integer(said.get("Record function id"))
            given = self.operators.get(number - 1, []) if number else []
            peer = int(given[2]) if len(given) > 2 and str(given[2]).isdecimal() else None
            call.pair = pair_of(call.kind, rank_of(self.file), peer)
        call.size = None if call.kind == "barrier" else tensor_bytes(said, 0)
        if call.kind == "all_gather" and call.size is not None:
            call.size = call.size * call.ranks if call.ranks else None
        return call


def ranks_of(value: Any) -> list[int]:
    """A list that stands as text in quotes; nothing where it was cut."""
    try:
        out = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return []
    return out if isinstance(out, list) and all(integer(r) is not None for r in out) else []


def tensor_bytes(said: dict[str, Any], place: int) -> int | None:
    """The bytes of an input of an operator, by its recorded shape and type."""
    shapes, types = said.get("Input Dims"), said.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return None
    if place >= len(shapes) or place >= len(types) or not isinstance(shapes[place], list):
        return None
    width = WIDTH.get(str(types[place]).lower())
    elements = product(shapes[place])
    return elements * width if shapes[place] and width and elements is not None else None


def direction(name: str) -> str | None:
    """The direction that the name of a copy says."""
    plain = name.lower().replace("host", "h").replace("device", "d").replace("_", "")
    for word in ("htod", "dtoh", "dtod", "ptop", "htoh"):
        if word in plain:
            return word.replace("to", "2")
    return None
