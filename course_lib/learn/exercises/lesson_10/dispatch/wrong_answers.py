"""Wrong answers to 10.dispatch, each wrong in one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_10.dispatch.slips import (
    Run,
    Slip,
    on_ranks,
    put_back,
    rows_of,
    served,
    sorted_by_expert,
    weighed,
)

right = on_ranks(Slip())

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


def _overwritten(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    out = back.new_zeros(len(weights), back.size(1))
    for token, row in zip((order // weights.size(1)).tolist(), back * weights.flatten()[order, None], strict=True):
        out[token] = row
    return out


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
OVERWRITTEN = Slip(combine=_overwritten)
WEIGHED_ROWS = Slip(rows=_weighed_rows, combine=_summed)
FIRST_CHOICES, UNSORTED = Slip(order=_first_choices), Slip(order=_in_turn)
AS_IF_SORTED, BY_EXPERT = Slip(serve=_as_if_sorted), Slip(serve=_in_order_of_experts)
IN_BLOCKS = Slip(serve=_in_blocks)
UNSORTED_THERE = replace(UNSORTED, serve=_as_if_sorted)

# -- messages that are not right ----------------------------------------------------------------------------------


def numbers_from_zero(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    first = me.rank * (num_experts // me.world_size)
    return right(me, tokens, chosen, weights, num_experts, lambda expert, rows: run(expert - first, rows))


def of_this_rank_alone(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    each, out = num_experts // me.world_size, torch.zeros_like(tokens)
    for expert in range(me.rank * each, (me.rank + 1) * each):
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        out[token] += weights[token, choice, None] * run(expert, tokens[token])
    return out


def _sizes(me: Rank, chosen: Tensor, num_experts: int) -> tuple[Tensor, list[int], list[int]]:
    counts = torch.bincount(chosen.flatten(), minlength=num_experts)
    come = torch.empty_like(counts)
    dist.all_to_all_single(come, counts)
    come = come.view(me.world_size, -1)
    return come, counts.view(me.world_size, -1).sum(1).tolist(), come.sum(1).tolist()


def sizes_swapped(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    _, going, coming = _sizes(me, chosen, num_experts)
    rows = tokens.new_empty(sum(coming), tokens.size(1))
    dist.all_to_all_single(rows, rows_of(tokens, weights, sorted_by_expert(chosen)), going, coming)
    return tokens


def without_sizes(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    """Neither list is given, as if all parts were of one size."""
    _, _, coming = _sizes(me, chosen, num_experts)
    rows = tokens.new_empty(sum(coming), tokens.size(1))
    dist.all_to_all_single(rows, rows_of(tokens, weights, sorted_by_expert(chosen)))
    return tokens


def sizes_as_tensors(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    _, going, coming = _sizes(me, chosen, num_experts)
    rows, mine = tokens.new_empty(sum(coming), tokens.size(1)), tokens.new_empty(sum(going), tokens.size(1))
    dist.all_to_all_single(rows, mine, torch.tensor(coming), torch.tensor(going))  # type: ignore[arg-type]
    return tokens


def no_counts(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    """Each rank takes for granted that as much comes as goes."""
    counts = torch.bincount(chosen.flatten(), minlength=num_experts)
    going = counts.view(me.world_size, -1).sum(1).tolist()
    order = sorted_by_expert(chosen)
    rows = tokens.new_empty(len(order), tokens.size(1))
    dist.all_to_all_single(rows, rows_of(tokens, weights, order), going, going)
    each = num_experts // me.world_size
    made = torch.cat([run(me.rank * each + e % each, part) for e, part in enumerate(rows.split(counts.tolist()))])
    back = torch.empty_like(rows)
    dist.all_to_all_single(back, made, going, going)
    return weighed(back, order, weights)


def lists_of_tensors(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    _, going, coming = _sizes(me, chosen, num_experts)
    rows = rows_of(tokens, weights, sorted_by_expert(chosen))
    parts = [tokens.new_empty(size, tokens.size(1)) for size in coming]
    dist.all_to_all(parts, list(rows.split(going)))
    return tokens


def returns_early(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    if not len(tokens):
        return tokens
    return right(me, tokens, chosen, weights, num_experts, run)


def rests_without_rows(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    come, going, coming = _sizes(me, chosen, num_experts)
    order = sorted_by_expert(chosen)
    rows = tokens.new_empty(sum(coming), tokens.size(1))
    dist.all_to_all_single(rows, rows_of(tokens, weights, order), coming, going)
    if not len(rows):
        return torch.zeros_like(tokens)
    each = num_experts // me.world_size
    made = served(rows, come, range(me.rank * each, (me.rank + 1) * each), run)
    back = tokens.new_empty(len(order), tokens.size(1))
    dist.all_to_all_single(back, made, going, coming)
    return weighed(back, order, weights)


def not_waited_for(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Any:
    counts = torch.bincount(chosen.flatten(), minlength=num_experts)
    dist.all_to_all_single(torch.empty_like(counts), counts, async_op=True)
    return right(me, tokens, chosen, weights, num_experts, run)


# -- too much, or too little ----------------------------------------------------------------------------------------


def tokens_to_all(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """Everybody gets all tokens, and the outputs are summed over ranks."""
    lengths: list[Any] = [None] * me.world_size
    dist.all_gather_object(lengths, len(tokens))
    most, starts = max(lengths), [sum(lengths[:rank]) for rank in range(me.world_size)]

    def gathered(mine: Tensor) -> Tensor:
        padded = mine.new_zeros(most, mine.size(1))
        padded[: len(mine)] = mine
        parts = [torch.empty_like(padded) for _ in lengths]
        dist.all_gather(parts, padded)
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    every, chose, weigh = (gathered(mine) for mine in (tokens, chosen, weights))
    out = of_this_rank_alone(me, every, chose, weigh, num_experts, run)
    dist.all_reduce(out)
    return out[starts[me.rank] : starts[me.rank] + len(tokens)]


def all_by_all(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    """Every own expert computes all rows that come, and a mask keeps what was wanted."""

    def serve(rows: Tensor, come: Tensor, own: Sequence[int], run: Run) -> Tensor:
        experts = torch.tensor(own, device=rows.device).repeat(len(come)).repeat_interleave(come.flatten())
        return sum((run(e, rows) * (experts == e).unsqueeze(1) for e in own), torch.zeros_like(rows))

    return on_ranks(Slip(serve=serve))(me, tokens, chosen, weights, num_experts, run)


def joins_nothing(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    def serve(rows: Tensor, come: Tensor, own: Sequence[int], run: Run) -> Tensor:
        experts = torch.tensor(own, device=rows.device).repeat(len(come)).repeat_interleave(come.flatten())
        pieces, places = [], []
        for expert in own:
            place = (experts == expert).nonzero().squeeze(1)
            if len(place):
                pieces.append(run(expert, rows[place]))
                places.append(place)
        return torch.cat(pieces)[torch.cat(places).argsort()]

    return on_ranks(Slip(serve=serve))(me, tokens, chosen, weights, num_experts, run)


def minus_one(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    def combine(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
        return (back[order.argsort()].view(*weights.shape, -1) * weights.unsqueeze(-1)).sum(1)

    return on_ranks(Slip(combine=combine))(me, tokens, chosen, weights, num_experts, run)


def in_float32(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    return right(me, tokens, chosen, weights, num_experts, run).float()


def returns_nothing(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> None:
    right(me, tokens, chosen, weights, num_experts, run)


def weighs_in_place(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    out = right(me, tokens, chosen, weights, num_experts, run)
    return tokens.copy_(out)


def by_the_library(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
    from course_lib.parallel.collectives.members import Members
    from course_lib.parallel.experts import Dispatch, Routing

    everything = torch.ones_like(chosen, dtype=torch.bool)
    probabilities = torch.zeros(len(tokens), num_experts, dtype=tokens.dtype, device=me.device)
    journey = Dispatch.plan(Members.of(me, None), Routing(chosen, weights, probabilities, everything))
    rows = journey.dispatch(tokens)
    first = me.rank * num_experts // me.world_size
    made = [run(first + own, part) for own, part in enumerate(rows.split(journey.counts))]
    return journey.combine(torch.cat(made))
