"""12.replicas: what ranks hold in each case, what is looked at afterwards, and what is right."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited
from course_lib.learn.sandbox.salted_hash import salted_hash

__all__ = ["KINDS", "ReplicasReport", "labels_of", "odd_of", "right", "tensors_of", "trial"]

SAME, NAN, LAYOUT, NONE = "all agree", "all agree, on a NaN", "all agree, one stores by column", "no tensors"
LAST, FIRST, SHORT = "last bit, after a call where all agreed", "rank 0 alone", "last bit of a bfloat16"
SWAP, EXCHANGE, ZERO, COUNTER = "two numbers exchanged", "two tensors exchanged", "0.0 and -0.0", "a counter off by one"
FEW, MANY, LONG = "few bits of a hash", "300 tensors", "the last of 5,000 numbers"
HALVES, TWO_ODD, SPREAD = "two halves", "two ranks alike in error", "two alike, no others"
KINDS = (
    *(SAME, SWAP, NAN, LAYOUT, LAST, FIRST, EXCHANGE, ZERO, COUNTER, SHORT, FEW),
    *(HALVES, TWO_ODD, SPREAD, MANY, LONG, NONE),
)
_ONE_BIT_OF_CRC32 = 0xB66B1FA6  # an exclusive or with the last float64 that changes zlib.crc32 in its lowest bit alone
_ENOUGH, _MOST_BYTES = "no more than needed", 200  # a hash as text, and what pickling adds


def labels_of(kind: str, world_size: int) -> list[int]:
    """By rank: ranks with one label hold equal bits, and label 0 holds what nobody has spoilt."""
    ranks = range(world_size)
    if world_size == 1 or kind in (SAME, NAN, LAYOUT, NONE):
        return [0] * world_size
    if kind == FIRST:
        return [int(rank == 0) for rank in ranks]
    if kind == HALVES:
        return [int(2 * rank >= world_size - 1) for rank in ranks]  # of five ranks three agree
    if kind == TWO_ODD:
        return [int(rank in (1, 3)) for rank in ranks]
    if kind == SPREAD:
        return [max(0, rank - 1) for rank in ranks]
    odd = {LAST: world_size - 1, COUNTER: 0, FEW: world_size - 1}.get(kind, world_size // 2)
    return [int(rank == odd) for rank in ranks]


def odd_of(kind: str, world_size: int) -> list[int] | None:
    """What is right: the ranks off the majority, or None where there is none."""
    labels = labels_of(kind, world_size)
    most, count = Counter(labels).most_common(1)[0]
    return [rank for rank, label in enumerate(labels) if label != most] if 2 * count > world_size else None


def tensors_of(kind: str, label: int, rank: int) -> list[Tensor]:
    """What a rank with this label holds."""
    if kind == NONE:
        return []
    draw = torch.Generator().manual_seed(12)
    if kind == MANY:
        found = [torch.randn(3, generator=draw) for _ in range(300)]
        found[137] += label
        return found
    if kind == LONG:
        long = torch.randn(5000, generator=draw)
        long[-1] = _after(long[-1], label)
        return [long]
    a, b = (torch.randn(6, 5, generator=draw) for _ in range(2))
    half, wide = torch.randn(7, generator=draw).bfloat16(), torch.randn(4, generator=draw, dtype=torch.float64)
    counter, mask = torch.tensor(2**60 + 1), torch.tensor([True, False, True])
    half[3], b[0, 0] = 1.0, 0.0
    if kind == NAN:
        a[1, 1] = float("nan")
    if label and kind == SWAP:
        a[2, :2] = a[2, :2].flip(0)
    elif label and kind == EXCHANGE:
        a, b = b, a
    elif label and kind == ZERO:
        b[0, 0] = -0.0
    elif label and kind == COUNTER:
        counter += 1
    elif label and kind == SHORT:
        half[3] = 1.0078125  # the next one
    elif label and kind == FEW:
        wide.view(torch.int64)[-1] ^= _ONE_BIT_OF_CRC32
    elif label:
        a[5, 4] = _after(a[5, 4], label)
    if kind == LAYOUT and rank == 1:
        a = a.mT.contiguous().mT
    return [torch.nn.Parameter(a), b, half, counter, mask, torch.zeros(0, 3), wide]


def _after(number: Tensor, steps: int) -> Tensor:
    """The float that comes so many after this one."""
    for _ in range(steps):
        number = torch.nextafter(number, number + 1)
    return number


# -- a trial --------------------------------------------------------------------------------------------------------


def _of_the_ranks(want: Any, got: Any, how: str) -> str:
    said = "None" if want is None else str(want)
    return f"expected {said}, got {got if isinstance(got, str) else short(got)}"


def _exactly(want: Any, got: Any) -> str:
    return "" if type(want) is type(got) and want == got else "another answer"


@dataclass(frozen=True, kw_only=True)
class ReplicasReport(RankReport):
    """What an answer gave on a rank, and what it sent."""

    asked_for = "a list of ranks, or None"
    odd: Any = fact(_of_the_ranks, by=_exactly)
    drawn: str = fact(
        "the ranks are right, but your code {got}, so a training run would go on otherwise", right=NOTHING
    )
    kept: str = fact("the ranks are right, and your code changed what it was given: {got}", right=NOTHING)
    sent: str = fact("the ranks are right, but this rank sent every other rank {got}; a hash takes 8", right=_ENOUGH)
    bits: str = fact("the ranks are right, but what each rank sent is {got}; a hash has 32 bits or more", right=NOTHING)
    barriers: str = fact("the ranks are right, but your code called {got}; an all-gather waits itself", right=NOTHING)
    sent_bytes: float = 0.0
    salted: bool = False  # Python's own hash was taken of bytes or text


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    held = tensors_of(kind, labels_of(kind, me.world_size)[me.rank], me.rank)
    given = [one.to(me.device) for one in (tensors_of(SAME, 0, me.rank) if kind == LAST else held)]
    if kind == LAST:  # the same tensors twice, as a model's, and in between their numbers change
        answer(me, given)
        _set(given, held)
    kept, random = Kept(tensors=given), torch.get_rng_state()
    with Recorder(me.rank) as recorder, salted_hash(me.rank) as salted:
        odd = answer(me, given)
    if odd is ...:
        return ...
    begun = first_unwaited()
    total = sum(sum(call.sent_bytes.values()) for call in recorder.calls) / max(1, me.world_size - 1)
    barriers = sum(call.operation == "barrier" for call in recorder.calls)
    return ReplicasReport(
        unwaited=begun,
        odd=_plain(odd),
        drawn=NOTHING if torch.equal(random, torch.get_rng_state()) else "set or drew torch's global random numbers",
        kept=kept.changes() or NOTHING,
        sent=_ENOUGH if total <= _MOST_BYTES else f"{round(total)} bytes",
        bits=_short_hash(recorder.calls),
        barriers=f"{barriers} barrier{'s' * (barriers > 1)}" if barriers else NOTHING,
        sent_bytes=total,
        salted=bool(salted),
    )


def _short_hash(calls: Sequence[Any]) -> str:
    """What was sent, where that is one number of a type that holds 24 bits or fewer; else that it was nothing such."""
    sent = {(call.dtype, call.size_bytes) for call in calls if call.size_bytes}
    bits = {("float32", 4): 24, ("bfloat16", 2): 8, ("float16", 2): 11}
    (dtype, _), *others = sent or {("", 0)}
    return NOTHING if others or not (sent & bits.keys()) else f"one {dtype}, which holds {bits[next(iter(sent))]} bits"


@torch.no_grad()
def _set(tensors: list[Tensor], values: list[Tensor]) -> None:
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)


def _plain(odd: Any) -> Any:
    if odd is None or isinstance(odd, str):
        return odd if odd is None else f"a text, {short(odd)}"
    if not isinstance(odd, Sequence) or not all(_is_whole(one) for one in odd):
        return f"a {type(odd).__name__}, {short(odd)}"
    return [operator.index(rank) for rank in odd]


def _is_whole(one: Any) -> bool:
    """Python's whole numbers, and others that stand for one, as NumPy's."""
    try:
        return not isinstance(one, bool) and operator.index(one) is not None
    except TypeError:
        return False


def right(kind: str) -> Callable[[int, int], ReplicasReport]:
    return lambda _, world_size: ReplicasReport(odd=odd_of(kind, world_size))
