"""05.clip: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_05.clip.wrong_answers import Shards, norm_of_all, of, scale, squares_of


def local_norm(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    return torch.nn.utils.clip_grad_norm_(shards, max_norm)


def combined(reduce: Callable[[Rank, Tensor], None], *, is_squared: bool = False) -> Callable[..., Tensor]:
    """``reduce`` makes one number of the ranks' own norms, or of their squares."""

    def answer(me: Rank, shards: Shards, max_norm: float) -> Tensor:
        number = squares_of(me, of(shards))
        number = number if is_squared else number.sqrt()
        reduce(me, number)
        return scale(of(shards), number.sqrt() if is_squared else number, max_norm)

    return answer


def _mean(me: Rank, number: Tensor) -> None:
    dist.all_reduce(number)
    number /= me.world_size


adds_norms = combined(lambda me, number: dist.all_reduce(number))


largest_norm = combined(lambda me, number: dist.all_reduce(number, dist.ReduceOp.MAX))


averages = combined(_mean, is_squared=True)


by_rank_0 = combined(lambda me, number: dist.broadcast(number, src=0))


sums_to_rank_0 = combined(lambda me, number: dist.reduce(number, dst=0), is_squared=True)


def forgets_the_root(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    return scale(of(shards), norm_of_all(me, shards).square(), max_norm)


def scales_always(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    norm = norm_of_all(me, shards)
    for gradient in of(shards):
        gradient *= max_norm / (norm + 1e-6)
    return norm


def divides_by_zero(me: Rank, shards: Shards, max_norm: float) -> float:
    norm = norm_of_all(me, shards).item()
    for gradient in of(shards):
        gradient *= min(1.0, max_norm / norm)
    return norm


def scales_a_name(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    norm = norm_of_all(me, shards)
    for gradient in of(shards):
        gradient = gradient * (max_norm / norm).clamp(max=1.0)
    return norm


def into_new_tensors(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    norm = norm_of_all(me, shards)
    for shard in shards:
        if shard.grad is not None:
            shard.grad = shard.grad * (max_norm / norm).clamp(max=1.0)
    return norm


def scales_the_weights(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    norm = norm_of_all(me, shards)
    with torch.no_grad():
        for shard in shards:
            shard *= (max_norm / norm).clamp(max=1.0)
    return norm


def returns_its_own(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    own = squares_of(me, of(shards)).sqrt()
    scale(of(shards), norm_of_all(me, shards), max_norm)
    return own


def returns_what_is_left(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    return scale(of(shards), norm_of_all(me, shards), max_norm).clamp(max=max_norm)


def returns_the_square(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    return scale(of(shards), norm_of_all(me, shards), max_norm).square()


def returns_nothing(me: Rank, shards: Shards, max_norm: float) -> None:
    scale(of(shards), norm_of_all(me, shards), max_norm)


def returns_early(me: Rank, shards: Shards, max_norm: float) -> Any:
    gradients = of(shards)
    if not gradients:
        return 0.0
    return scale(gradients, norm_of_all(me, shards), max_norm)


def stays_away_when_short(me: Rank, shards: Shards, max_norm: float) -> Any:
    own = squares_of(me, of(shards)).sqrt()
    return own if own <= max_norm else scale(of(shards), norm_of_all(me, shards), max_norm)


def begins_with_nothing(me: Rank, shards: Shards, max_norm: float) -> Any:
    squares = torch.stack([gradient.square().sum() for gradient in of(shards)]).sum()
    dist.all_reduce(squares)
    return scale(of(shards), squares.sqrt(), max_norm)


def asks_none(me: Rank, shards: Shards, max_norm: float) -> Any:
    squares = torch.zeros((), device=me.device)
    for shard in shards:
        squares = squares + shard.grad.square().sum()  # type: ignore[union-attr]  # the mistake
    dist.all_reduce(squares)
    return scale(of(shards), squares.sqrt(), max_norm)


def fills_none(me: Rank, shards: Shards, max_norm: float) -> Any:
    for shard in shards:
        if shard.grad is None:
            shard.grad = torch.zeros_like(shard)
    return scale(of(shards), norm_of_all(me, shards), max_norm)


def not_waited_for(me: Rank, shards: Shards, max_norm: float) -> Any:
    squares = squares_of(me, of(shards))
    dist.all_reduce(squares, async_op=True)
    return scale(of(shards), squares.sqrt(), max_norm)


def gathers_gradients(me: Rank, shards: Shards, max_norm: float) -> Any:
    flat = torch.cat([torch.zeros(0, device=me.device), *(g.flatten() for g in of(shards))])
    lengths: list[Any] = [None] * me.world_size
    dist.all_gather_object(lengths, len(flat))
    parts = [flat.new_empty(max(lengths)) for _ in lengths]
    padded = torch.nn.functional.pad(flat, (0, max(lengths) - len(flat)))
    dist.all_gather(parts, padded)
    return scale(of(shards), torch.cat(parts).norm(), max_norm)


def by_the_library(me: Rank, shards: Shards, max_norm: float) -> Tensor:
    from course_lib.parallel.collectives.members import Members
    from course_lib.parallel.sharded import clip_shards

    return clip_shards(shards, max_norm, Members.of(me, None))


EXERCISE = "05.clip"
EXAMPLES: dict[str, Any] = {
    "not-waited-for": not_waited_for,
    "local-norm": local_norm,
    "adds-norms": adds_norms,
    "largest-norm": largest_norm,
    "averages": averages,
    "no-root": forgets_the_root,
    "scales-up": scales_always,
    "returns-early": returns_early,
    "stays-away-when-short": stays_away_when_short,
    "begins-with-nothing": begins_with_nothing,
    "divides-by-zero": divides_by_zero,
    "trips-over-none": asks_none,
    "fills-none": fills_none,
    "returns-its-own": returns_its_own,
    "returns-what-is-left": returns_what_is_left,
    "returns-the-square": returns_the_square,
    "returns-nothing": returns_nothing,
    "scales-a-name": scales_a_name,
    "scales-the-weights": scales_the_weights,
    "right-on-rank-0-alone": sums_to_rank_0,
    "by-rank-0": by_rank_0,
    "in-new-tensors": into_new_tensors,
    "sends-gradients": gathers_gradients,
}


FORBIDDEN = by_the_library
