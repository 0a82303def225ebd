"""The usual mistakes of 02.ring by name, each with the evidence that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence, Mistake
from course_lib.learn.exercises.lesson_02 import hangs
from course_lib.learn.exercises.lesson_02.costs import cost_label, sent
from course_lib.learn.exercises.lesson_02.ring import cost as ring_cost
from course_lib.learn.exercises.lesson_02.ring.cost import SIZE_BYTES, right_but
from course_lib.learn.exercises.lesson_02.ring.numbers import numbers, ranks_within
from course_lib.learn.exercises.lesson_02.ring.wrong_answers import ring

__all__ = ["EVEN", "FEWER", "MISTAKES", "UNEVEN"]

EVEN, UNEVEN = "10 numbers for each rank", "11 numbers, which no ring of 2, 3, 4 or 5 divides"
FEWER = "3 numbers, fewer than some rings have ranks"


def _on_four(evidence: Evidence) -> Iterator[tuple[int, AnswerOutcome]]:
    """The values on 4 ranks, where those divide the tensor."""
    for rank in range(4):
        label = f"{EVEN}, rank {rank} of 4"
        yield from ((rank, outcome) for outcome in evidence.outcomes if outcome.case == label)


def _each_rank(evidence: Evidence, check: Callable[[int, AnswerOutcome], bool]) -> bool:
    found = [check(rank, outcome) for rank, outcome in _on_four(evidence) if isinstance(outcome.got, torch.Tensor)]
    return len(found) == 4 and all(found)


def _one_part_complete(rank: int, outcome: AnswerOutcome) -> bool:
    pairs = zip(outcome.expected.tensor_split(4), outcome.got.tensor_split(4), strict=True)
    return sum(torch.equal(want, have) for want, have in pairs) == 1


def _after_one_lap(evidence: Evidence) -> bool:
    return sent(evidence, "messages by rank") == [3] * 4 and _each_rank(evidence, _one_part_complete)


def _one_rank_alone(rank: int, outcome: AnswerOutcome) -> bool:
    within = ranks_within(outcome.expected, outcome.got)
    alone = within is not None and all(sorted(counts) == [0, 0, 0, 1] for counts in within)
    return alone and not torch.equal(outcome.got, numbers(rank, len(outcome.got)))


def _one_part_written_at_most(rank: int, outcome: AnswerOutcome) -> bool:
    own = numbers(rank, len(outcome.got)).tensor_split(4)
    parts = zip(outcome.got.tensor_split(4), outcome.expected.tensor_split(4), own, strict=True)
    found = [(torch.equal(have, want), torch.equal(have, mine)) for have, want, mine in parts]
    return sorted(found)[:3] == [(False, True)] * 3 and found.count((False, False)) == 0


def _too_few_parts(evidence: Evidence) -> bool:
    error = evidence.error
    return error is not None and "index out of range" in error.message and evidence.wrong[0].case.startswith(FEWER)


def _backwards(evidence: Evidence) -> bool:
    """With 3 ranks: the right bytes, to the rank before, and numbers that were added to those of other places."""
    on_two = [outcome.right for outcome in evidence.outcomes if outcome.case.endswith("of 2")]
    on_three = [o for o in evidence.outcomes if o.case.startswith(f"{EVEN}, rank ") and o.case.endswith("of 3")]
    mixed = [isinstance(o.got, torch.Tensor) and ranks_within(o.expected, o.got) is None for o in on_three]
    cost = [outcome.right for outcome in evidence.outcomes if outcome.case == cost_label(3, EVEN)]
    return all(on_two) and all(mixed) and all(cost) and sent(evidence, "receivers", 3) == [[2], [0], [1]]


def _breaks_where_uneven(evidence: Evidence) -> bool:
    return (
        evidence.error is not None
        and evidence.error.kind != "RankTimeout"
        and evidence.wrong[0].case.startswith(UNEVEN)
    )


MISTAKES = (
    Mistake(
        "half-and-half",
        "It hangs in a deadlock: two ranks wait until their message is taken, and neither takes the other's. Usually "
        "each wants to send before it receives. Start both halves of a step *together*, in one list of messages.",
        recognise=hangs.nobody_receives,
    ),
    Mistake(
        "through-one-rank",
        "The sum is right, and it all goes through one rank. Rank 0 sends the whole tensor to everybody, which is "
        "`n - 1` times the tensor, while the others wait for it. In a ring every rank sends the same, "
        "2 (n - 1)/n of the tensor.",
        recognise=right_but(ring_cost.through_rank_0),
    ),
    Mistake(
        "gathers-everything",
        "The sum is right, and too much is sent: whole tensors travel, so every rank sends `n - 1` times the "
        "tensor. That grows with every rank you add. Send one part in each step, and pass on *sums*: what has "
        "been added need not travel again.",
        recognise=right_but(ring_cost.sends_everything),
    ),
    Mistake(
        "moves-too-little",
        "The values agree here, but less was sent than any all-reduce can do with. Each rank has to send at least "
        "2 (n - 1)/n of the tensor. Either numbers were cut short on the way, or this answer knows what the others "
        "hold without a message.",
        recognise=right_but(lambda evidence: sum(sent(evidence, "bytes by rank")) < 6 * SIZE_BYTES),
    ),
    Mistake(
        "no-ring",
        "The sum is right and the bytes are as few as they can be, but your ranks send to everybody. That is a "
        "fine algorithm, and it needs a link from each rank to each other; a ring needs one neighbour. Send to "
        "`(me.rank + 1) % n` alone.",
        recognise=right_but(
            lambda evidence: (
                sent(evidence, "bytes by rank") == [6 * SIZE_BYTES // 4] * 4
                and all(len(to) == 3 for to in sent(evidence, "receivers"))
            )
        ),
    ),
    Mistake(
        "too-many-messages",
        "Values and bytes are right, in more messages than needed; each message costs a latency. Send a part in "
        "one piece: 2 (n - 1) messages by each rank.",
        recognise=right_but(
            lambda evidence: (
                sent(evidence, "bytes by rank") == [6 * SIZE_BYTES // 4] * 4
                and min(sent(evidence, "messages by rank")) > 6
                and not any(sent(evidence, "other calls"))
            )
        ),
    ),
    Mistake(
        "one-lap",
        "Half-way: after n - 1 steps every rank has *one* part of the sum complete. The complete parts have to go "
        "round once more, n - 1 steps, this time without adding.",
        recognise=_after_one_lap,
    ),
    Mistake(
        "sums-in-new-tensors",
        "All messages went round, and the tensor holds what it held before, but for one part at most: the sums are in "
        "new tensors. `part = part + arrived` makes a new tensor and leaves the old one as it was, and so does putting "
        "`arrived` into your list of parts. `part += arrived` and `part.copy_(arrived)` write into the tensor.",
        recognise=lambda evidence: (
            sent(evidence, "messages by rank") == [6] * 4 and _each_rank(evidence, _one_part_written_at_most)
        ),
    ),
    Mistake(
        "one-rank-in-each-part",
        "With 10 numbers for each of 4 ranks, every number of your result is one rank's alone: no sum is in it. Usual "
        "causes: the first lap replaces your part by what arrives. It adds to another part than the one that arrived, "
        "into a new tensor and not into the part, or before the message is there. It is a step short. Or the second "
        "lap begins with a part that is not complete. (If rank r began with part r, the one that it has complete after "
        "n - 1 steps is `(r + 1) % n`.)",
        recognise=lambda evidence: _each_rank(evidence, _one_rank_alone),
    ),
    Mistake(
        "adds-in-the-second-lap",
        "In the second lap complete sums arrive. You add them to what is there, which counts some ranks twice. "
        "In the second lap, *replace* your part by what arrives.",
        ring(adds_in_second=True),
    ),
    Mistake(
        "one-step-too-many",
        "The first lap has one step too many. A part comes back to a rank that is in the sum already, and it is "
        "counted twice. With n ranks, n - 1 steps bring the others' numbers.",
        ring(extra=1),
    ),
    Mistake(
        "backwards",
        "Right on 2 ranks, and with more your ring runs the other way: rank r sends to rank r - 1. That is allowed, if "
        "the parts turn with it: what arrives is then the part *after* the one that you send, not the one before.",
        recognise=_backwards,
    ),
    Mistake(
        "assumes-that-n-divides",
        "With a tensor that the ranks divide it went well; with 11 numbers, which they do not, it did not. "
        "`tensor.tensor_split(n)` cuts any tensor; its parts differ by one number at most, so a buffer for one part is "
        "not always right for the next.",
        recognise=_breaks_where_uneven,
    ),
    Mistake(
        "too-few-parts",
        "An index went past the end of a list, where there are fewer numbers than ranks. `tensor.chunk(n)` gives fewer "
        "than n parts there; `tensor.tensor_split(n)` always gives n, some of them empty.",
        recognise=_too_few_parts,
    ),
    Mistake(
        "own-numbers",
        "Every rank gives back its own numbers; nothing came from the others.",
        lambda me, tensor: tensor,
    ),
)
