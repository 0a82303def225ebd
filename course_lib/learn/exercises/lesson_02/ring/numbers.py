"""The numbers that 02.ring is tried with, chosen so that a sum shows whose numbers are in it.

Rank r's numbers are odd, 101 to 199, times 1000 to the power r: in a sum each rank has three digits of its own. 139,139
is 139 of rank 0 and of rank 1; 278,000 is rank 1's twice, and rank 0's is missing. None is a multiple of another, no
two are neighbours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.learn.judging.compare import difference

__all__ = ["compare_sums", "numbers", "ranks_within", "total"]

_BASE, _MOST_RANKS, _MOST_NUMBERS = 1000, 6, 50
_LARGEST = float(_BASE) ** _MOST_RANKS  # no sum is as large
_QUARTER = 4  # fractions are quarters, so that their sums are exact


def numbers(rank: int, count: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """What a rank brings. In float32, which has no room for three digits of each rank, other numbers."""
    if dtype == torch.float32:
        return (_codes(count) + 100 * rank).to(dtype) / _QUARTER
    codes = _codes(count) * _BASE**rank
    return codes if dtype == torch.int64 else codes.to(dtype) / _QUARTER


def _codes(count: int) -> Tensor:
    return 101 + 2 * (7 * torch.arange(count) % _MOST_NUMBERS)


def total(world_size: int, count: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """The sum of what all ranks bring."""
    return torch.stack([numbers(rank, count, dtype) for rank in range(world_size)]).sum(0)


def _shares(sums: Tensor) -> list[list[int]] | None:
    """For each sum, what each rank has brought to it; None where these are no sums of such numbers."""
    whole = sums.double() * (_QUARTER if sums.is_floating_point() else 1)
    most = float(_BASE) ** _MOST_RANKS
    if not bool((torch.isfinite(whole) & (whole == whole.round()) & (whole >= 0) & (whole < most)).all()):
        return None
    exact = whole.long() if sums.is_floating_point() else sums.long()
    return [[int(one) // _BASE**rank % _BASE for rank in range(_MOST_RANKS)] for one in exact.flatten()]


def ranks_within(expected: Tensor, got: Tensor) -> list[list[int]] | None:
    """How often each rank's number is in each sum; None where something else is in them."""
    wanted, found = _shares(expected), _shares(got)
    if wanted is None or found is None or len(wanted) != len(found):
        return None
    counts = []
    for right, have in zip(wanted, found, strict=True):
        if any(share % right[0] if right[rank] else share for rank, share in enumerate(have)):
            return None
        counts.append([share // right[0] for rank, share in enumerate(have) if right[rank]])
    return counts


def compare_sums(expected: object, got: object) -> str:
    """The first difference, and for a wrong sum whose numbers are in it."""
    wrong = difference(expected, got, relative=0.0, absolute=0.0)
    if not (wrong and isinstance(expected, Tensor) and isinstance(got, Tensor) and wrong.startswith("at [")):
        return wrong
    if expected.dtype == torch.float32:
        return wrong
    place = int((expected != got).nonzero()[0])
    pair, _, more = wrong.partition("; ")
    said = _mean(expected, got.detach()) or _within(expected, got.detach(), place)
    return f"{pair} ({said})" + (f"; {more}" if more else "")


def _mean(expected: Tensor, got: Tensor) -> str:
    """Whether all sums were divided by the number of ranks."""
    shares = _shares(expected[:1])
    count = sum(share > 0 for share in shares[0]) if shares else 0
    is_mean = count > 1 and torch.equal((expected / count).to(got.dtype), got)
    return f"that is the sum divided by {count}; the sum itself is asked for" if is_mean else ""


def _within(expected: Tensor, got: Tensor, place: int) -> str:
    here = slice(place, place + 1)
    right, have = _shares(expected[here]), _shares(got[here])
    if expected.is_floating_point() and abs(float(got[place])) > _LARGEST:
        return (
            "the bits of a fraction, read as a whole number, are as large as that. So a buffer has another dtype than "
            "the tensor. `torch.empty_like` makes one that has the same"
        )
    if right is None or have is None or any(h and not r for r, h in zip(right[0], have[0], strict=True)):
        return "no sum of the ranks' numbers gives that: usually a buffer was read before it was filled"
    said = []
    for rank, (want, found) in enumerate(zip(right[0], have[0], strict=True)):
        if want and found % want:
            said.append(_of_another_place(rank, found, place))
        elif want and found > want:
            said.append(f"rank {rank}'s number is counted {found // want} times")
    pairs = list(zip(right[0], have[0], strict=True))
    missing = [rank for rank, (want, found) in enumerate(pairs) if want and not found]
    there = [rank for rank, pair in enumerate(pairs) if all(pair)]
    if len(there) == 1 and not said:
        return f"only rank {there[0]}'s number is in it"
    return "; ".join([*([_missing(missing)] if missing else []), *said])


def _of_another_place(rank: int, found: int, place: int) -> str:
    codes = _codes(_MOST_NUMBERS).tolist()
    if found in codes:
        return f"in the place of rank {rank}'s number {place} is its number {codes.index(found)}"
    return f"what rank {rank} brought to it is not its number {place} alone"


def _missing(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}'s number is missing"
    names = ", ".join(map(str, ranks[:-1]))
    return f"the numbers of ranks {names} and {ranks[-1]} are missing"
