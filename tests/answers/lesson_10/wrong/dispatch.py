"""10.dispatch: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.rank import Rank
from course_lib.learn.exercises.lesson_10.dispatch.slips import Run, Slip, rows_of, served, sorted_by_expert, weighed
from course_lib.learn.exercises.lesson_10.dispatch.wrong_answers import (
    AS_IF_SORTED,
    AS_THEY_COME,
    AVERAGED,
    BY_EXPERT,
    FIRST_CHOICES,
    NORMALISED,
    OTHER_WEIGHTS,
    SUMMED,
    UNSORTED,
    WEIGHED_ROWS,
)


def on_ranks(slip: Slip) -> Callable[..., Tensor]:
    """An answer to the exercise with this slip in it."""

    def answer(me: Rank, tokens: Tensor, chosen: Tensor, weights: Tensor, num_experts: int, run: Run) -> Tensor:
        n, num_own = me.world_size, num_experts // me.world_size
        order = slip.order(chosen)
        counts = torch.bincount(chosen.flatten()[order], minlength=num_experts)
        come = torch.empty_like(counts)
        dist.all_to_all_single(come, counts)
        going, coming = (one.view(n, -1).sum(1).tolist() for one in (counts, come))
        rows = tokens.new_empty(sum(coming), tokens.size(1))
        dist.all_to_all_single(rows, slip.rows(tokens, weights, order), coming, going)
        own = range(me.rank * num_own, (me.rank + 1) * num_own)
        made = slip.serve(rows, come.view(n, -1), own, run)
        back = tokens.new_empty(len(order), tokens.size(1))
        dist.all_to_all_single(back, made, going, coming)
        return slip.combine(back, order, weights)

    return answer


right = on_ranks(Slip())


def _overwritten(back: Tensor, order: Tensor, weights: Tensor) -> Tensor:
    out = back.new_zeros(len(weights), back.size(1))
    for token, row in zip((order // weights.size(1)).tolist(), back * weights.flatten()[order, None], strict=True):
        out[token] = row
    return out


OVERWRITTEN = Slip(combine=_overwritten)


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


EXERCISE = "10.dispatch"
EXAMPLES: dict[str, Any] = {
    "not-waited-for": not_waited_for,
    "without-weights": on_ranks(SUMMED),
    "averaged": on_ranks(AVERAGED),
    "weights-made-one": on_ranks(NORMALISED),
    "other-weights": on_ranks(OTHER_WEIGHTS),
    "as-they-come": on_ranks(AS_THEY_COME),
    "weighed-too-early": on_ranks(WEIGHED_ROWS),
    "first-choices": on_ranks(FIRST_CHOICES),
    "one-choice-left": on_ranks(OVERWRITTEN),
    "not-sorted": on_ranks(UNSORTED),
    "as-if-sorted": on_ranks(AS_IF_SORTED),
    "back-by-expert": on_ranks(BY_EXPERT),
    "this-rank-alone": of_this_rank_alone,
    "numbers-from-zero": numbers_from_zero,
    "sizes-swapped": sizes_swapped,
    "no-sizes": without_sizes,
    "sizes-not-agreed": no_counts,
    "lists-of-many-sizes": lists_of_tensors,
    "sizes-as-tensors": sizes_as_tensors,
    "returns-early": returns_early,
    "rests-without-rows": rests_without_rows,
    "joins-nothing": joins_nothing,
    "minus-one": minus_one,
    "sends-too-much": tokens_to_all,
    "computes-too-much": all_by_all,
    "in-another-precision": in_float32,
    "returns-nothing": returns_nothing,
}


FORBIDDEN = by_the_library
