"""What ranks get when all of them work at once: the part of a calibration that one rank alone cannot show.

Ranks that share cores take turns on them, so a message between four busy ranks on two cores takes longer than
one between two. Here all ranks do the same at the same time: send to a neighbour, pass pieces round a ring,
copy, add. These are what collectives are made of; no collective between ranks is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from course_lib.meter.calibration.curve import Curve

if TYPE_CHECKING:
    import torch

    from course_lib.cluster.api.cluster import Cluster
    from course_lib.cluster.base.rank import Rank

__all__ = [
    "Together",
    "add_times",
    "experiments",
    "measure_together",
    "span_times",
    "spans_of",
    "spread_of",
    "together_from_json",
    "together_of",
    "undisturbed_s",
]

_MIB = 1 << 20
SIZES = (4096, 65536, 262144, _MIB, 4 * _MIB, 16 * _MIB, 64 * _MIB)  # of a rank's whole buffer
_CURVES = ("message", "ring_step", "add", "local_all_gather", "local_reduce_scatter")
_PIECE_BYTES = _MIB  # gloo cuts what it passes round a ring into two pieces at least, of a MiB at most
_BUDGET_S = 0.05  # for one size of one experiment
_ROUNDS = (5, 30)
_LEAST_ROUND_S = 1e-6  # where a barrier was no longer than a call, by chance

Spans = list[tuple[float, float]]  # (start, end) of each round on the machine's clock
Times = dict[tuple[str, int], list[float]]  # seconds of each round, by experiment and size in bytes


@dataclass(frozen=True)
class Together:
    """Times when ``num_ranks`` ranks of this machine do the same at once.

    ``call_s`` is an all-reduce of one number in a group of one rank: the way into the back end's thread and
    back. ``round_s`` is one round of a barrier: inside the back end, a message of no bytes goes out, and one comes in.
    By size of one buffer: ``message``, one in each pair of ranks, even to odd, that both begin
    together; ``ring_step``, one to the next rank, in pieces, while one comes from the rank before; ``add``,
    a sum of two float32 buffers into one of them. By size of the whole buffer: ``local_all_gather`` and
    ``local_reduce_scatter`` in a group of one rank, which is what these do beside sending: the call and
    copies into new memory.

    ``spread`` is how far rounds of one experiment lay apart: from the lower to the upper quartile, as a share of the
    lower, in the middle of all experiments. Where others want the cores it grows, and predictions get less certain.
    """

    num_ranks: int
    call_s: float
    round_s: float
    spread: float
    message: Curve
    ring_step: Curve
    add: Curve
    local_all_gather: Curve
    local_reduce_scatter: Curve


def together_from_json(data: dict[str, Any]) -> Together:
    """Read what ``dataclasses.asdict`` made of a ``Together``."""
    curves: dict[str, Any] = {
        name: Curve(tuple((int(size), float(time_s)) for size, time_s in data[name]["samples"])) for name in _CURVES
    }
    return Together(**{**data, **curves})


def measure_together(cluster: Cluster, num_ranks: int) -> Together:
    """Measure on a cluster of ``num_ranks`` ranks. Takes seconds."""
    times: Times = {}
    add_times(times, list(cluster.call(experiments, show=False)))
    return together_of(num_ranks, times)


def together_of(num_ranks: int, times: Times) -> Together:
    """What the times of one pass or several say."""
    curves: dict[str, Any] = {
        name: Curve.rising([(size, undisturbed_s(times[name, size])) for what, size in times if what == name])
        for name in _CURVES
    }
    call_s = undisturbed_s(times["call", 0])
    rounds = (num_ranks - 1).bit_length()  # gloo's barrier: to the rank 1, 2, 4 ... places on, and so from before
    round_s = max(undisturbed_s(times["barrier", 0]) - call_s, _LEAST_ROUND_S) / rounds
    spread = median(spread_of(of_one) for of_one in times.values())
    return Together(num_ranks, call_s, round_s, spread, **curves)


def undisturbed_s(times_s: Sequence[float]) -> float:
    """The lower quartile: what it takes while nothing else wants the cores, and not the luckiest round.

    Other work can only lengthen a time, and on a shared machine it does so to more than half of the rounds.
    """
    return quantiles(times_s, n=4, method="inclusive")[0] if len(times_s) > 1 else times_s[0]


def spread_of(times_s: Sequence[float]) -> float:
    """How far the upper quartile lies above the lower, as a share of the lower; 0 for a single time."""
    if len(times_s) < 2:
        return 0.0
    low_s, _, high_s = quantiles(times_s, n=4, method="inclusive")
    return high_s / low_s - 1


def add_times(times: Times, by_rank: Sequence[dict[tuple[str, int], Spans]]) -> None:
    """Add the rounds of one pass, told by every rank, to ``times``."""
    for case in by_rank[0]:
        times.setdefault(case, []).extend(span_times([spans[case] for spans in by_rank]))


def span_times(spans_by_rank: Sequence[Spans]) -> list[float]:
    """How long each round took: from the last rank that began it to the last that had finished, in seconds.

    The ranks of one machine share a clock, so their moments can be compared.
    """
    rounds = zip(*spans_by_rank, strict=True)
    return [max(end for _, end in spans) - max(start for start, _ in spans) for spans in rounds]


def spans_of(do: Callable[[], object], *, budget_s: float = _BUDGET_S, parts: int = 1) -> Spans:
    """Repeat ``do`` on this rank, all ranks beginning each round together; two rounds are not counted.

    Every rank makes the same number of rounds: as many as fit ``budget_s`` on the slowest. Where a round
    does the same ``parts`` times, the span is that of one.
    """
    import torch.distributed as dist

    warm = [_span(do, 1) for _ in range(2)]
    slowest_s = _largest(warm[-1][1] - warm[-1][0])
    low, high = _ROUNDS
    spans = []
    for _ in range(min(high, max(low, int(budget_s / slowest_s)))):
        dist.barrier()
        spans.append(_span(do, parts))
    return spans


def _span(do: Callable[[], object], parts: int) -> tuple[float, float]:
    start_s = time.perf_counter()
    do()
    return start_s, start_s + (time.perf_counter() - start_s) / parts


def _largest(value: float) -> float:
    """The largest of all ranks' values, known to all of them."""
    import torch
    import torch.distributed as dist

    shared = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return shared.item()


def experiments(me: Rank, sizes_bytes: Sequence[int] = SIZES) -> dict[tuple[str, int], Spans]:
    """Each experiment for each size, on main memory: what gloo moves."""
    import torch
    import torch.distributed as dist

    from course_lib.cluster.base.flat_collectives import flat_collective

    alone = [dist.new_group([rank]) for rank in range(me.world_size)][me.rank]
    one = torch.ones(1)
    found = {("call", 0): spans_of(lambda: dist.all_reduce(one, group=alone)), ("barrier", 0): spans_of(dist.barrier)}
    for size_bytes in sizes_bytes:
        part_bytes = size_bytes // me.world_size
        buffer, other = torch.ones(size_bytes // 4), torch.ones(size_bytes // 4)
        chunks = [_pieces(chunk) for chunk in buffer.chunk(me.world_size)]
        found["message", size_bytes] = spans_of(partial(_message, me, buffer))
        found["ring_step", part_bytes] = spans_of(partial(_ring_steps, me, chunks), parts=2 * (me.world_size - 1))
        found["add", size_bytes] = spans_of(partial(torch.add, buffer, other, out=other))
        for name in ("all_gather", "reduce_scatter"):
            collective = flat_collective(name)
            found[f"local_{name}", size_bytes] = spans_of(partial(collective, other, buffer, group=alone))
    dist.destroy_process_group(alone)
    return found


def _message(me: Rank, buffer: torch.Tensor) -> None:
    import torch.distributed as dist

    if me.rank % 2:
        dist.recv(buffer, me.rank - 1)
    elif me.rank + 1 < me.world_size:
        dist.send(buffer, me.rank + 1)


def _pieces(chunk: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return chunk.chunk(max(2, -(-chunk.nbytes // _PIECE_BYTES)))


def _ring_steps(me: Rank, chunks: Sequence[Sequence[torch.Tensor]]) -> None:
    """Pass the chunks, each in pieces, twice round the ring: as many steps in a row as an all-reduce takes.

    Neighbours that wait for each other are part of what a step costs, hence the row. Messages are started
    one by one, which gloo allows (NCCL would hang: there they are batched).
    """
    import torch.distributed as dist

    n = me.world_size
    following, before = (me.rank + 1) % n, (me.rank - 1) % n
    for step in range(2 * (n - 1)):
        out, into = chunks[(me.rank - step) % n], chunks[(me.rank - step - 1) % n]
        works = [dist.irecv(piece, before) for piece in into]
        works += [dist.isend(piece, following) for piece in out]
        for work in works:
            assert work is not None  # None is for a rank outside the group
            work.wait()
