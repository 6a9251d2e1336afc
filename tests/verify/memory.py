"""A snapshot of PyTorch's memory: a pickle, of which nothing is run.

The machine is that of Python's library in its plain form, with the opcodes left out that name,
make or call anything, and those that take a size from the file.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from typing import Any

from raw import UnreadableError, data

ALLOWED = """
PROTO FRAME STOP MARK MEMOIZE BINGET LONG_BINGET EMPTY_DICT SETITEM SETITEMS DICT LIST
EMPTY_LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWTRUE NEWFALSE BININT
BININT1 BININT2 LONG1 BINFLOAT SHORT_BINUNICODE BINUNICODE BINPUT LONG_BINPUT POP DUP
"""
CODES = {ord(code.code) for code in pickletools.opcodes if code.name in ALLOWED.split()}
BLOCK, GIB = 512, float(1 << 30)


class Machine(pickle._Unpickler):
    """Makes dicts, lists, tuples, numbers and texts, and nothing else."""

    dispatch = {  # noqa: RUF012
        code: do for code, do in pickle._Unpickler.dispatch.items() if code in CODES
    }

    def find_class(self, module: str, name: str) -> Any:
        """No name of a file is looked up."""
        raise UnreadableError(f"the pickle names {module}.{name}")


def load(raw: bytes) -> dict[str, Any]:
    """The snapshot."""
    try:
        out = Machine(io.BytesIO(raw)).load()
    except (KeyError, IndexError, EOFError, pickle.UnpicklingError, AttributeError) as error:
        raise UnreadableError("a pickle that holds more than data") from error
    if not isinstance(out, dict) or not isinstance(out.get("segments"), list):
        raise UnreadableError("a snapshot of another form")
    return out


def figures(path: str) -> dict[str, float]:
    """What the allocator held when the snapshot was taken, and the most that it held before."""
    raw = data(path)
    if raw.lstrip()[:1] == b"[":
        return timeline(json.loads(raw))
    snapshot = load(raw)
    reserved: dict[int, int] = {}
    allocated: dict[int, int] = {}
    requested: dict[int, int] = {}
    held_at_end: dict[int, int] = {}
    blocks: dict[tuple[int, int], int] = {}
    for segment in snapshot["segments"]:
        device = segment.get("device", 0)
        reserved[device] = reserved.get(device, 0) + segment["total_size"]
        allocated[device] = allocated.get(device, 0) + segment["allocated_size"]
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                blocks[device, block.get("address")] = block["size"]
                size = block.get("requested_size", 0)
                requested[device] = requested.get(device, 0) + size
                # What waits for a stream was given back.
                if block["state"] == "active_allocated":
                    held_at_end[device] = held_at_end.get(device, 0) + size
    peaks: dict[int, int] = {}
    tops: dict[int, int] = {}
    for device, trace in enumerate(snapshot.get("device_traces") or []):
        level = most = rounded = most_rounded = 0
        last = {event["addr"]: n for n, event in enumerate(trace) if event["action"] == "alloc"}
        for n, event in enumerate(trace):
            sign = {"alloc": 1, "free_requested": -1}.get(event["action"], 0)
            level += sign * event["size"]
            # The allocator gives whole blocks of 512 bytes, and now and then a larger one: that
            # is known of those that are in use at the end.
            block = -(-event["size"] // BLOCK) * BLOCK
            if sign == 1 and last[event["addr"]] == n:
                block = blocks.get((device, event["addr"]), block)
            rounded += sign * block
            most, most_rounded = max(most, level), max(most_rounded, rounded)
        # The recording begins with what the allocator held already.
        if trace:
            peaks[device] = held_at_end.get(device, 0) - level + most
            tops[device] = allocated.get(device, 0) - rounded + most_rounded
    held = {
        "reserved": reserved,
        "allocated": allocated,
        "requested": requested,
        "requested peak": peaks,
        "peak": tops,
    }
    return {key: max(each.values()) / GIB for key, each in held.items() if each}


def timeline(rows: list[list[int]]) -> dict[str, float]:
    """The most that a raw timeline adds up to: time, action, bytes with a sign, category."""
    level = most = 0
    for _, _, size, _ in rows:
        level += size
        most = max(most, level)
    return {"peak": most / GIB}
