"""12.hierarchical: the nodes and tensors on which an answer is tried, what is looked at, and what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, compare, fact, first_unwaited
from course_lib.meter import Call

__all__ = [
    "ALONE",
    "EMPTY",
    "EVEN",
    "FEW",
    "KINDS",
    "ONE_NODE",
    "TURNED",
    "UNEVEN",
    "WHOLE",
    "HierarchicalReport",
    "Said",
    "compare_sums",
    "gave_the_one_before",
    "groups_of",
    "ranks_per_node",
    "right",
    "sum_of",
    "tensor_of",
    "trial",
]

EVEN = "two nodes and 240 numbers"
UNEVEN = "two nodes and 7 numbers"
TURNED = "two nodes and a matrix that lies transposed"
ONE_NODE = "one node, and 125 numbers"
ALONE = "a rank on each node, and 5 x 25 numbers"
FEW = "two nodes and a single number"
EMPTY = "two nodes and no numbers at all"
WHOLE = "two nodes and large whole numbers, right after others of the same shape"
KINDS = (EVEN, UNEVEN, TURNED, ONE_NODE, ALONE, FEW, EMPTY, WHOLE)

_ENOUGH, _BESIDE_BYTES = "no more than needed", 64.0  # inside a node, for what fills a part up
# What models are trained in; float64 elsewhere. What is wrong first with UNEVEN or TURNED is not of the dtype.
_DTYPES = {EVEN: torch.float32, UNEVEN: torch.float32, TURNED: torch.float32, ALONE: torch.bfloat16}
_SHAPES = {
    EVEN: (240,),
    UNEVEN: (7,),
    TURNED: (14, 17),
    ONE_NODE: (125,),
    ALONE: (5, 25),
    FEW: (),
    EMPTY: (0, 5),
    WHOLE: (9, 11),
}


def ranks_per_node(kind: str, world_size: int) -> int:
    """On 4 ranks 2 x 2, on 6 two nodes of three; or one node of all, or a rank on each."""
    return {ONE_NODE: world_size, ALONE: 1}.get(kind, world_size // 2)


def tensor_of(kind: str, rank: int) -> Tensor:
    """What a rank has: other numbers on each, whose sums no order of adding rounds."""
    shape = _SHAPES[kind]
    place = torch.arange(torch.Size(shape).numel()).reshape(shape)
    if kind == WHOLE:
        return place * 2**33 + rank * (2**40 + 3) + 1  # sums that float32 would round
    if kind == ALONE:
        return (place % 23 + (rank + 1) ** 2).to(_DTYPES[kind])  # sums below 256, which bfloat16 does not round
    numbers = ((place % 97 + 1) / 8 + (rank + 1) ** 2).to(_DTYPES.get(kind, torch.float64))
    return numbers.T if kind == TURNED else numbers


def sum_of(kind: str, ranks: range | list[int]) -> Tensor:
    """Added up over these ranks."""
    return torch.stack([tensor_of(kind, rank) for rank in ranks]).sum(0)


# -- a trial ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """One call of an answer: what it is, among whom, and how many bytes the rank handed in."""

    operation: str
    among: str  # "inside", "between", "all", or "others"
    size_bytes: int
    item_bytes: int


def _difference(want: Tensor, have: Any) -> str:
    if have is not None and not isinstance(have, Tensor):
        return f"expected a tensor of shape {tuple(want.shape)}, got {short(have)}"
    return difference(want, have, relative=1e-12, absolute=1e-12)


@dataclass(frozen=True, kw_only=True)
class HierarchicalReport(RankReport):
    """What an answer gave on a rank, and what it sent."""

    asked_for = "a tensor"
    total: Any = fact("the sum: {difference}", by=_difference)
    kept: str = fact("the sum is right, and your code changed what was to stay: {got}", right=NOTHING)
    earlier: str = fact(
        "the sum is right, but the sum that the call before gave has {got} since: both lie in one memory", right=NOTHING
    )
    between: str = fact("the sum is right, but this rank sent to other nodes {got}", right=_ENOUGH)
    inside: str = fact("the sum is right, but this rank sent inside its node {got}", right=_ENOUGH)
    left: str = fact("the sum is right, and your code has left process groups: {got}", right=NOTHING)
    total_before: Tensor | None = None  # what the call before was to give, where there was one
    calls: tuple[Said, ...] = ()


@contextmanager
def groups_of(me: Rank, per_node: int) -> Iterator[tuple[Any, Any]]:
    """The group of this rank's node, and that of its local rank; every rank makes all of them, in the same order."""
    num_nodes = me.world_size // per_node
    nodes = [list(range(node * per_node, (node + 1) * per_node)) for node in range(num_nodes)]
    inside = [dist.new_group(node) for node in nodes]
    between = [dist.new_group(list(places)) for places in zip(*nodes, strict=True)]
    node, local_rank = divmod(me.rank, per_node)
    yield inside[node], between[local_rank]
    dist.barrier()  # gloo's connections are there on one rank before they are on another
    for group in (inside[node], between[local_rank]):
        dist.destroy_process_group(group)


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.cluster.base.open_groups import groups_here
    from course_lib.meter.communication.recorder import Recorder

    per_node = ranks_per_node(kind, me.world_size)
    given = tensor_of(kind, me.rank).to(me.device)
    with groups_of(me, per_node) as (inside, between):
        kept, num_groups = Kept(tensor=given), len(groups_here())
        earlier = answer(me, -given, inside, between) if kind == WHOLE else None
        was = earlier.detach().clone() if isinstance(earlier, Tensor) else None
        with Recorder(me.rank) as recorder:
            out = answer(me, given, inside, between)
        begun, more = first_unwaited(), len(groups_here()) - num_groups
        changed = kept.changes()
        found = out.detach().cpu().clone() if isinstance(out, Tensor) else out
    if out is ...:
        return ...
    overwritten = isinstance(earlier, Tensor) and was is not None and not torch.equal(was, earlier)
    between_nodes, inside_node = _sent(recorder.calls, me, per_node, given)
    return HierarchicalReport(
        unwaited=begun,
        total=found,
        kept=changed or NOTHING,
        earlier="other numbers" if overwritten else NOTHING,
        between=between_nodes,
        inside=inside_node,
        left=f"{more} more than before" if more > 0 else NOTHING,
        calls=tuple(_said(call, me, per_node) for call in recorder.calls),
    )


def _sent(calls: tuple[Call, ...], me: Rank, per_node: int, given: Tensor) -> tuple[str, str]:
    """What this rank sent to other nodes and inside its own, or that it was no more than needed."""
    node, num_nodes = me.rank // per_node, me.world_size // per_node
    sent = [(call, peer // per_node == node, size) for call in calls for peer, size in call.sent_bytes.items()]
    # gloo's own reduce-scatter is an all-reduce; NCCL's, and that of the page, sends half of it
    between = sum(size // (1 + (call.operation == "reduce_scatter")) for call, near, size in sent if not near)
    inside = sum(size for _, near, size in sent if near)
    item_bytes = given.element_size()
    whole_bytes, part_bytes = given.numel() * item_bytes, ceil(given.numel() / per_node) * item_bytes
    needed = 2 * (num_nodes - 1) / num_nodes * part_bytes
    filled = 2 * (num_nodes - 1) * ceil(given.numel() / me.world_size) * item_bytes  # a part that the nodes divide
    needed_inside = 3 * (per_node - 1) * max(part_bytes, whole_bytes / per_node)
    return (
        _ENOUGH if between <= filled else f"{between:,} bytes, where {needed:,.0f} will do",
        _ENOUGH
        if inside <= needed_inside + _BESIDE_BYTES * 4 * per_node
        else f"{inside:,} bytes, where {needed_inside:,.0f} will do",
    )


def _said(call: Call, me: Rank, per_node: int) -> Said:
    node, local_rank = divmod(me.rank, per_node)
    members = {
        tuple(range(node * per_node, (node + 1) * per_node)): "inside",
        tuple(range(local_rank, me.world_size, per_node)): "between",
        tuple(range(me.world_size)): "all",
    }
    if len(call.group) == me.world_size and 1 < per_node < me.world_size:
        among = "all"
    else:
        among = members.get(tuple(sorted(call.group)), "others")
    return Said(call.operation, among, call.size_bytes, getattr(torch, call.dtype).itemsize if call.dtype else 0)


# -- what is right ------------------------------------------------------------------------------------------------


def right(kind: str) -> Callable[[int, int], HierarchicalReport]:
    def expected(_: int, world_size: int) -> HierarchicalReport:
        total = sum_of(kind, range(world_size))
        return HierarchicalReport(total=total, total_before=-total if kind == WHOLE else None)

    return expected


def compare_sums(expected: HierarchicalReport, got: Any) -> str:
    """The first fact that is not as expected, in words; and whether the sum is an earlier one."""
    found = compare(expected, got)
    is_earlier = isinstance(got, HierarchicalReport) and gave_the_one_before(expected, got)
    return f"{found}. It is the sum of the call before" if is_earlier else found


def gave_the_one_before(expected: HierarchicalReport, got: HierarchicalReport) -> bool:
    """Whether what came is the sum that the call before was to give."""
    before, have = expected.total_before, got.total
    return before is not None and isinstance(have, Tensor) and not _difference(before, have)
