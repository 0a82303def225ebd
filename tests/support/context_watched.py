"""All settings of the context explorer, and what a run would find if everything were as the cost model says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from course_lib.layouts.sequence_cut import ORDERS, SequenceCut
from course_lib.parallel.context import WatchedAttention
from course_lib.widgets import ContextChoice
from course_lib.widgets.context.choice import KEY_HEADS, RANKS, WAYS

RUN = "course_lib.widgets.context.explorer.watched_attention"  # what is replaced by it


def as_the_model_says(times: float = 1.0) -> Callable[..., list[WatchedAttention]]:
    """A run that finds so many times the model's bytes, and no difference in the values."""

    def run(cluster: object, cut: SequenceCut, *, way: str, num_kv_heads: int, **_: int) -> list[WatchedAttention]:
        choice = ContextChoice(cut.num_tokens, cut.num_ranks, cut.order, way, num_kv_heads)
        return [
            WatchedAttention(round(times * each.forward), round(times * each.backward), 0.0, 0.0)
            for each in choice.sent()
        ]

    return run


def every_choice(num_tokens: int) -> list[ContextChoice]:
    """All settings that are not refused."""
    found = []
    for rest in product(RANKS, ORDERS, WAYS, KEY_HEADS):
        try:
            found.append(ContextChoice(num_tokens, *rest))
        except ValueError:
            continue
    return found
