"""Lesson 08's clinics, but for that of part c's positions: what is asked before the evidence, and told after it."""

from __future__ import annotations

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["CLINICS", "NORMS"]

_NORMS = (
    "the exit forgets its all-reduce",
    "the gradient is not summed at the entrance",
    "the gradient is summed at the exit too",
    "the ranks began with different weights",
)


def _norms() -> Explanation:
    return Explanation(
        measured=_NORMS[1],
        label="the evidence says",
        because="Read the table from the loss backward: all is right until the gradient comes out of block 2's "
        "matrices and reaches its norm. There each rank has a summand and treats it as the whole gradient, so all "
        "gradients before that are wrong. The norm's two copies take different steps; from then on there are two "
        "models.",
        misreadings={
            _NORMS[0]: "Then the first loss would be wrong already, and block 2's matrices with it.",
            _NORMS[2]: "Then the gradients of block 2's matrices would already be twice as large as they should. "
            "They are right.",
            _NORMS[3]: "Then the first loss would not be that of one device.",
        },
    )


_SEEDS = (
    "the dropout rate is wrong on one rank",
    "each rank drops the same of its units",
    "masks outside the region differ",
    "dropout must not stand in a split region",
)


def _seeds() -> Explanation:
    return Explanation(
        measured=_SEEDS[1],
        label="the evidence says",
        because="All ranks keep unit i or all drop it, so with four ranks far fewer masks are possible than on one "
        "device. Inside a region each rank needs random numbers of its own; outside, where all hold the same "
        "tensor, "
        "they must be the same.",
        misreadings={
            _SEEDS[0]: "Each unit is kept half of the time on both ranks.",
            _SEEDS[2]: "They agree, and so they should: all ranks have to keep the same numbers there.",
            _SEEDS[3]: "It may be there. Each rank drops some of its own units, as one device would.",
        },
    )


_GATHER = (
    "the parts come in the wrong order of ranks",
    "the parts are joined along the wrong dim",
    "partial sums that nobody added up",
    "each prompt gets the logits of another",
)


def _gather() -> Explanation:
    return Explanation(
        measured=_GATHER[1],
        label="the evidence says",
        because="Each rank has some *columns* of every row. `torch.cat` without a dim stacks them as rows, "
        "(n N, V/n), and `view` then makes the shape right and the rows wrong. Tokens 0 and 1 of both positions "
        "became one row. With one position the two orders are the same numbers in memory. So check each `view` that "
        "only corrects a shape.",
        misreadings={
            _GATHER[0]: "Then one position would be wrong already: tokens 2 and 3 before 0 and 1.",
            _GATHER[2]: "Every number is a right one, but in a wrong place.",
            _GATHER[3]: "Then whole rows would change places. Here one row has numbers of two positions.",
        },
    )


NORMS = Asked(name="08.norms", question="What is wrong with the block?", choices=_NORMS, tell=_norms)

CLINICS = (
    Asked(name="08.seeds", question="Why does dropout help less?", choices=_SEEDS, tell=_seeds),
    Asked(name="08.gather", question="What is wrong with the logits?", choices=_GATHER, tell=_gather),
)
