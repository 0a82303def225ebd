"""04.sampler: the data sets and ranks on which an answer is tried, and how its indices are read."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import numpy
import torch

from course_lib.learn.judging.compare import short

__all__ = ["AGAIN", "GLOBAL", "ROWS", "Sampler", "compare", "label_of", "right", "tried"]

ROWS = (  # examples, ranks, epoch, seed
    (12, 4, 0, 5),
    (12, 4, 3, 5),
    (10, 4, 1, 0),
    (3, 8, 2, 1),
    (13, 5, 7, 11),
    (11, 2, 4, 3),
    (8, 3, 2, 100),
    (5, 1, 1, 2),
    (1, 3, 1, 4),
    (9, 9, 0, 0),
)
AGAIN, GLOBAL = "asked again", "random numbers of others"

Sampler = Callable[[int, int, int, int, int], Iterable[int]]


def label_of(num_items: int, world_size: int, epoch: int, seed: int) -> str:
    examples = f"{num_items} example{'s' * (num_items != 1)}"
    return f"{examples} on {world_size} rank{'s' * (world_size != 1)}, epoch {epoch}"


def tried(answer: Sampler, num_items: int, world_size: int, epoch: int, seed: int) -> dict[str, Any]:
    """The indices of every rank, as each rank would find them; whether they come again; what else was touched."""
    kept = torch.get_rng_state()
    found = []
    for rank in range(world_size):
        torch.manual_seed(1000 * rank)  # processes of their own do not share the global generator's state
        found.append(_plain(answer(num_items, rank, world_size, epoch, seed)))
    torch.manual_seed(77)
    before = _states()
    again = _plain(answer(num_items, world_size - 1, world_size, epoch, seed))
    touched = [name for name, state in _states().items() if state != before[name]]
    torch.set_rng_state(kept)
    return {
        AGAIN: "the same" if again == found[-1] else "other indices",
        **{f"rank {rank}": indices for rank, indices in enumerate(found)},
        GLOBAL: touched[0] if touched else "as they were",
    }


def _states() -> dict[str, Any]:
    """The generators that everybody shares."""
    state = numpy.random.get_state()
    return {
        "torch's": torch.get_rng_state().tolist(),
        "Python's": random.getstate(),
        "NumPy's": (state[1].tolist(), state[2]),  # type: ignore[index]
    }


def _plain(indices: Any) -> Any:
    """A list of whole numbers, whatever ordered thing holds them; anything else in words."""
    if isinstance(indices, str | bytes | Mapping | Set) or not isinstance(indices, Iterable):
        return f"a {type(indices).__name__}, {short(indices)}"
    try:
        return [_index(index) for index in indices]
    except TypeError:
        return f"numbers that are no indices: {short(indices)}"


def _index(index: Any) -> int:
    if isinstance(index, bool):
        raise TypeError
    return operator.index(index)


def right(num_items: int, world_size: int, epoch: int, seed: int) -> dict[str, Any]:
    """What PyTorch's sampler gives."""
    from torch.utils.data.distributed import DistributedSampler

    expected: dict[str, Any] = {AGAIN: "the same"}
    for rank in range(world_size):
        sampler: Any = DistributedSampler(range(num_items), world_size, rank, seed=seed)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        expected[f"rank {rank}"] = list(sampler)
    return expected | {GLOBAL: "as they were"}


def compare(expected: dict[str, Any], got: dict[str, Any]) -> str:
    """The first difference in the words of the exercise: of the indices first, then of the manners."""
    ranks = [name for name in expected if name.startswith("rank")]
    shares = [expected[name] for name in ranks if isinstance(expected[name], list)]
    num_items = 1 + max((index for share in shares for index in share), default=-1)
    for name in ranks:
        if found := _of_rank(name, expected[name], got[name], num_items):
            return found
    if got[AGAIN] != expected[AGAIN]:
        return "asked twice for the same rank, epoch and seed, it gives two answers"
    if got[GLOBAL] != expected[GLOBAL]:
        return f"the indices are right, and {got[GLOBAL]} global random generator is in another state afterwards"
    return ""


def _of_rank(name: str, want: Any, have: Any, num_items: int) -> str:
    if want == have:
        return ""
    if isinstance(want, str) or isinstance(have, str):
        return f"{name}: expected the indices {short(want)} in order, got {have}"
    if len(want) != len(have):
        return f"{name}: expected {len(want)} indices, {short(want)}, got {len(have)}, {short(have)}"
    outside = [index for index in have if not 0 <= index < num_items]
    if outside:
        return f"{name}: there is no example {outside[0]}; the indices of {num_items} examples end at {num_items - 1}"
    for place, (one, other) in enumerate(zip(want, have, strict=True)):
        if one != other:
            return f"{name}: expected the indices {short(want)}, got {short(have)}, which differ from item {place} on"
    return ""
