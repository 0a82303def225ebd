"""08.split: what masks of dropout are, seen by values alone: by gradients of what is alike without them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.learn.exercises.lesson_08.split.cases import STEPS, dim_of
from course_lib.learn.exercises.lesson_08.split.reports import AGREE, OWN
from course_lib.learn.judging.report import NOT_DEMANDED, NOTHING

if TYPE_CHECKING:
    from course_lib.learn.exercises.lesson_08.split.weighing import SplitTrial

__all__ = ["seen_of_masks"]

_POSITIONS, _VALUES = "stem.positions.weight", "blocks.0.attention.w_v.weight"


def seen_of_masks(trial: SplitTrial, split: Any) -> dict[str, Any]:
    """Two steps on one batch, with the same weights; every rank then tells all others what it has seen."""
    seen = []
    for _ in range(STEPS):
        for part in split.parts.values():
            part.grad = None
        loss = split.loss(*trial.batch(0))
        loss.backward()
        gradients = {name: part.grad.detach().cpu().clone() for name, part in split.parts.items() if _has_grad(part)}
        seen.append(({"the loss": loss.detach().cpu(), **gradients}, torch.get_rng_state()))
    told: list[Any] = [None] * trial.me.world_size
    dist.all_gather_object(told, seen)
    first, last = seen[0][0], seen[-1][0]
    facts: dict[str, Any] = {
        "agree": _agree([one[-1][0] for one in told]),
        "again": "the same" if first.keys() == last.keys() and all(_same(first[n], last[n]) for n in first) else OWN,
        "generators": AGREE if all(torch.equal(told[0][-1][1], one[-1][1]) for one in told) else "no longer alike",
        **dict.fromkeys(("heads", "places", "in_a_step"), NOT_DEMANDED),
    }
    others = [one for rank, one in enumerate(told) if rank != trial.me.rank]
    if trial.situation.looks_at == "heads" and others:
        alike = any(_same(one[0][0].get(_VALUES), first.get(_VALUES)) for one in others)
        facts["heads"] = "the same" if alike else OWN
    if trial.situation.looks_at == "places":
        facts["places"] = _of_places(trial, first.get(_POSITIONS))
    if trial.situation.looks_at == "a step":
        facts["in_a_step"] = _in_a_step(first)
    return facts


def _has_grad(part: Any) -> bool:
    return isinstance(part, Tensor) and part.grad is not None


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return a is b
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-9, atol=1e-12)


def _agree(gradients: list[dict[str, Tensor]]) -> str:
    """The first thing that all ranks hold and that is not the same on them."""
    for name, one in gradients[0].items():
        is_whole = name == "the loss" or dim_of(name) is None
        if is_whole and not all(_same(one, others.get(name)) for others in gradients[1:]):
            return f"{name} differs" if name == "the loss" else f"gradients of `{name}` differ"
    return AGREE


def _in_a_step(gradients: dict[str, Tensor]) -> str:
    """Two places of a step whose masks are the same: row cuts give their biases alone, and only masks differ."""
    found = {"the stem": gradients[_POSITIONS].sum(0)} if _POSITIONS in gradients else {}
    found |= {f"`{name}`": one for name, one in gradients.items() if name.endswith(("w_out.bias", "w_down.bias"))}
    alike = [(a, b) for a, b in combinations(found, 2) if _same(found[a], found[b])]
    return f"the masks after {alike[0][0]} and {alike[0][1]} are the same, or there are none" if alike else NOTHING


def _of_places(trial: SplitTrial, gradient: Tensor | None) -> str:
    """Whether the first rank's positions have the gradients of another rank's, where neither is masked."""
    if gradient is None:
        return "none at all"
    blocks = gradient[: trial.situation.length].chunk(trial.me.world_size)
    if "stem" in trial.label:
        alike = any(torch.equal(blocks[0] == 0, block == 0) for block in blocks[1:])
    else:
        alike = False
        for block in blocks[1:]:
            both = (blocks[0] != 0) & (block != 0)
            alike = alike or _same(blocks[0][both], block[both])
    return "the same" if alike else OWN
