"""The time of a data-parallel training step: what of its communication hides behind the backward pass.

DistributedDataParallel packs gradients into buckets and starts a bucket's all-reduce when its last gradient is
there, while the backward pass goes on with earlier layers. Buckets go one after the other. What is still on its
way when the backward pass ends is exposed: everybody waits for it. The last bucket is always exposed.

Source: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, not_negative

__all__ = ["BucketCost", "StepTime", "ddp_buckets", "ddp_step"]

_MIB = 1 << 20


@dataclass(frozen=True)
class BucketCost:
    """One all-reduce of a step; moments in seconds from the start of the backward pass."""

    size_bytes: float
    ready_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True)
class StepTime:
    """A step of one rank: forward, backward, the part of communication that is exposed, the optimizer."""

    forward_s: float
    backward_s: float
    optimizer_s: float
    communication_s: float
    exposed_s: float
    buckets: tuple[BucketCost, ...]

    @property
    def time_s(self) -> float:
        """The whole step."""
        return self.forward_s + self.backward_s + self.exposed_s + self.optimizer_s

    @property
    def hidden_s(self) -> float:
        """Communication that cost no time because the backward pass ran beside it."""
        return self.communication_s - self.exposed_s


@checked
def ddp_buckets(
    tensor_bytes: Sequence[int], *, bucket_cap_bytes: int = 25 * _MIB, first_bucket_bytes: int = _MIB
) -> tuple[int, ...]:
    """Sizes of DDP's buckets in the order in which they are sent, from the second step on.

    ``tensor_bytes`` are the parameters' sizes in the model's order; gradients come in the reverse order. A
    bucket is closed by the tensor that brings it to its limit, so it may be larger; the first one is kept
    small so that communication begins early. Defaults are PyTorch's.
    """
    at_least(1, bucket_cap_bytes=bucket_cap_bytes, first_bucket_bytes=first_bucket_bytes)
    buckets, filled, limit = [], 0, first_bucket_bytes
    for size_bytes in reversed(tensor_bytes):
        not_negative(tensor_bytes=size_bytes)
        filled += size_bytes
        if filled >= limit:
            buckets.append(filled)
            filled, limit = 0, bucket_cap_bytes
    return tuple(buckets + ([filled] if filled else []))


@checked
def ddp_step(
    bucket_bytes: Sequence[float],
    *,
    forward_s: float,
    backward_s: float,
    all_reduce_time_s: Callable[[float], float],
    optimizer_s: float = 0.0,
    overlap: float = 1.0,
    ready_shares: Sequence[float] | None = None,
) -> StepTime:
    """One step with these buckets; ``all_reduce_time_s(size_bytes)`` is the time of an all-reduce, in seconds.

    ``overlap`` is the share of hidden communication that costs the backward pass nothing: 1 where a GPU
    computes and its links copy, 0 where the same cores do both. ``ready_shares`` says at which share of the
    backward pass each bucket is complete; without it, gradients come at an even pace of bytes.
    """
    not_negative(forward_s=forward_s, backward_s=backward_s, optimizer_s=optimizer_s)
    if not 0 <= overlap <= 1:
        raise ValueError(f"overlap is {overlap}; it is a share from 0 to 1. The nearest is {min(max(overlap, 0), 1)}.")
    shares = _even_pace(bucket_bytes) if ready_shares is None else _checked(ready_shares, len(bucket_bytes))
    buckets, free_s = [], 0.0
    for size_bytes, share in zip(bucket_bytes, shares, strict=True):
        ready_s = share * backward_s
        start_s = max(ready_s, free_s)
        time_s = all_reduce_time_s(size_bytes)
        not_negative(**{"all_reduce_time_s(...)": time_s})
        free_s = start_s + time_s
        buckets.append(BucketCost(size_bytes, ready_s, start_s, free_s))
    communication_s = sum(bucket.end_s - bucket.start_s for bucket in buckets)
    beyond_s = max(0.0, free_s - backward_s)
    exposed_s = beyond_s + (1 - overlap) * max(0.0, communication_s - beyond_s)
    return StepTime(forward_s, backward_s, optimizer_s, communication_s, exposed_s, tuple(buckets))


def _even_pace(bucket_bytes: Sequence[float]) -> list[float]:
    total, done, shares = sum(bucket_bytes), 0.0, []
    for size_bytes in bucket_bytes:
        not_negative(bucket_bytes=size_bytes)
        done += size_bytes
        shares.append(done / total if total else 1.0)
    return shares


def _checked(shares: Sequence[float], count: int) -> Sequence[float]:
    if len(shares) != count or list(shares) != sorted(shares) or not all(0 <= share <= 1 for share in shares):
        raise ValueError(
            f"ready_shares is {list(shares)}; it needs one share for each of the {count} buckets, none smaller than "
            "the one before, all from 0 to 1."
        )
    return shares
