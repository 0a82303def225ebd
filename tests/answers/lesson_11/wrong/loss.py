"""11.loss: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from course_lib.learn.exercises.lesson_11.loss import _sums, _whole
from course_lib.models import Transformer


def _pieces_kept(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return torch.stack(_sums(model, tokens, length, again=False)).sum() / tokens.numel()


def _all_again_at_once(model: Transformer, tokens: Tensor, length: int) -> Any:
    return checkpoint(lambda tokens: _whole(model, tokens, length), tokens, use_reentrant=False)


def _without_graph(model: Transformer, tokens: Tensor, length: int) -> Tensor:
    return torch.tensor(sum(one.item() for one in _sums(model, tokens, length)) / tokens.numel())


EXERCISE = "11.loss"
EXAMPLES: dict[str, Any] = {
    "as-it-was": _whole,
    "pieces-kept": _pieces_kept,
    "all-again-at-once": _all_again_at_once,
    "no-graph": _without_graph,
}
