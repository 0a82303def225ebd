"""05.quantized_gather: shards that are gathered in bytes, what may be off of them, and what a rank may send."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.judging.compare import Difference, difference
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.learn.judging.report import NOTHING, RankReport, fact, first_unwaited

__all__ = ["KINDS", "GatherKind", "GatherReport", "apart", "blocks_of", "right", "shard_of", "trial"]

ENOUGH, ALIKE, TWO = "no more than needed", "all ranks have the same", "two at most"
_BESIDE_BYTES = 16  # for each other rank; less than 8 scales would have more in float64


class GatherKind:
    """The cases; each completes "with ..."."""

    EVEN = "four whole blocks"
    SHORT = "a last block of four numbers"
    SMALLER = "fewer numbers than a block has"
    OUTLIER = "one large number, in one block"
    ZEROS = "a block of zeros"
    SMALL = "a block of very small numbers"
    HALF = "numbers in bfloat16"
    DOUBLE = "numbers in float64"
    NONE = "no numbers at all"
    ANEW = "four whole blocks, of another step"


K = GatherKind
_SIZES = {  # how many numbers, how many in a block, dtype
    K.EVEN: (1024, 256, torch.float32),
    K.SHORT: (772, 256, torch.float32),
    K.SMALLER: (100, 256, torch.float32),
    K.OUTLIER: (512, 64, torch.float32),
    K.ZEROS: (512, 64, torch.float32),
    K.SMALL: (256, 64, torch.float32),
    K.HALF: (512, 128, torch.bfloat16),
    K.DOUBLE: (512, 128, torch.float64),
    K.NONE: (0, 64, torch.float32),
    K.ANEW: (1024, 256, torch.float32),
}
KINDS = tuple(_SIZES)


def shard_of(kind: str, rank: int) -> Tensor:
    """What this rank keeps: (K,). Ranks have numbers of other sizes, so that no scale serves for another's."""
    num, block, dtype = _SIZES[kind]
    shard = torch.randn(num, generator=torch.Generator().manual_seed(10 * rank + KINDS.index(kind)))
    shard *= 0.02 * (1 + 2 * rank)
    if kind == K.OUTLIER:
        shard[block + 5] = 40.0
    if kind in (K.ZEROS, K.SMALL):
        shard[block : 2 * block] *= 0.0 if kind == K.ZEROS else 1e-7
    if kind == K.ZEROS and rank == 1:
        shard *= 0.0  # and it has to take part all the same
    return shard.to(dtype)


def blocks_of(kind: str) -> int:
    return _SIZES[kind][1]


def half_steps(kind: str, shard: Tensor) -> Tensor:
    """By how much each number may be off: half a step of its block, and what arithmetic rounds."""
    each = [part.abs().amax().expand(len(part)) for part in shard.double().split(blocks_of(kind))] if len(shard) else []
    largest = torch.cat(each) if each else shard.double()
    rounds = 2**-8 if shard.dtype is torch.bfloat16 else 2e-6
    return largest / 254 * 1.001 + shard.double().abs() * rounds


def apart(want: tuple[str, Tensor], have: Any) -> str:
    """How what came differs from all shards by more than rounding may do; a kind of difference with it."""
    kind, full = want
    if not isinstance(have, Tensor) or have.shape != full.shape:
        return Difference(difference(full, have), "shape")
    if have.dtype != full.dtype:
        return Difference(f"expected {full.dtype}, as the shard is, got {have.dtype}", "dtype")
    if not have.isfinite().all():
        return Difference(f"{int((~have.isfinite()).sum())} of {len(have)} numbers are nan or inf", "nan")
    num = _SIZES[kind][0]
    limit = torch.cat([half_steps(kind, part) for part in full.split(num)]) if num else full.double()
    off = (have.double() - full.double()).abs()
    if not (worse := off > limit).any():
        return ""
    at = int((off / limit.clamp_min(1e-300)).argmax())
    rank, place = divmod(at, num)
    said = f"number {place} of rank {rank} is {full[at].item():.4g}, and {have[at].item():.4g} came"
    return Difference(
        f"{said}; in its block half a step is {limit[at].item():.2g} ({int(worse.sum())} of {len(have)} numbers are "
        "further off than half a step)",
        "far",
    )


@dataclass(frozen=True, kw_only=True)
class GatherReport(RankReport):
    """What an answer gave on a rank, whether others have the same, and what it sent."""

    asked_for = "a tensor"
    full: Any = fact("{difference}", by=lambda want, have: apart(want, have[1]))  # (kind, tensor)
    kept: str = fact("the numbers are right, and your code changed what was to stay: {got}", right=NOTHING)
    alike: str = fact("each number is near enough, and {got}", right=ALIKE)
    calls: str = fact("the numbers are right, and this rank made {got}; two are enough", right=TWO)
    sent: str = fact(
        "the numbers are right, and this rank sent {got} than one byte a number and four a block", right=ENOUGH
    )
    more_bytes: float = 0.0  # that it sent each other rank
    stays: str = fact("the numbers are right, and {got}", right=NOTHING)


def trial(answer: Callable[..., Any], me: Rank, kind: str) -> Any:
    from course_lib.meter.communication.recorder import Recorder

    shard, block = shard_of(kind, me.rank).to(me.device, copy=True), blocks_of(kind)
    kept = Kept(shard=shard)
    with Recorder(me.rank) as recorder:
        out = answer(me, shard, block)
    if out is ...:
        return ...
    begun = first_unwaited()
    given, out = out, out.detach().cpu().clone() if isinstance(out, Tensor) else out
    sent = sum(sum(call.sent_bytes.values()) for call in recorder.calls)
    more = sent - (me.world_size - 1) * (len(shard) + 4 * -(-len(shard) // block))
    each = more / max(1, me.world_size - 1)
    return GatherReport(
        unwaited=begun,
        full=(kind, out),
        kept=kept.changes() or NOTHING,
        alike=_alike(me, out),
        calls=_calls([call.operation for call in recorder.calls]),
        sent=ENOUGH if each <= _BESIDE_BYTES else f"{round(more)} bytes more",
        more_bytes=each,
        stays=_after_another(answer, me, kind, given, out) if kind == K.ANEW else NOTHING,
    )


def _calls(operations: Sequence[str]) -> str:
    among = ", a barrier among them" if "barrier" in operations else ""
    return TWO if len(operations) <= 2 else f"{len(operations)} calls{among}"


def _after_another(answer: Callable[..., Any], me: Rank, kind: str, given: Any, was: Any) -> str:
    """Whether what an answer gave is still so after one more call, with other numbers."""
    answer(me, 2 * shard_of(kind, me.rank).to(me.device) + 1, blocks_of(kind))
    same = not isinstance(given, Tensor) or torch.equal(given.detach().cpu(), was)
    return NOTHING if same else "a later call has changed what an earlier one gave"


def _alike(me: Rank, out: Any) -> str:
    """Whether the ranks hold the same numbers, bit for bit; every rank asks."""
    text = out.double().numpy().tobytes() if isinstance(out, Tensor) else b""
    mark = torch.tensor([zlib.crc32(text)], device=me.device)
    marks = [torch.empty_like(mark) for _ in range(me.world_size)]
    dist.all_gather(marks, mark)
    return ALIKE if len({int(one) for one in marks}) == 1 else "ranks have other numbers than each other"


def right(kind: str) -> Callable[[int, int], GatherReport]:
    def expected(rank: int, world_size: int) -> GatherReport:
        return GatherReport(full=(kind, torch.cat([shard_of(kind, one) for one in range(world_size)])))

    return expected
