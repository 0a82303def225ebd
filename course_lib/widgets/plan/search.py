"""The layouts that the plan explorer looks at: the planner has thousands, and a redraw some tens of milliseconds.

Tensor axes stay within an NVLink domain, pipelines have at most 16 stages of one chunk, context ranks some thousand
tokens each, and a layout recomputes no more than it must to fit. Every cut is asked in a plain way first; of those that
are fastest then, all ways. A test holds the first cuts against a listing of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import gcd

from course_lib.plan import Layout, Listing, Option
from course_lib.plan.inputs.layout import RECOMPUTE
from course_lib.plan.search.constraints import divisions
from course_lib.widgets.plan.choice import PlanChoice

__all__ = ["best_of_cuts", "cut_of", "planned"]

_MOST_STAGES = 16
_MOST_CONTEXT, _TOKENS_OF_A_CONTEXT_RANK = 16, 4096  # ranks at most, tokens at least
_PLAIN_TOKENS, _MOST_TOKENS = 8192, 32768  # of a micro-batch on a rank
_MOST_AT_ONCE = 16  # sequences of a micro-batch
_CUTS_TO_REFINE = 12

Cut = tuple[int, int, int, int]  # tp, cp, pp, ep


def cut_of(layout: Layout) -> Cut:
    """The sizes of the axes that cut the model and the sequences."""
    return layout.tp, layout.cp, layout.pp, layout.ep


def best_of_cuts(listing: Listing, count: int) -> list[Option]:
    """The fastest layout of each cut, the fastest ``count`` of them."""
    found: dict[Cut, Option] = {}
    for option in listing.options:
        found.setdefault(cut_of(option.layout), option)
        if len(found) == count:
            break
    return list(found.values())


@lru_cache(maxsize=256)
def planned(choice: PlanChoice) -> Listing:
    """The layouts that run, the fastest first, and those refused. Kept for the next time."""
    plain = [layout for cut in _cuts(choice) for layout in _plain_ways(choice, cut)]
    first = _least_again(choice, plain)
    seen = set(plain)
    refined = [
        layout
        for option in best_of_cuts(first, _CUTS_TO_REFINE)
        for layout in _all_ways(choice, cut_of(option.layout))
        if layout not in seen
    ]
    second = _least_again(choice, refined)
    options = sorted((*first.options, *second.options), key=_rank)
    return replace(first, options=tuple(options), refusals=first.refusals + second.refusals)


def _cuts(choice: PlanChoice) -> Iterator[Cut]:
    """Tensor axes within an NVLink domain, at most 16 stages, context ranks with a few thousand tokens each; experts
    are shared out as far as they go, or not at all.
    """
    gpus, model = choice.gpus, choice.job.model
    for tp, pp, cp, dp in divisions(
        gpus,
        most_tp=choice.cluster.domain_size,
        most_pp=min(_MOST_STAGES, model.layers),
        most_cp=max(1, min(_MOST_CONTEXT, choice.seq // _TOKENS_OF_A_CONTEXT_RANK)),
    ):
        if model.heads % tp or choice.batch % dp or (cp > 1 and choice.seq % (2 * cp)):
            continue  # illegal
        yield from ((tp, cp, pp, ep) for ep in sorted({1, gcd(dp, model.experts)}))


def _plain_ways(choice: PlanChoice, cut: Cut) -> list[Layout]:
    """Optimizer states shared out, or weights as well; a micro-batch of about as many tokens in every cut, or of one
    sequence.
    """
    tp, cp, pp, _ = cut
    dp = choice.gpus // (tp * cp * pp)
    sizes = _micro_batches(choice, dp, cp)
    near = min(sizes, key=lambda size: abs(size * choice.seq / cp - _PLAIN_TOKENS))
    if dp * cp == 1:
        return [_layout(cut, dp, near, 0)]
    return [_layout(cut, dp, size, 1) for size in sorted({1, near})] + [_layout(cut, dp, near, 3)]


def _all_ways(choice: PlanChoice, cut: Cut) -> Iterator[Layout]:
    tp, cp, pp, _ = cut
    dp = choice.gpus // (tp * cp * pp)
    stages = (0,) if dp * cp == 1 else (0, 1, 3) if pp > 1 else (0, 1, 2, 3)
    for size in _micro_batches(choice, dp, cp):
        yield from (_layout(cut, dp, size, sharding) for sharding in stages)


def _micro_batches(choice: PlanChoice, dp: int, cp: int) -> list[int]:
    """Powers of two that divide a replica's part of the batch, and whose tokens are not too many for a rank."""
    most = max(1, min(_MOST_AT_ONCE, choice.batch // dp, _MOST_TOKENS * cp // choice.seq))
    return [2**power for power in range(most.bit_length()) if choice.batch // dp % 2**power == 0]


def _layout(cut: Cut, dp: int, micro_batch: int, sharding: int, recompute: str = "none") -> Layout:
    tp, cp, pp, ep = cut
    return Layout(
        tp=tp,
        cp=cp,
        pp=pp,
        dp=dp,
        ep=ep,
        micro_batch=micro_batch,
        sharding=sharding,
        sequence_parallel=tp > 1,
        recompute=recompute,
    )


def _least_again(choice: PlanChoice, layouts: Iterable[Layout]) -> Listing:
    """These layouts, each with as little recomputation as lets it fit; refused are those that nothing lets fit."""
    found = choice.ask(layouts)
    options, refusals = list(found.options), [one for one in found.refusals if one.memory is None]
    for recompute in RECOMPUTE[1:]:
        left = [one.layout for one in found.refusals if one.memory is not None]
        found = choice.ask(_layout(cut_of(one), one.dp, one.micro_batch, one.sharding, recompute) for one in left)
        options += found.options
    options.sort(key=_rank)
    return replace(found, options=tuple(options), refusals=(*refusals, *found.refusals))


def _rank(option: Option) -> tuple[float, ...]:
    """Faster first; where four digits are the same, what has fewer axes, then what is less to set."""
    layout = option.layout
    again = RECOMPUTE.index(layout.recompute)
    axes = sum(size > 1 for size in cut_of(layout))
    return float(f"{option.step_s:.4g}"), axes, layout.sharding + again, layout.micro_batch
