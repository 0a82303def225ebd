"""12.replicas: which ranks hold other bits than the majority, told by a few bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_12.replicas import trial as t
from course_lib.learn.judging.errors import error_says
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import (
    always,
    compare,
    differing,
    is_not_waited_for,
    only_wrong,
    reports,
)

__all__ = ["REPLICAS"]


def _gave(would: Callable[[str, int], Any]) -> Callable[[Evidence], bool]:
    """Whether every rank gave what ``would`` (kind, number of ranks) says."""
    return always(t.ReplicasReport, lambda outcome, got: got.odd == would(outcome.kind, outcome.num_ranks))


def _labelled(tell: Callable[[list[int]], Any]) -> Callable[[Evidence], bool]:
    return _gave(lambda kind, world_size: tell(t.labels_of(kind, world_size)))


def _misjudged(*kinds: str, unseen: bool = False) -> Callable[[Evidence], bool]:
    """Whether the ranks were wrong in these cases alone; ``unseen``: and there everybody was said to agree."""

    def recognise(evidence: Evidence) -> bool:
        wrong = [(one.kind, got.odd) for one, got in reports(evidence, t.ReplicasReport) if "odd" in differing(one)]
        fits = all(kind in kinds and (not unseen or odd == []) for kind, odd in wrong)
        return evidence.error is None and bool(wrong) and fits

    return recognise


def _first_alone(evidence: Evidence) -> bool:
    """Whether differences in the first tensor were seen, and those in later ones never."""
    later = (t.ZERO, t.COUNTER, t.SHORT, t.FEW)
    wrong = {one.kind for one in evidence.wrong if "odd" in differing(one)}
    return wrong.issuperset(later) and _misjudged(*later, t.MANY, t.LONG, unseen=True)(evidence)


def _adds_numbers(evidence: Evidence) -> bool:
    """Whether two exchanged numbers were never seen, and something else was."""
    found = [(one.kind, got.odd) for one, got in reports(evidence, t.ReplicasReport) if one.num_ranks > 1]
    swaps = [odd for kind, odd in found if kind == t.SWAP]
    return evidence.error is None and bool(swaps) and all(odd == [] for odd in swaps) and any(odd for _, odd in found)


def _silent(evidence: Evidence) -> bool:
    return always(t.ReplicasReport, lambda _, got: got.sent_bytes == 0)(evidence)


def _salted(evidence: Evidence) -> bool:
    return any(got.salted and "odd" in differing(one) for one, got in reports(evidence, t.ReplicasReport))


def _ranks_disagree(evidence: Evidence) -> bool:
    answers: dict[tuple[str, int], list[Any]] = {}
    for outcome, got in reports(evidence, t.ReplicasReport):
        answers.setdefault((outcome.kind, outcome.num_ranks), []).append(got.odd)
    return evidence.error is None and any(one != run[0] for run in answers.values() for one in run)


def _off_rank_0(labels: list[int]) -> list[int]:
    return [rank for rank, label in enumerate(labels) if label != labels[0]]


def _off_the_largest(labels: list[int]) -> list[int]:
    largest = max(labels, key=labels.count)
    return [rank for rank, label in enumerate(labels) if label != largest]


def _the_majority(labels: list[int]) -> list[int] | None:
    largest = max(labels, key=labels.count)
    ranks = [rank for rank, label in enumerate(labels) if label == largest]
    return ranks if 2 * len(ranks) > len(labels) else None


REPLICAS = Exercise(
    name="12.replicas",
    title="Which ranks are wrong?",
    judge=by_trial(
        (4, 2, 3, 5, 1), tuple(Case(kind, (kind,), t.right(kind)) for kind in t.KINDS), t.trial, compare=compare
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. The numbers in its tensors at "
            "that moment are chance. Call `wait()` on what `dist` returns first.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "python-hash",
            "You found a difference where there is none. Python's own `hash` of bytes or text has a salt that differs "
            "from process to process, so equal bits give unequal hashes. `hashlib` and `zlib` give the same "
            "everywhere.",
            recognise=_salted,
        ),
        Mistake(
            "nobody-is-asked",
            "No rank has sent anything to another. A rank cannot see by itself that others hold something else.",
            recognise=_silent,
        ),
        Mistake(
            "ranks-disagree",
            "The ranks come to different answers. When all have the hashes of all (`dist.all_gather`), all count the "
            "same votes.",
            recognise=_ranks_disagree,
        ),
        Mistake(
            "rank-0-is-right",
            "You name the ranks that differ from rank 0. Rank 0 may be the wrong one: then you name all others, and "
            "not rank 0. Take what more than half of the ranks hold.",
            recognise=_labelled(_off_rank_0),
        ),
        Mistake(
            "largest-group",
            "Your answer is right where more than half agree. Where no more than half do, you still name ranks. On "
            "two ranks, or in two halves, either may be the wrong one: the answer is None.",
            recognise=_labelled(_off_the_largest),
        ),
        Mistake(
            "names-the-majority",
            "You name the ranks that agree. Name the others.",
            recognise=_labelled(_the_majority),
        ),
        Mistake(
            "none-for-nobody",
            "Where no more than half agree, your list is empty, and that says that all is well. The answer there is "
            "None: some rank is wrong, and it is not known which.",
            recognise=_gave(lambda kind, world_size: t.odd_of(kind, world_size) or []),
        ),
        Mistake(
            "adds-numbers",
            "Two numbers changed places on one rank, and you did not see it. A sum, a mean or a norm does not depend "
            "on the order of its numbers. Next to a large number it loses a small one. Hash the bytes: there each has "
            "its place.",
            recognise=_adds_numbers,
            shows=lambda one: "odd" in differing(one),
        ),
        Mistake(
            "adds-hashes",
            "Two tensors changed places on one rank, and you did not see it: what you put together from the tensors "
            "has no order. Put all bytes into one hash, one after the other, or hash the list of hashes.",
            recognise=_misjudged(t.EXCHANGE, unseen=True),
        ),
        Mistake(
            "first-tensor-alone",
            "Differences in the first tensor, a parameter, are seen, and those in later ones, buffers among them, are "
            "not. All bytes of all tensors go into the hash.",
            recognise=_first_alone,
        ),
        Mistake(
            "numbers-not-bits",
            "You compare numbers. A NaN is not equal to itself, so ranks that agree look different; and -0.0 is equal "
            "to 0.0, though its bits differ. Compare bits.",
            recognise=_misjudged(t.NAN, t.ZERO),
        ),
        Mistake(
            "keeps-a-hash",
            "The second of two calls with the same tensors, whose numbers had changed, gave the answer of the first. "
            "Something is kept from call to call. Weights change in each step, so hash what you are given.",
            recognise=_misjudged(t.LAST, unseen=True),
        ),
        Mistake(
            "hash-in-a-float",
            "Your hash is sent as one floating-point number of 32 bits or fewer, and such a number holds 24 bits at "
            "most. Hashes that differ only in further bits look equal. An int64 holds all of 64 bits, and so do "
            "bytes.",
            recognise=lambda evidence: evidence.error is None and any("bits" in differing(o) for o in evidence.wrong),
        ),
        Mistake(
            "rounds",
            "A difference in the last bit of one number was not seen. Either numbers were rounded on the way to your "
            "hash (float32 and float64 cannot hold all, and `print` leaves digits out). Or not all bytes went into it.",
            recognise=_misjudged(
                *(t.LAST, t.FIRST, t.COUNTER, t.SHORT, t.HALVES, t.TWO_ODD, t.SPREAD, t.FEW, t.LONG), unseen=True
            ),
        ),
        Mistake(
            "memory-not-values",
            "One rank stores a matrix by column, and you say that it differs. Its numbers and their bits are the same; "
            "how they lie in memory is not compared. `contiguous()` lays them by row.",
            recognise=_misjudged(t.LAYOUT),
        ),
        Mistake(
            "numpy-knows-no-bfloat16",
            "NumPy has no bfloat16, and your code ended there. The bytes are all you want: "
            "`tensor.detach().contiguous().flatten().view(torch.uint8)` gives them, of any dtype.",
            recognise=error_says("BFloat16"),
        ),
        Mistake(
            "sends-much",
            "The ranks are right, but more was sent than one hash. Put all tensors into one hash first; then a rank "
            "sends every other rank 8 bytes, however many tensors there are.",
            recognise=only_wrong("sent"),
        ),
    ),
    hints=(
        "How few bytes tell whether two ranks hold the same bits? And when all ranks have seen all of these bytes, how "
        "do they find what most of them hold?",
        "One hash of all tensors, their bytes one after the other, as a whole number in a tensor. Then an all-gather "
        "of that, and `collections.Counter` of the hashes. If the most common one has no more than half of the votes: "
        "None.",
        "`found = hashlib.blake2b(digest_size=8)`, for each tensor "
        "`found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())`, and "
        '`int.from_bytes(found.digest(), "big", signed=True)` fits into an int64. After `dist.all_gather`: '
        "`most, count = Counter(votes).most_common(1)[0]`.",
    ),
    forbidden=(
        "course_lib.parallel.collectives.odd_ranks",
        "course_lib.parallel.collectives.hash_of_bits",
        "course_lib.parallel.data.find_divergence",
        "course_lib.parallel.data.fingerprints",
    ),
    passed="Every rank gives the same answer, bit for bit, on 5 ranks, 4, 3, 2 and one. No rank is named where no "
    "more than half agree. A rank sends every other rank a few bytes, for 7 tensors and for 300.",
)
