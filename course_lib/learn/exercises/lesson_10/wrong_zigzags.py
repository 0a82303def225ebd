"""Usual wrong answers to 10.zigzag, each with what it mixes up."""

from __future__ import annotations

import math
from typing import Any

from course_lib.learn.exercise import Evidence, Mistake
from course_lib.learn.exercises.lesson_10.zigzag_labels import SIZES

__all__ = ["MISTAKES", "by_the_library"]


def _part(number: int, num_parts: int, num_tokens: int) -> list[int]:
    base, extra = divmod(num_tokens, num_parts)
    start = number * base + min(number, extra)
    return list(range(start, start + base + (number < extra)))


def _contiguous(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return _part(rank, num_ranks, num_tokens)


def _striped(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return list(range(rank, num_tokens, num_ranks))


def _snake(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """0 1 2 3 3 2 1 0, position by position."""
    lap = 2 * num_ranks
    return [position for position in range(num_tokens) if position % lap in (rank, lap - 1 - rank)]


def _equal_pairs(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """One run each, the first ones longer."""
    ends = [round(num_tokens * math.sqrt(one / num_ranks)) for one in range(num_ranks + 1)]
    return list(range(ends[rank], ends[rank + 1]))


def _same_distance(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(rank, parts, num_tokens) + _part(num_ranks + rank, parts, num_tokens)


def _from_two_ends_off_by_one(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(rank, parts, num_tokens) + _part(parts - rank, parts, num_tokens)


def _front_only(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return _part(rank, 2 * num_ranks, num_tokens)


def _drops_the_rest(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size = num_tokens // (2 * num_ranks)
    back = 2 * num_ranks - 1 - rank
    return [*range(rank * size, (rank + 1) * size), *range(back * size, (back + 1) * size)]


def _rest_to_the_last(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size, back = num_tokens // (2 * num_ranks), 2 * num_ranks - 1 - rank
    end = num_tokens if rank == 0 else (back + 1) * size
    return [*range(rank * size, (rank + 1) * size), *range(back * size, end)]


def _rounds_up(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size, back = -(-num_tokens // (2 * num_ranks)), 2 * num_ranks - 1 - rank
    found = [*range(rank * size, (rank + 1) * size), *range(back * size, (back + 1) * size)]
    return [position for position in found if position < num_tokens]


def _over_the_end(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    size, back = -(-num_tokens // (2 * num_ranks)), 2 * num_ranks - 1 - rank
    return [*range(rank * size, (rank + 1) * size), *range(back * size, (back + 1) * size)]


def _counted_from_the_end(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """The back part mirrors the front part: where parts differ, the middle overlaps or is left out."""
    front = _part(rank, 2 * num_ranks, num_tokens)
    return front + [num_tokens - 1 - position for position in reversed(front)]


def _extra_by_rank(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """Starts without the longer parts before them."""
    base, extra = divmod(num_tokens, 2 * num_ranks)
    parts = (rank, 2 * num_ranks - 1 - rank)
    return [p for part in parts for p in range(part * base, part * base + base + (part < extra))]


def _back_first(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(parts - 1 - rank, parts, num_tokens) + _part(rank, parts, num_tokens)


def _back_falls(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(rank, parts, num_tokens) + _part(parts - 1 - rank, parts, num_tokens)[::-1]


def _part_numbers(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    return [rank, 2 * num_ranks - 1 - rank]


def _two_lists(rank: int, num_ranks: int, num_tokens: int) -> list[list[int]]:
    parts = 2 * num_ranks
    return [_part(rank, parts, num_tokens), _part(parts - 1 - rank, parts, num_tokens)]


def _n_parts(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """The ends of as many parts as ranks: everybody's twice."""
    return sorted({*_part(rank, num_ranks, num_tokens), *_part(num_ranks - 1 - rank, num_ranks, num_tokens)})


def _same_for_all(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    parts = 2 * num_ranks
    return _part(0, parts, num_tokens) + _part(parts - 1, parts, num_tokens)


def by_the_library(rank: int, num_ranks: int, num_tokens: int) -> list[int]:
    """What the exercise is about, done by the course."""
    from course_lib.sequence_cut import SequenceCut

    return SequenceCut(num_tokens, num_ranks).positions(rank)


# -- by what they look like ------------------------------------------------------------------------------------------


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
    """One run each, and equally long but for a remainder, in whatever order of ranks."""
    return _are_dealt_out(evidence) and all(
        all(map(_is_one_run, parts)) and max(map(len, parts)) - min(map(len, parts)) <= 1
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


def _falls_somewhere(evidence: Evidence) -> bool:
    """Everything has one owner, and only the order within a rank is wrong in some case."""
    return (
        bool(evidence.wrong)
        and _are_dealt_out(evidence)
        and all("and they are to rise" in outcome.difference for outcome in evidence.wrong)
    )


def _is_nested(evidence: Evidence) -> bool:
    return bool(_all_parts(evidence)) and all(
        isinstance(one, list | tuple | range)
        for parts in _all_parts(evidence)
        for own in parts
        for one in own
    )


MISTAKES = (
    Mistake(
        "contiguous",
        "One run for each rank, one after the other. The rank with the last of them looks at everything, and the rank "
        "with the first at little else but itself. A rank may have two runs.",
        _contiguous,
        recognise=_is_contiguous,
    ),
    Mistake(
        "equal-pairs",
        "One run for each rank, some much longer than others. Pairs are one thing to share out; activations, and the "
        "arithmetic of all matrices, go by the number of positions, and that has to be even as well.",
        _equal_pairs,
        recognise=_is_uneven_runs,
    ),
    Mistake(
        "striped",
        "Every so many positions one: equally many pairs, nearly, and this is a known order (Striped Attention). But a "
        "rank's positions are then in single pieces, and a kernel that takes whole tiles finds a little of the mask in "
        "every tile. Here two runs are the most.",
        _striped,
    ),
    Mistake(
        "snake",
        "To and fro, position by position: the pairs are shared out well, but in a great many pieces. Do the same with "
        "parts in place of positions, so that a rank has two runs at most.",
        _snake,
    ),
    Mistake(
        "same-distance",
        "Two parts for each rank, half a sequence apart. Then the rank whose early part is later has a later late part "
        "as well, and more to do in both. What the one gives, the other has to take.",
        _same_distance,
    ),
    Mistake(
        "off-by-one",
        "The part from the back is one too late: counted from 0, the last of 2n parts is 2n - 1. For rank 0 you ask "
        "for part 2n, which is not there.",
        _from_two_ends_off_by_one,
    ),
    Mistake(
        "front-only",
        "Rank by rank you give away one of the parts of the front half, and nobody has the back half.",
        _front_only,
    ),
    Mistake(
        "drops-the-rest",
        "Right where all parts are equal. Elsewhere the last positions are nobody's: what `//` leaves over has to go "
        "somewhere, one position to a part.",
        _drops_the_rest,
    ),
    Mistake(
        "rest-to-the-last",
        "Right where all parts are equal. Elsewhere the last part takes all that is left over, up to 2n - 1 positions, "
        "and they are those with most to do. Give one each to some of the parts.",
        _rest_to_the_last,
    ),
    Mistake(
        "rounds-up",
        "Right where all parts are equal. Elsewhere you round a part's size up, so that the last ones are short or "
        "empty, and they are the back parts of the first ranks. Let sizes differ by one at most.",
        _rounds_up,
    ),
    Mistake(
        "over-the-end",
        "Right where all parts are equal. Elsewhere you round a part's size up, and the last part ends behind the end "
        "of the sequence.",
        _over_the_end,
    ),
    Mistake(
        "mirrored",
        "Right where all parts are equal. Elsewhere you take a part's mirror image for the one at the back, and that "
        "one has another size: some positions are there twice, or not at all.",
        _counted_from_the_end,
    ),
    Mistake(
        "starts-too-early",
        "Right where all parts are equal. Elsewhere parts that are longer by one shift all that come after them: "
        "part p begins min(p, extra) positions later than p * base.",
        _extra_by_rank,
    ),
    Mistake(
        "back-first",
        "The right positions for each rank, and the late part stands before the early one. A rank's tensors hold its "
        "positions in rising order.",
        _back_first,
    ),
    Mistake(
        "falls",
        "Each position has one owner. But within a rank they do not rise everywhere, and its tensors hold them in "
        "rising order.",
        _back_falls,
        recognise=_falls_somewhere,
    ),
    Mistake(
        "part-numbers",
        "You give the numbers of two parts. Wanted are the positions in them.",
        _part_numbers,
    ),
    Mistake(
        "two-lists",
        "You give a list of lists, or of ranges. Wanted is one list of positions: put the second run behind the first.",
        _two_lists,
        recognise=_is_nested,
    ),
    Mistake(
        "n-parts",
        "You cut into as many parts as there are ranks, and give each of them to two. Twice as many parts are needed, "
        "so that each has one owner.",
        _n_parts,
    ),
    Mistake(
        "same-for-all",
        "Every rank gets the first part and the last: `rank` does not come into it.",
        _same_for_all,
    ),
)
