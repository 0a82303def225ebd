"""05.wrapped: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from torch import nn

from course_lib.models import Transformer


def _as_it_was(model: Transformer) -> Any:
    return [model.stem, model.head, *model.blocks]


def _none(model: Transformer) -> Any:
    return []


def _blocks_in_one(model: Transformer) -> Any:
    return [[model.stem, model.head], list(model.blocks)]


def _untied(model: Transformer) -> Any:
    model.head.w_vocab.weight = nn.Parameter(model.head.w_vocab.weight.detach().clone())
    return [model.stem, model.head, *model.blocks]


EXERCISE = "05.wrapped"
EXAMPLES: dict[str, Any] = {
    "two-homes": _as_it_was,
    "all-in-one": _none,
    "blocks-in-one": _blocks_in_one,
    "tied-no-more": _untied,
}
