"""The mistakes of 10.zigzag by name: what each mixes up, and how it is recognised where it takes several forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_10.dealt_positions import FALLS, MISSING
from course_lib.learn.exercises.lesson_10.zigzag import wrong_answers
from course_lib.learn.exercises.lesson_10.zigzag.labels import MANY_RANKS, SIZES

__all__ = ["MISTAKES"]


def _all_parts(evidence: Evidence) -> list[list[list[Any]]]:
    """What came, case by case and rank by rank; nothing where an exception was raised or something else came."""
    found = [outcome.got for outcome in evidence.outcomes]
    good = all(isinstance(parts, list) and all(isinstance(own, list) for own in parts) for parts in found)
    return found if good and len(found) == len(SIZES) else []


def _are_dealt_out(evidence: Evidence) -> bool:
    """Whether in every case each position has one owner."""
    return bool(_all_parts(evidence)) and all(
        sorted(position for own in parts for position in own) == list(range(num_tokens))
        for parts, (_, num_tokens) in zip(_all_parts(evidence), SIZES, strict=True)
        if all(isinstance(position, int) for own in parts for position in own)
    )


def _is_one_run(own: list[int]) -> bool:
    return own == list(range(own[0], own[-1] + 1)) if own else True


def _is_contiguous(evidence: Evidence) -> bool:
    """One run each, of one part or of two parts beside each other, equally long but for a remainder."""
    return _are_dealt_out(evidence) and all(
        all(map(_is_one_run, parts)) and max(map(len, parts)) - min(map(len, parts)) <= 2
        for parts in _all_parts(evidence)
    )


def _is_uneven_runs(evidence: Evidence) -> bool:
    """One run each, where some are much longer."""
    return (
        _are_dealt_out(evidence)
        and not _is_contiguous(evidence)
        and all(all(map(_is_one_run, parts)) for parts in _all_parts(evidence))
        and "positions and rank" in evidence.wrong[0].difference
    )


def _is_same_distance(evidence: Evidence) -> bool:
    """Where parts are equal, rank r has parts r and n + r; wherever a remainder goes."""
    even = [
        (parts, *sizes)
        for parts, sizes in zip(_all_parts(evidence), SIZES, strict=True)
        if sizes[1] and not sizes[1] % (2 * sizes[0]) and sizes[0] > 1
    ]
    return _are_dealt_out(evidence) and all(
        parts == [wrong_answers.same_distance(rank, num_ranks, num_tokens) for rank in range(num_ranks)]
        for parts, num_ranks, num_tokens in even
    )


def _falls_somewhere(evidence: Evidence) -> bool:
    """Everything has one owner, and only the order within a rank is wrong in some case."""
    return (
        bool(evidence.wrong)
        and _are_dealt_out(evidence)
        and all(outcome.kind_of_difference == FALLS for outcome in evidence.wrong)
    )


def _drops_some(evidence: Evidence) -> bool:
    """Right where all parts are equal; elsewhere nothing is wrong but that less than a position a part is missing."""
    parts = _all_parts(evidence)
    return bool(parts and evidence.wrong) and all(
        outcome.right
        or (outcome.kind_of_difference == MISSING and num_tokens - sum(map(len, given)) <= num_tokens % (2 * num_ranks))
        for outcome, given, (num_ranks, num_tokens) in zip(evidence.outcomes, parts, SIZES, strict=True)
    )


def _is_nested(evidence: Evidence) -> bool:
    """Whatever is wrong, among a rank's positions stands a whole row of them."""
    return bool(_all_parts(evidence) and evidence.wrong) and all(
        any(_is_row(one) for own in outcome.got for one in own) for outcome in evidence.wrong
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple | range) or getattr(value, "ndim", 0) > 0


def _is_wrong_only(of: Callable[[int, int], bool]) -> Callable[[Evidence], bool]:
    """Whether a fault of the positions, and no error, is in cases of these ranks and tokens alone."""

    def recognise(evidence: Evidence) -> bool:
        return bool(_all_parts(evidence) and evidence.wrong) and all(
            outcome.right or of(*sizes) for outcome, sizes in zip(evidence.outcomes, SIZES, strict=True)
        )

    return recognise


def _seeds(evidence: Evidence) -> bool:
    return all(outcome.difference == outcome.got.note for outcome in evidence.wrong)


MISTAKES = (
    Mistake(
        "position-of-nothing",
        "Your answer is right wherever there are positions. Where a sequence has none, give every rank an empty list.",
        recognise=_is_wrong_only(lambda _, num_tokens: num_tokens == 0),
    ),
    Mistake(
        "few-ranks-alone",
        f"Your answer is right on up to 8 ranks, and not on {MANY_RANKS}. The docstring asks for any number of ranks.",
        recognise=_is_wrong_only(lambda num_ranks, _: num_ranks == MANY_RANKS),
    ),
    Mistake(
        "seeds",
        "The positions are right, but your code seeds the random numbers of the whole process. No random number is "
        "needed here: leave out `torch.manual_seed`.",
        recognise=_seeds,
    ),
    Mistake(
        "contiguous",
        "You give each rank one run, in order. The rank with the last run looks at all positions, and the rank with "
        "the first run at its own alone. A rank may have two runs.",
        recognise=_is_contiguous,
    ),
    Mistake(
        "equal-pairs",
        "You give each rank one run, some much longer than others. Pairs are only one thing to share out. "
        "Activations, and the arithmetic of all matrices, grow with the number of positions, and that has to be even "
        "as well.",
        recognise=_is_uneven_runs,
    ),
    Mistake(
        "striped",
        "You deal positions out by turns: pairs are nearly even, and this is a known order (Striped Attention). But "
        "then a rank's positions stand alone, and a kernel that takes whole tiles finds a little of the mask in every "
        "tile. Here two runs are the most.",
        wrong_answers.striped,
    ),
    Mistake(
        "snake",
        "You deal positions out to and fro, one by one: the pairs are shared out well, but in a great many pieces. Do "
        "the same with parts in place of positions, so that a rank has two runs at most.",
        wrong_answers.snake,
    ),
    Mistake(
        "same-distance",
        "Each rank has two parts, half a sequence apart. So the rank with the later early part has the later late "
        "part as well, and more work in both. The two parts have to balance each other.",
        recognise=_is_same_distance,
    ),
    Mistake(
        "off-by-one",
        "The part from the back is one too late: counted from 0, the last of 2n parts is 2n - 1. For rank 0 you ask "
        "for part 2n, which is not there.",
        wrong_answers.from_two_ends_off_by_one,
    ),
    Mistake(
        "front-only",
        "You give each rank one part of the front half, and no rank has the back half.",
        wrong_answers.front_only,
    ),
    Mistake(
        "drops-the-rest",
        "Your answer is right where all parts are equal. Elsewhere some positions have no owner: what `//` leaves "
        "over has to go somewhere, one position to a part.",
        recognise=_drops_some,
    ),
    Mistake(
        "chunk",
        "Your answer is right where all parts are equal. Elsewhere `chunk` rounds a part's size up, so that the last "
        "part is shorter, and sometimes there are fewer parts than you asked for. `tensor_split` makes all of them, "
        "as even as can be.",
        wrong_answers.by_chunk,
    ),
    Mistake(
        "rest-to-the-last",
        "Your answer is right where all parts are equal. Elsewhere the last part takes all that is left over, up to "
        "2n - 1 positions, and they are those with most work. Give one each to some of the parts.",
        wrong_answers.rest_to_the_last,
    ),
    Mistake(
        "rounds-up",
        "Your answer is right where all parts are equal. Elsewhere you round a part's size up, so that the last ones "
        "are short or empty. They are the back parts of the first ranks. Let sizes differ by one at most.",
        wrong_answers.rounds_up,
    ),
    Mistake(
        "over-the-end",
        "Your answer is right where all parts are equal. Elsewhere you round a part's size up, and the last part ends "
        "behind the end of the sequence.",
        wrong_answers.over_the_end,
    ),
    Mistake(
        "mirrored",
        "Your answer is right where all parts are equal. Elsewhere you take a part's mirror image for the one at the "
        "back, and that one has another size. Some positions are there twice, or not at all.",
        wrong_answers.counted_from_the_end,
    ),
    Mistake(
        "starts-too-early",
        "Your answer is right where all parts are equal. Elsewhere parts that are longer by one shift all that come "
        "after them: part p begins min(p, extra) positions later than p * base.",
        wrong_answers.extra_by_rank,
    ),
    Mistake(
        "back-first",
        "Each rank has the right positions, but the late part stands before the early one. A rank's tensors hold its "
        "positions in rising order.",
        wrong_answers.back_first,
    ),
    Mistake(
        "falls",
        "Each position has one owner. But a rank's positions do not rise everywhere, and its tensors hold them in "
        "rising order.",
        recognise=_falls_somewhere,
    ),
    Mistake(
        "part-numbers",
        "You give the numbers of two parts. Give the positions in them.",
        wrong_answers.part_numbers,
    ),
    Mistake(
        "two-lists",
        "You give several lists in one, or ranges, or tensors. Give one list: the positions of `rank`, its second "
        "run behind its first.",
        recognise=_is_nested,
    ),
    Mistake(
        "n-parts",
        "You cut into as many parts as there are ranks, and give each of them to two. Twice as many parts are needed, "
        "so that each has one owner.",
        wrong_answers.n_parts,
    ),
    Mistake(
        "same-for-all",
        "Every rank gets the first part and the last: your function does not use `rank`.",
        wrong_answers.same_for_all,
    ),
)
