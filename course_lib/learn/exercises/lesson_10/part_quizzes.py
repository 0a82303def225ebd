"""The quizzes of parts e, f and g of lesson 10; right answers come from the cost model, cuts, and orders of calls."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from course_lib.cost.model_parallel.context import ring_pairs
from course_lib.cost.model_parallel.distinct_groups import distinct_groups
from course_lib.cost.model_parallel.experts import expert_sent_bytes
from course_lib.layouts import DocumentCut
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.learn.exercises.lesson_10.interleave.trial import Log, logged_layers
from course_lib.parallel.experts import interleaved
from course_lib.traces import length, minus, union

__all__ = ["PART_QUIZZES"]

_LONG = {
    Fraction(1, 3): "a third as long",
    Fraction(1, 2): "half as long",
    Fraction(2, 3): "two thirds as long",
    Fraction(1): "as long",
}


def _times(times: float) -> str:
    return "as many" if times == 1 else f"{times:g} times"


def _one_after_the_other(layers: Any, a: Any, b: Any) -> None:
    for x in (a, b):
        for layer in layers:
            x = layer.combine(layer.experts(layer.dispatch(layer.dense(x)).wait())).wait()


def _time_by_turns(exchange: float, num_layers: int = 100) -> Fraction:
    """Of forward by turns, over one micro-batch after the other; a step of computing takes 1."""

    def time(order: Callable[..., Any]) -> float:
        log = Log(exchange)
        order(logged_layers(num_layers, log), *torch.zeros(2, 1, 3))
        return log.now

    return Fraction(time(interleaved) / time(_one_after_the_other)).limit_denominator(10)


def _hidden_ms(exposed_ms: float, backward_ms: float, own_begins_ms: float) -> int:
    """What the page's model hides: no more than is exposed, and than there is room up to backward's own exchange."""
    room_ms = length(minus(union([(0.0, backward_ms)]), union([(own_begins_ms, backward_ms)])))
    return round(min(exposed_ms, room_ms))


def _rows_between_nodes(top_k: int) -> float:
    return distinct_groups(num_experts=256, top_k=top_k, num_groups=8)


def _sent_forward(num_ranks: int) -> int:
    """Bytes of a rank where so many share out 64 experts, with 1,024 tokens on each and 4 experts for a token."""
    counts = [[1024 * 4 // 64] * 64] * num_ranks
    return expert_sent_bytes(counts, width=4096, itemsize=2, is_training=False)[0]


def _busiest(*lengths: int) -> float:
    """The busiest of four ranks over their mean, in pairs, with zigzag over the whole sequence."""
    steps = ring_pairs(DocumentCut.by_order(lengths, 4, "zigzag"))
    pairs = [sum(of_rank) for of_rank in zip(*steps, strict=True)]
    return round(max(pairs) * len(pairs) / sum(pairs), 1)


def _needed(order: str) -> Fraction:
    """The share of a ring's keys that a rank further on looks at: eight documents of 8 tokens, four ranks."""
    cut = DocumentCut.by_order([8] * 8, 4, order)
    hops = [(owner, hop) for owner in range(4) for hop in range(1, 4)]
    seen = [cut.seen_by(owner, [(owner + far) % 4 for far in range(hop, 4)]) for owner, hop in hops]
    return Fraction(sum(where.stop - where.start for runs in seen for where in runs), 3 * cut.num_tokens)


PART_QUIZZES = (
    Question(
        name="long-exchange",
        part="e",
        text="Two micro-batches go through very many layers by turns. An exchange takes twice as long as a step of "
        "computing, and the link carries one exchange at a time. How long is forward, compared with one micro-batch "
        "after the other?",
        choices=tuple(_LONG),
        answer=lambda: _time_by_turns(2.0),
        show=lambda times: _LONG[times],
        misconceptions={
            Fraction(1, 3): "That is the computing alone. Can it cover exchanges that take twice as long?",
            Fraction(1, 2): "That would need two links: the exchanges of A would run at the same time as those of B.",
            Fraction(1): "Some computing does run during exchanges now. What is busy all the time?",
        },
        because="In a layer the link is busy for four exchanges, a time of 8, and four steps of computing take 4. "
        "One after the other that makes 12. By turns the link is always busy, and the rank computes meanwhile: 8.",
    ),
    Question(
        name="room",
        part="e",
        text="In a step of a recommender the exchanges of the next batch are exposed for 9 ms. Backward computes "
        "for 20 ms, and begins its own first exchange after 6 ms. Another thread now asks for those of the next "
        "batch when backward begins. How many ms of them are hidden then, by the model of this part?",
        choices=(9, 3, 0, 6),
        answer=lambda: _hidden_ms(9.0, 20.0, 6.0),
        show=lambda time_ms: f"{time_ms} ms",
        misconceptions={
            0: "Backward needs nothing of what they bring, so it computes meanwhile.",
            3: "You have the right difference. Is it what is hidden, or what is left?",
            9: "Backward does compute for longer than that. But its own exchanges want the same link.",
        },
        because="There is room until backward's own exchange begins, 6 ms. The other 3 ms stay exposed: in this model "
        "nothing that backward waits for is put off.",
    ),
    Question(
        name="more-choices",
        part="f",
        text="256 experts lie on 8 nodes, and a row goes to each node once. A token now chooses 16 of them in place "
        "of 8, at random. How many times as many rows go between nodes?",
        choices=(1.0, 1.3, 1.5, 2.0),
        answer=lambda: round(_rows_between_nodes(16) / _rows_between_nodes(8), 1),
        show=_times,
        misconceptions={
            1.0: "Eight choices leave out some nodes. Further choices reach some of these.",
            1.5: "That is from 5.3 nodes to all 8. Do sixteen choices never miss a node?",
            2.0: "So it is with a row for each choice. What if a new expert lies on a node that gets the row anyway?",
        },
        because="Eight choices lie on 5.3 nodes, sixteen on 7.1. In both cases one node in eight is the rank's own, "
        "so this cancels. The more experts a token has, the more is saved by sending its row once.",
    ),
    Question(
        name="all-ranks",
        part="f",
        text="Attention runs on 16 ranks, dp_replicate=4 × tp=4, with sequence parallelism. Until now the four ranks "
        "along dp_replicate shared out the experts. Now all 16 do, in a mesh of their own. Tokens are spread evenly, "
        "and each choice is a row. How many times as many bytes does a rank send in a layer of experts, forward?",
        choices=(4.0, 1.25, 1.0, 0.25),
        answer=lambda: round(_sent_forward(16) / _sent_forward(4), 2),
        show=_times,
        misconceptions={
            0.25: "That is the factor for the experts that a rank holds. It has as many tokens as before.",
            1.0: "A rank has as many rows as before. Which of them stay at home?",
            4.0: "There are four times as many ranks to send to, and each of them gets fewer rows.",
        },
        because="A quarter of a rank's rows stayed at home, and now a sixteenth does: 15/16 divided by 3/4. That is "
        "what a rank pays for holding a quarter of the parameters.",
    ),
    Question(
        name="packings",
        part="g",
        text="Four ranks share a packed sequence of 64 tokens, in zigzag order over the whole. Divide the busiest "
        "rank's pairs by the mean. What do you get for documents of 32 and 32 tokens, and what for 48 and 16?",
        choices=((1.0, 1.6), (1.6, 1.0), (1.6, 1.6), (1.0, 1.0)),
        answer=lambda: (_busiest(32, 32), _busiest(48, 16)),
        show=lambda both: f"{both[0]:g} and {both[1]:g}",
        misconceptions={
            (1.0, 1.0): "Zigzag adds up a cheap part and a costly one. Which parts does rank 3 add up in either case?",
            (1.6, 1.0): "Cut 64 tokens in eight parts. At which place of its document does each of rank 0's two "
            "parts stand?",
            (1.6, 1.6): "Two documents are not uneven in themselves. Add up the pairs of each rank for one packing.",
        },
        because="With 32 and 32 a rank's two parts lie in different documents. One is as far from the front of its "
        "document as the other from the end. With 48 and 16 ranks 2 and 3 have both of theirs in the middle of the "
        "long one. They have 520 pairs, and ranks 0 and 1 have 136.",
    ),
    Question(
        name="keys-needed",
        part="g",
        text="Eight documents of 8 tokens fill a sequence, on four ranks. What share of a ring's bytes is needed "
        "forward: with zigzag over the whole sequence, and with zigzag in each document?",
        choices=(
            (Fraction(0), Fraction(0)),
            (Fraction(0), Fraction(7, 8)),
            (Fraction(7, 8), Fraction(0)),
            (Fraction(7, 8), Fraction(7, 8)),
        ),
        answer=lambda: (_needed("zigzag"), _needed("per_document")),
        show=lambda both: f"{float(both[0]):.1%} and {float(both[1]):.1%}",
        misconceptions={
            (Fraction(0), Fraction(0)): "No document needs keys of another. But may one document lie on many ranks?",
            (Fraction(7, 8), Fraction(0)): "Take one document. On how many ranks does it lie in each of the cuts?",
            (Fraction(7, 8), Fraction(7, 8)): "So it is with one document of 64 tokens. Here, who else has tokens of "
            "a rank's documents?",
        },
        because="Over the whole sequence a part has 8 tokens, so each rank has two whole documents and all of their "
        "keys. In each document a part is one token, and every rank has two tokens of every document.",
    ),
)
