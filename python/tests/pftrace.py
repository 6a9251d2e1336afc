"""Reads a Perfetto trace with Perfetto's own protocol buffers, as its trace processor would.

Slices are pairs of begin and end on a track, the innermost first. An arrow leads from the slice
that names its number first to the one that names it next. Whatever a viewer would drop or mend is
an error here.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

EVENT = protos.TrackEvent
CLEARED = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
NEEDS = protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE


@dataclass
class Slice:
    """A slice; without a duration an instant."""

    track: int
    ts: int
    name: str
    category: str | None
    args: dict[str, Any]
    dur: int | None = None


@dataclass
class Timeline:
    """What a trace holds."""

    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    instants: list[Slice] = field(default_factory=list)
    samples: dict[int, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    #: Arrows: where each leaves, and where it leads to.
    arrows: dict[int, tuple[Slice, Slice]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    realtime_ns: int | None = None

    def process(self, track: int) -> str | None:
        """The name of the process that a track is of."""
        while True:
            descriptor = self.tracks[track]
            if descriptor.HasField("process"):
                return str(descriptor.process.process_name)
            if not descriptor.parent_uuid:
                return None
            track = descriptor.parent_uuid

    def name(self, track: int) -> str:
        """The name of a track."""
        descriptor = self.tracks[track]
        if descriptor.HasField("thread"):
            return str(descriptor.thread.thread_name)
        return str(descriptor.name)

    def on(self, name: str) -> list[Slice]:
        """The slices of all tracks whose name begins so."""
        return [s for s in self.slices if self.name(s.track).startswith(name)]


def packets(data: bytes) -> Any:
    """The packets of a trace, one at a time."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        assert varint() == (1 << 3 | 2), "not a packet"
        size = varint()
        yield protos.TracePacket.FromString(data[at : at + size])
        at += size


class _Texts:
    """Interned texts of the one sequence."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.keys: dict[int, str] = {}
        self.values: dict[int, str] = {}

    def learn(self, data: Any) -> None:
        self.names.update((n.iid, n.name) for n in data.event_names)
        self.categories.update((n.iid, n.name) for n in data.event_categories)
        self.keys.update((n.iid, n.name) for n in data.debug_annotation_names)
        strings = data.debug_annotation_string_values
        self.values.update((n.iid, n.str.decode("utf-8")) for n in strings)

    def args(self, event: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for annotation in event.debug_annotations:
            which = annotation.WhichOneof("name_field")
            key = self.keys[annotation.name_iid] if which == "name_iid" else annotation.name
            value = annotation.WhichOneof("value")
            of = getattr(annotation, value)
            out[key] = self.values[of] if value == "string_value_iid" else of
        return out


def read(path: Path) -> Timeline:
    """Reads a trace, packed or not."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    out, texts = Timeline(), _Texts()
    events: list[tuple[int, int, Any, str, str | None, dict[str, Any]]] = []
    for number, packet in enumerate(packets(data)):
        assert packet.trusted_packet_sequence_id == 1
        assert number or packet.sequence_flags == CLEARED
        texts.learn(packet.interned_data)
        for attribute in packet.trace_attributes.attribute:
            which = attribute.WhichOneof("value")
            out.attributes[attribute.key] = getattr(attribute, which)
        for clock in packet.clock_snapshot.clocks:
            if clock.clock_id == protos.BUILTIN_CLOCK_REALTIME:
                out.realtime_ns = clock.timestamp
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in out.tracks
            assert not descriptor.parent_uuid or descriptor.parent_uuid in out.tracks
            out.tracks[descriptor.uuid] = descriptor
        if packet.HasField("track_event"):
            event = packet.track_event
            # What names interned texts says so, or readers drop it.
            assert packet.sequence_flags == NEEDS or not event.name_iid
            name = texts.names[event.name_iid] if event.name_iid else event.name
            of = [texts.categories[iid] for iid in event.category_iids] + list(event.categories)
            category = of[0] if of else None
            events.append((packet.timestamp, number, event, name, category, texts.args(event)))
    _play(out, events)
    return out


def _play(out: Timeline, events: list[Any]) -> None:
    """Plays events in the order of time, and of equals in that of the file."""
    events.sort(key=lambda event: event[:2])
    stacks: dict[int, list[Slice]] = defaultdict(list)
    begun: dict[int, Slice] = {}
    for ts, _, event, name, category, args in events:
        track = event.track_uuid
        descriptor = out.tracks[track]
        if event.type == EVENT.TYPE_COUNTER:
            assert descriptor.HasField("counter")
            out.samples[track].append((ts, event.double_counter_value))
            continue
        assert not descriptor.HasField("counter")
        if event.type == EVENT.TYPE_SLICE_END:
            assert stacks[track], f"an end without a begin on {out.name(track)}"
            of = stacks[track].pop()
            of.dur = ts - of.ts
            out.slices.append(of)
        else:
            of = Slice(track, ts, name, category, args)
            if event.type == EVENT.TYPE_SLICE_BEGIN:
                stacks[track].append(of)
            else:
                assert event.type == EVENT.TYPE_INSTANT
                out.instants.append(of)
        for arrow in event.flow_ids:
            assert arrow not in begun
            begun[arrow] = of
        for arrow in event.terminating_flow_ids:
            if arrow in begun:
                assert arrow not in out.arrows
                out.arrows[arrow] = (begun[arrow], of)
    assert not any(stacks.values()), "slices without an end"
