"""Right answers to 05.wrapped in other styles than the lesson's: no learner sees them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from course_lib.models import Transformer

__all__ = ["ANSWERS", "SAME"]


def blocks_first(model: Transformer) -> Any:
    return (*model.blocks, (model.head, model.stem))


def left_to_the_rest(model: Transformer) -> Any:
    """What no unit has is together in the one around all."""
    return list(model.blocks)


def the_two_alone(model: Transformer) -> Any:
    """Positions and the last norm go to the rest."""
    return [[model.stem.tokens, model.head.w_vocab], *model.blocks]


def found_by_sharing(model: Transformer) -> Any:
    """Whatever shares a parameter goes together, without a name."""
    units: list[list[nn.Module]] = []
    for child in [model.stem, model.head, *model.blocks]:
        own = set(child.parameters())
        together = [unit for unit in units if any(own & set(one.parameters()) for one in unit)]
        units = [unit for unit in units if unit not in together]
        units.append([child, *(one for unit in together for one in unit)])
    return units


def finer(model: Transformer) -> Any:
    """Smaller units: every child of a block by itself."""
    parts = [part for block in model.blocks for part in block.children() if list(part.parameters())]
    return [[model.stem, model.head], *parts]


def one_by_one(model: Transformer) -> Iterator[Any]:
    yield [model.stem, model.head]
    yield from model.blocks


ANSWERS = (blocks_first, left_to_the_rest, the_two_alone, found_by_sharing, finer)
SAME: dict[str, str] = {}
