"""Wrong answers to 10.dispatch, each wrong in one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from course_lib.learn.exercises.lesson_10.dispatch.slips import (
    Run,
    Slip,
    put_back,
    rows_of,
    served,
    sorted_by_expert,
    weighed,
)

# -- between the messages -----------------------------------------------------------------------------------------


def _summed(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    return put_back(back, order, weights).sum(1)


def _averaged(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    return put_back(back, order, weights).mean(1)


def _normalised(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    return weighed(back, order, weights / weights.sum(1, keepdim=True))


def _by_other_weights(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    """Sorted rows, and weights in the order of the tokens."""
    return _summed(back * weights.flatten()[:, None], order, weights)


def _as_they_come(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    return weighed(back, torch.arange(len(back), device=back.device), weights)


def _weighed_rows(tokens: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    return rows_of(tokens, weights, order) * weights.flatten()[order, None]


def _first_choices(chosen: Tensor) -> Tensor:
    first = sorted_by_expert(chosen[:, :1])
    return first * chosen.size(1)


def _in_turn(chosen: Tensor) -> Tensor:
    return torch.arange(chosen.numel(), device=chosen.device)


def _as_if_sorted(rows: Tensor, come: Tensor, own: Sequence[int], run: Run) -> Tensor:
    """Rows from rank after rank, cut as if they came expert after expert."""
    return torch.cat([run(expert, part) for expert, part in zip(own, rows.split(come.sum(0).tolist()), strict=True)])


def _in_blocks(rows: Tensor, come: Tensor, own: Sequence[int], run: Run) -> Tensor:
    """The same by ``repeat_interleave`` in the place of ``repeat``."""
    experts = torch.tensor(own, device=rows.device).repeat_interleave(len(come))
    each, made = experts.repeat_interleave(come.flatten()), torch.empty_like(rows)
    for expert in own:
        made[each == expert] = run(expert, rows[each == expert])
    return made


def _in_order_of_experts(rows: Tensor, come: Tensor, own: Sequence[int], run: Run) -> Tensor:
    """Right outputs, which go back expert after expert."""
    experts = torch.tensor(own, device=rows.device).repeat(len(come)).repeat_interleave(come.flatten())
    return served(rows, come, own, run)[experts.argsort(stable=True)]


SUMMED, AVERAGED, NORMALISED = (Slip(combine=one) for one in (_summed, _averaged, _normalised))
OTHER_WEIGHTS, AS_THEY_COME = Slip(combine=_by_other_weights), Slip(combine=_as_they_come)
WEIGHED_ROWS = Slip(rows=_weighed_rows, combine=_summed)
FIRST_CHOICES, UNSORTED = Slip(order=_first_choices), Slip(order=_in_turn)
AS_IF_SORTED, BY_EXPERT = Slip(serve=_as_if_sorted), Slip(serve=_in_order_of_experts)
IN_BLOCKS = Slip(serve=_in_blocks)
UNSORTED_THERE = replace(UNSORTED, serve=_as_if_sorted)
