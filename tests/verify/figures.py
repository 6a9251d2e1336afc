"""The figures: of each its name, where the program says it, and how it follows from raw events.

They are worked out from the definitions in docs/metrics.md, slowly and plainly.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from raw import DEVICE, Call, Event, Rank, Trace, bus_factor, common, length, union

Values = dict[str, float]


@dataclass(frozen=True)
class Figure:
    """One figure, or one of each rank, kind or call."""

    name: str
    ours: str
    """Where the program says it: `METRIC.path.in.details`, or a table or view."""
    compute: Callable[[Trace], Values]
    sql: str = ""
    """Rows `key, value` over that table or view."""
    exact: bool = False
    """Whether it is a count: no tolerance applies."""
    needs: str = "device"
    """What of a trace it is of: device, calls, steps, memory, any."""


@dataclass
class Match:
    """One call over its ranks."""

    calls: dict[int, Call]
    n: int | None
    whole: bool
    """Whether all ingested ranks of the group have it."""

    @property
    def kind(self) -> str:
        """Of a pair, one sends and the other receives."""
        kinds = {c.kind for c in self.calls.values()}
        return kinds.pop() if len(kinds) == 1 else "send_recv"

    @property
    def size(self) -> int | None:
        sizes = [c.size for c in self.calls.values() if c.size is not None]
        return max(sizes, default=None)

    @property
    def transfer(self) -> int:
        return min(c.dur for c in self.calls.values())

    @property
    def bus_bytes(self) -> float | None:
        """S times the factor of nccl-tests, of a call that has a bandwidth."""
        uneven = any(c.uneven for c in self.calls.values())
        if uneven or not self.size or not self.n or self.n < 2 or not self.transfer:
            return None
        return self.size * bus_factor(self.kind, self.n)

    @property
    def lag(self) -> int:
        starts = [c.start for c in self.calls.values()]
        return max(starts) - min(starts)


def spans(events: Iterable[Event | Call], *kinds: str) -> list[tuple[int, int]]:
    """The spans of events of some classes."""
    return [(e.start, e.end) for e in events if e.kind in kinds]


def mean(values: Iterable[float]) -> float:
    """The mean."""
    return statistics.fmean(values)


def percentile(values: list[float], share: float) -> float:
    """A percentile, between two values in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def work(rank: Rank) -> list[Event]:
    """What keeps a device busy."""
    return [e for e in rank.events if e.kind in (*DEVICE, "graph")]


def window(rank: Rank) -> int | None:
    """From the first start to the last end."""
    if rank.events:
        return max(e.end for e in work(rank)) - min(e.start for e in work(rank))
    return rank.host_span[1] - rank.host_span[0] if rank.host_span else None


def per_device(rank: Rank) -> list[list[Event]]:
    """The work of each device of a rank."""
    out = defaultdict(list)
    for event in work(rank):
        out[event.device].append(event)
    return list(out.values())


def covered(rank: Rank, *kinds: str) -> int:
    """Time in which a rank is busy with some classes, device by device."""
    if not rank.events and "comm" in kinds:
        return length((c.start, c.end) for c in rank.calls)
    return sum(length(spans(events, *kinds)) for events in per_device(rank))


def beside(rank: Rank) -> int:
    """Time in which a rank communicates and computes."""
    return sum(common(spans(e, "comm"), spans(e, "compute")) for e in per_device(rank))


def by_rank(of: Callable[[Rank], float | None]) -> Callable[[Trace], Values]:
    """A figure of each rank, in the unit of the trace's clock."""

    def compute(trace: Trace) -> Values:
        found = {f"{number}": of(rank) for number, rank in trace.ranks.items()}
        return {key: value for key, value in found.items() if value is not None}

    return compute


def talking(compute: Callable[[Trace], Values]) -> Callable[[Trace], Values]:
    """A figure of traces in which devices communicate."""

    def of(trace: Trace) -> Values:
        events = [e for r in trace.ranks.values() for e in r.events]
        return compute(trace) if any(e.kind == "comm" for e in events) else {}

    return of


def seconds(of: Callable[[Rank], float | None], unit: float = 1.0) -> Callable[[Trace], Values]:
    """A time of each rank, in seconds or a part of them."""

    def compute(trace: Trace) -> Values:
        each = by_rank(of)(trace)
        return {key: value / trace.per_second * unit for key, value in each.items()}

    return compute


def mean_of(of: Callable[[Trace], Values]) -> Callable[[Trace], Values]:
    """The mean over ranks."""

    def compute(trace: Trace) -> Values:
        values = of(trace)
        return {"value": mean(values.values())} if values else {}

    return compute


def counted(keys: Callable[[int, Rank], Iterable[str]]) -> Callable[[Trace], Values]:
    """How often each key occurs."""

    def compute(trace: Trace) -> Values:
        out: Counter[str] = Counter()
        for number, rank in trace.ranks.items():
            out.update(keys(number, rank))
        return {key: float(n) for key, n in out.items()}

    return compute


def events_by_class(number: int, rank: Rank) -> Iterable[str]:
    return [f"rank {number} {e.kind}" for e in rank.events]


def host_by_category(_: int, rank: Rank) -> Iterable[str]:
    return rank.host.elements()


def calls_by_kind(number: int, rank: Rank) -> Iterable[str]:
    return [f"rank {number} {c.kind}" for c in rank.calls]


def communicates(rank: Rank) -> float | None:
    """Time in which a rank communicates: on its devices, or without any on its host."""
    return covered(rank, "comm") if rank.events or rank.calls else None


def fraction(part: float | None, whole: float | None) -> float | None:
    """A share, where there is something to have a share of."""
    return part / whole if part is not None and whole else None


def kernels(rank: Rank) -> list[Event]:
    """Kernels: what computes, and what communicates."""
    return [e for e in rank.events if e.kind in ("compute", "comm")]


def kernel_sum(rank: Rank) -> float | None:
    return sum(e.dur for e in kernels(rank)) if rank.events else None


def exposed(rank: Rank) -> float | None:
    return covered(rank, "comm") - beside(rank) if rank.events else None


def exposed_copies(rank: Rank) -> float | None:
    """Copies beside which no kernel runs."""
    out = 0
    for events in per_device(rank):
        copies, others = spans(events, "copy"), spans(events, "comm", "compute", "set")
        others = spans(events, "compute", "comm", "set")
        out += length(copies) - common(copies, others)
    return out if rank.events else None


def busy(rank: Rank) -> float:
    return sum(length(spans(e, *DEVICE, "graph")) for e in per_device(rank))


def idle(rank: Rank) -> float | None:
    return (window(rank) or 0) - busy(rank) if rank.events else None


def overlap_value(trace: Trace) -> Values:
    """Communication beside computation, as a share of communication, of all ranks together."""
    comm = sum(covered(r, "comm") for r in trace.ranks.values() if r.events)
    return {"value": sum(beside(r) for r in trace.ranks.values()) / comm} if comm else {}


def dominant(trace: Trace) -> Values:
    """The kernel that takes most time, as a share of all of it."""
    times: Counter[str] = Counter()
    for rank in trace.ranks.values():
        for event in kernels(rank):
            times[event.label or event.name] += event.dur
    return {"value": 100 * max(times.values()) / times.total()} if times.total() else {}


def imbalance(trace: Trace) -> Values:
    """The most that a rank computes, over the mean."""
    each = [covered(r, "compute") for r in trace.ranks.values() if kernels(r)]
    return {"value": max(each) / mean(each)} if len(each) > 1 and mean(each) else {}


# Steps


def step_lengths(rank: Rank) -> list[float]:
    """From start to start, without the first and the last step where there are more than two."""
    steps = rank.steps
    kept = range(1, len(steps) - 1) if len(steps) > 2 else range(len(steps))
    return [
        steps[i + 1].start - steps[i].start if i + 1 < len(steps) else steps[i].end - steps[i].start
        for i in kept
    ]


def step_mean(rank: Rank) -> float | None:
    lengths = step_lengths(rank)
    return mean(lengths) if lengths else None


def step_durations(rank: Rank) -> float | None:
    return mean(s.end - s.start for s in rank.steps) if rank.steps else None


def comm_per_step(rank: Rank) -> float | None:
    """The communication that the steps of a rank launch, of each the union."""
    if not rank.steps or not (rank.events or rank.calls):
        return None
    out = []
    for step in rank.steps:
        held = [
            c
            for c in rank.calls
            if (at := c.start if rank.unlinked else c.launch) is not None
            and step.start <= at < step.end
        ]
        out.append(length((c.start, c.end) for c in held))
    return mean(out)


def step_starts(trace: Trace) -> Values:
    """The start of each step after the first of the rank."""
    return {
        f"rank {number} step {step.number}": (step.start - rank.steps[0].start) / trace.per_second
        for number, rank in trace.ranks.items()
        for step in rank.steps[1:]
    }


# Calls


def group_size(trace: Trace, call: Call) -> int | None:
    """The ranks of the group of a call; the world, where nothing states it and all take part."""
    if call.ranks or call.group:
        return call.ranks
    counts = {
        sum(c.kind == call.kind and not c.group for c in r.calls) for r in trace.ranks.values()
    }
    return trace.world if len(counts) == 1 else None


def wire_bytes(call: Call, n: int | None) -> int | None:
    """The bytes that a rank must send at least."""
    if call.sent is not None:
        return call.sent if call.sent >= 0 else None
    if call.size is None or call.kind in ("barrier", "unknown"):
        return None
    if call.kind in ("broadcast", "reduce", "send", "recv", "send_recv"):
        return call.size
    if not n:
        return None
    return call.size * 2 * (n - 1) // n if call.kind == "all_reduce" else call.size * (n - 1) // n


def sizes(trace: Trace) -> Values:
    """S of the calls of each rank and kind, added up."""
    out: Values = defaultdict(float)
    for number, rank in trace.ranks.items():
        for call in rank.calls:
            if call.size is not None:
                out[f"rank {number} {call.kind}"] += call.size
    return dict(out)


def wire(trace: Trace) -> Values:
    """What the ranks must send at least, by kind."""
    out: Values = defaultdict(float)
    for rank in trace.ranks.values():
        for call in rank.calls:
            sent = wire_bytes(call, group_size(trace, call))
            if sent is not None:
                out[call.kind] += sent
    return dict(out)


def shifted(reference: list[Call], other: list[Call]) -> int:
    """How many of the first calls of the reference a rank misses.

    All ranks leave a call nearly together: the right shift has the differences of ends that lie
    closest to each other.
    """
    best: tuple[float, float, int] | None = None
    for shift in range(len(reference) - len(other) + 1):
        apart = [b.end - a.end for a, b in zip(reference[shift:], other, strict=False)]
        middle = statistics.median(apart)
        spread = statistics.median(abs(d - middle) for d in apart)
        if best is None or (spread, abs(middle), -shift) < best:
            best = (spread, abs(middle), -shift)
    return -best[2] if best else 0


@cache
def gathered(trace: Trace) -> list[Match]:
    """The calls over the ranks: by number in the group where it is recorded, else by order."""
    held: dict[tuple[str, str], dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
    members: dict[str, set[int]] = defaultdict(set)
    out: list[Match] = []
    for number, rank in trace.ranks.items():
        for call in sorted(rank.calls, key=lambda c: c.start):
            group = call.group or "all"
            pair = call.pair if call.group else None
            if call.pair and not pair:
                # Which two they are is not known without their group.
                out.append(Match({number: call}, group_size(trace, call), False))
                continue
            held[group, pair or call.kind][number].append(call)
            members[group].add(number)
    members["all"] = set(trace.ranks)
    for (group, _), ranks in held.items():
        placed: dict[int, dict[int, Call]] = defaultdict(dict)
        most = max(len(calls) for calls in ranks.values())
        if any(len(calls) < most and calls[0].pair for calls in ranks.values()):
            # A small send may end before its receive begins: which one is missing is not known.
            out += [
                Match({number: call}, group_size(trace, call), False)
                for number, calls in ranks.items()
                for call in calls
            ]
            continue
        first = min(r for r, calls in ranks.items() if len(calls) == most)
        # Numbers of sends count those of the rank, whoever they are to.
        numbered = all(c.seq is not None and not c.pair for calls in ranks.values() for c in calls)
        for number, calls in ranks.items():
            shift = 0 if numbered else shifted(ranks[first], calls)
            for i, call in enumerate(calls):
                placed[call.seq if numbered and call.seq is not None else i + shift][number] = call
        for calls_of in placed.values():
            one = next(iter(calls_of.values()))
            whole = len(calls_of) == 2 if one.pair else set(calls_of) == members[group]
            out.append(Match(calls_of, group_size(trace, one), whole))
    return out


def alone(trace: Trace) -> list[Match]:
    """The calls that all have, and what is left, event by event."""
    out = matched(trace)
    for match in gathered(trace):
        if not match.whole or len(match.calls) < 2:
            out += [Match({rank: call}, match.n, False) for rank, call in match.calls.items()]
    return out


def matched(trace: Trace) -> list[Match]:
    """The calls that all ingested ranks of their group have, two at least."""
    return [m for m in gathered(trace) if m.whole and len(m.calls) > 1]


def lags(trace: Trace) -> Values:
    """How much later than the first the last rank enters a call, in microseconds."""
    each = [
        m.lag / trace.per_second * 1e6 for m in matched(trace) if m.kind not in ("send", "recv")
    ]
    if not each:
        return {}
    return {
        "mean_lag_us": mean(each),
        "p50_lag_us": percentile(each, 0.5),
        "p95_lag_us": percentile(each, 0.95),
        "max_lag_us": max(each),
        "min_lag_us": min(each),
        "num_collectives": len(each),
    }


def last_ranks(trace: Trace) -> Values:
    """How often each rank is the last to enter a call; of equals the lowest."""
    out: Counter[str] = Counter()
    for match in matched(trace):
        if match.kind not in ("send", "recv"):
            latest = max(c.start for c in match.calls.values())
            out[str(min(r for r, c in match.calls.items() if c.start == latest))] += 1
    return {key: float(n) for key, n in out.items()}


def call_counts(trace: Trace) -> Values:
    out: Counter[str] = Counter(m.kind for m in matched(trace))
    return {key: float(n) for key, n in out.items()}


def transfers(trace: Trace) -> Values:
    """The least durations of the calls of a kind, added up."""
    out: Values = defaultdict(float)
    for match in matched(trace):
        out[match.kind] += match.transfer / trace.per_second
    return dict(out)


def bus_bandwidths(trace: Trace, calls: list[Match]) -> dict[str, list[float]]:
    """Bus bandwidth of each call, by kind, in GB/s."""
    out = defaultdict(list)
    for match in calls:
        carried = match.bus_bytes
        if carried is not None:
            out[match.kind].append(carried / (match.transfer / trace.per_second) / 1e9)
    return out


def bus_mean(trace: Trace) -> Values:
    return {k: mean(rates) for k, rates in bus_bandwidths(trace, matched(trace)).items()}


def bus_median(kind: str) -> Callable[[Trace], Values]:
    """The median over the calls of a kind."""

    def compute(trace: Trace) -> Values:
        rates = bus_bandwidths(trace, alone(trace)).get(kind)
        return {"value": percentile(rates, 0.5)} if rates else {}

    return compute


def bus_weighted(trace: Trace) -> Values:
    """The bytes of all calls times their factor, over the time that they take."""
    top = bottom = 0.0
    for match in alone(trace):
        carried = match.bus_bytes
        if carried is not None:
            top += carried
            bottom += match.transfer / trace.per_second
    return {"value": top / bottom / 1e9} if bottom else {}


def ring_fit(trace: Trace) -> tuple[float, float] | None:
    """Alpha and beta of a ring: least squares over the median time of each size."""
    groups: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for match in alone(trace):
        if match.kind == "all_reduce" and match.bus_bytes and match.n and match.size:
            groups[match.n].append((match.size, match.transfer / trace.per_second))
    if not groups:
        return None
    n, samples = max(groups.items(), key=lambda one: (len(one[1]), one[0]))
    times: dict[int, list[float]] = defaultdict(list)
    for size, time in samples:
        times[size].append(time)
    if len(samples) < 5 or len(times) < 2:
        return None
    points = [(s / n, statistics.median(t) / (2 * (n - 1))) for s, t in times.items()]
    beta, alpha = statistics.linear_regression([x for x, _ in points], [y for _, y in points])
    if beta < 0:
        return mean(y for _, y in points), 0.0
    if alpha < 0:
        return 0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    return alpha, beta


def hockney_alpha(trace: Trace) -> Values:
    fit = ring_fit(trace)
    return {"value": fit[0]} if fit else {}


def hockney_beta(trace: Trace) -> Values:
    fit = ring_fit(trace)
    return {"value": fit[1]} if fit else {}


# Copies, launches, work


def copies(of: Callable[[Event], float | None]) -> Callable[[Trace], Values]:
    """Something of copies, added up by rank and direction."""

    def compute(trace: Trace) -> Values:
        out: Values = defaultdict(float)
        for number, rank in trace.ranks.items():
            for event in rank.events:
                value = of(event)
                if event.kind == "copy" and value is not None:
                    out[f"rank {number} {event.direction or 'unknown'}"] += value
        return dict(out)

    return compute


def copy_time(trace: Trace) -> Values:
    return {k: v / trace.per_second for k, v in copies(lambda e: e.dur)(trace).items()}


def launches(trace: Trace) -> Values:
    """Calls that launch, and how long after them the first event that they launch starts."""
    means, count = [], 0
    for rank in trace.ranks.values():
        delays: dict[int, int] = {}
        for event in work(rank):
            if event.launch is not None and event.call is not None:
                delay = event.start - event.launch
                delays[event.call] = min(delay, delays.get(event.call, delay))
        count += len(delays)
        if delays:
            means.append(mean(delays.values()) / trace.per_second * 1e6)
    return {"launches_count": count, "launch_delay_us": mean(means)} if means else {}


def flops(trace: Trace) -> Values:
    """Floating-point operations that the events state."""
    each = [e.flops for r in trace.ranks.values() for e in r.events if e.flops is not None]
    return {"value": float(sum(each))} if each else {}


PEAKS = {"nvidia_a100": 312e12, "nvidia_h100": 989.4e12}
"""Dense operations per second of 16-bit floats, by the data sheets."""


def mfu(trace: Trace) -> Values:
    """Operations that the model of the card needs, over what its devices can do."""
    card = trace.card
    steps = [s for s in (step_mean(r) for r in trace.ranks.values()) if s]
    if not card or not steps or card.get("workload.model.phase") != "training":
        return {}

    def number(key: str) -> float:
        return float(card[key])

    arch = "workload.model.model_arch."
    try:
        weights = number(arch + "num_params") - number(arch + "num_params_embedding")
        heads = number(arch + "num_heads") * number(arch + "head_dim")
        length_ = number("workload.data.seq_len")
        token = 6 * weights + 12 * number(arch + "num_layers") * heads * length_
        tokens = number("workload.data.batch_size") * length_
        devices = number("workload.hardware.xpu_spec.total_count")
        peak = PEAKS[card["workload.hardware.xpu_spec.model"]]
    except (KeyError, ValueError):
        return {}
    rate = tokens / (mean(steps) / trace.per_second)
    return {"value": 100 * token * rate / (devices * peak)}


# Memory


def memory_peak(trace: Trace) -> Values:
    """The most that was allocated, in GiB: by snapshots, else by PyTorch's samples."""
    if trace.snapshots:
        return {str(n): held["peak"] for n, held in trace.snapshots.items() if "peak" in held}
    return {
        str(number): max(s[1] for samples in rank.memory.values() for s in samples) / 2**30
        for number, rank in trace.ranks.items()
        if rank.memory
    }


def snapshot(key: str) -> Callable[[Trace], Values]:
    """Something of memory snapshots, the largest over ranks."""

    def compute(trace: Trace) -> Values:
        each = [s[key] for s in trace.snapshots.values() if key in s]
        return {"value": max(each)} if each else {}

    return compute


RANKS = "SELECT DISTINCT 'rank ' || rank AS key, 1 AS value FROM ranks WHERE rank IS NOT NULL"
EVENTS = """SELECT concat_ws(' ', 'rank', rank, class) AS key, count(*) AS value
    FROM device_events GROUP BY 1"""
HOST = """SELECT category AS key, count(*) AS value FROM host_events
    WHERE dur_ns IS NOT NULL GROUP BY 1"""
CALLS = """SELECT concat_ws(' ', 'rank', rank, collective) AS key, {} AS value
    FROM collectives GROUP BY 1"""
WIRE = "SELECT collective AS key, sum(wire_bytes) AS value FROM collectives GROUP BY 1"
BY_CALL = "SELECT collective AS key, {} AS value FROM collective_calls GROUP BY 1"
COPIES = """SELECT concat_ws(' ', 'rank', rank, coalesce(direction, 'unknown')) AS key, {} AS value
    FROM copies GROUP BY 1"""
STARTS = """SELECT 'rank ' || rank || ' step ' || step AS key,
    (ts_ns - min(ts_ns) OVER (PARTITION BY rank)) / 1e9 AS value FROM steps
    QUALIFY value > 0"""
MILLI, MICRO = 1e3, 1e6

FIGURES = [
    Figure("ranks", "ranks", counted(lambda n, _: [f"rank {n}"]), RANKS, True, "any"),
    Figure("events on devices", "device_events", counted(events_by_class), EVENTS, True, "any"),
    Figure("slices of the host", "host_events", counted(host_by_category), HOST, True, "any"),
    Figure("window", "wall_time_s.per_rank", seconds(window)),
    Figure("kernel time", "total_kernel_time_s.per_rank", seconds(kernel_sum)),
    Figure(
        "kernel time, overlaps once",
        "total_kernel_time_s.busy_kernel_time_s",
        mean_of(seconds(lambda r: covered(r, "comm", "compute") if r.events else None)),
    ),
    Figure(
        "computation",
        "total_compute_time_s.per_rank",
        seconds(lambda r: covered(r, "compute") if r.events else None),
    ),
    Figure("communication", "total_comm_time_s.per_rank", seconds(communicates)),
    Figure(
        "exposed communication",
        "comm_comp_overlap.per_rank/rank.exposed_comm_time_ms",
        talking(seconds(exposed, MILLI)),
    ),
    Figure(
        "overlap",
        "comm_comp_overlap.per_rank/rank.overlap_time_ms",
        talking(seconds(lambda r: beside(r) if r.events else None, MILLI)),
    ),
    Figure("overlap, share", "comm_comp_overlap.value", overlap_value),
    Figure(
        "exposed copies",
        "gpu_timeline_by_rank",
        seconds(exposed_copies, MILLI),
        "SELECT rank::VARCHAR AS key, time_ms AS value FROM gpu_timeline_by_rank "
        "WHERE type = 'exposed_memcpy_time'",
    ),
    Figure("busy time", "idle_time_s.busy_time_s", mean_of(seconds(lambda r: busy(r) or None))),
    Figure("idle time", "idle_time_s.per_rank", seconds(idle)),
    Figure(
        "utilization",
        "gpu_utilization.value",
        mean_of(by_rank(lambda r: fraction(100 * busy(r), window(r)) if work(r) else None)),
    ),
    Figure(
        "communication / window",
        "communication_fraction.per_rank",
        by_rank(lambda r: fraction(communicates(r), window(r))),
    ),
    Figure(
        "communication / busy time",
        "communication_ratio.per_rank",
        by_rank(lambda r: fraction(communicates(r), busy(r))),
    ),
    Figure("kernel with most time", "dominant_kernel_concentration_pct.value", dominant),
    Figure("imbalance of computation", "load_imbalance_ratio.value", imbalance),
    Figure("step starts", "steps", step_starts, STARTS, needs="steps"),
    Figure("step time", "avg_step_time.per_rank", seconds(step_mean), needs="steps"),
    Figure("step durations", "iter_time.per_rank", seconds(step_durations, MILLI), needs="steps"),
    Figure(
        "communication per step",
        "comm_time_per_step_s.per_rank",
        seconds(comm_per_step),
        needs="steps",
    ),
    Figure(
        "calls of a rank",
        "collectives",
        counted(calls_by_kind),
        CALLS.format("count(*)"),
        True,
        "calls",
    ),
    Figure(
        "message bytes of a rank",
        "collectives",
        sizes,
        CALLS.format("sum(message_bytes)"),
        needs="calls",
    ),
    Figure("wire bytes", "collectives", wire, WIRE, needs="calls"),
    Figure(
        "calls over ranks",
        "collective_calls",
        call_counts,
        BY_CALL.format("count(*)"),
        True,
        "calls",
    ),
    Figure(
        "transfer time",
        "collective_calls",
        transfers,
        BY_CALL.format("sum(transfer_ns) / 1e9"),
        needs="calls",
    ),
    Figure(
        "bus bandwidth, mean",
        "collective_calls",
        bus_mean,
        BY_CALL.format("avg(bus_bw_gb_per_s)"),
        needs="calls",
    ),
    Figure("bus bandwidth, weighted", "avg_comm_bandwidth_GBps.value", bus_weighted, needs="calls"),
    Figure(
        "bus bandwidth of all_reduce",
        "busbw_allreduce_gb_per_s.value",
        bus_median("all_reduce"),
        needs="calls",
    ),
    Figure(
        "bus bandwidth of all_gather",
        "busbw_allgather_gb_per_s.value",
        bus_median("all_gather"),
        needs="calls",
    ),
    Figure(
        "bus bandwidth of reduce_scatter",
        "busbw_reducescatter_gb_per_s.value",
        bus_median("reduce_scatter"),
        needs="calls",
    ),
    Figure(
        "bus bandwidth of all_to_all",
        "busbw_alltoall_gb_per_s.value",
        bus_median("all_to_all"),
        needs="calls",
    ),
    Figure("alpha of a ring", "hockney_alpha_s.value", hockney_alpha, needs="calls"),
    Figure("beta of a ring", "hockney_beta_s_per_byte.value", hockney_beta, needs="calls"),
    Figure("lag of the last rank", "straggler_lag", lags, needs="calls"),
    Figure("last rank of calls", "straggler_lag.last_rank_counts", last_ranks, "", True, "calls"),
    Figure("copies", "copies", copies(lambda _: 1), COPIES.format("count(*)"), True),
    Figure("bytes copied", "copies", copies(lambda e: e.bytes), COPIES.format("sum(bytes)")),
    Figure("time of copies", "copies", copy_time, COPIES.format("sum(dur_ns) / 1e9")),
    Figure("launches", "launch_delay_us", launches),
    Figure("operations stated", "total_model_flops_from_args.value", flops),
    Figure("model FLOPs utilization", "mfu.value", mfu, needs="steps"),
    Figure("peak of memory", "memory.per_rank", memory_peak, needs="memory"),
    Figure("memory reserved", "memory.current_reserved_gib", snapshot("reserved"), needs="memory"),
    Figure(
        "memory requested", "memory.current_requested_gib", snapshot("requested"), needs="memory"
    ),
    Figure(
        "memory allocated", "memory.current_allocated_gib", snapshot("allocated"), needs="memory"
    ),
    Figure(
        "peak of memory, requested",
        "memory.peak_requested_gib",
        snapshot("requested peak"),
        needs="memory",
    ),
]

__all__ = ["FIGURES", "Figure", "Values", "union"]
