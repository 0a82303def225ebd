"""10.documents: packed documents among ranks, evenly in tokens and in pairs."""

from __future__ import annotations

import heapq
from functools import lru_cache
from itertools import accumulate

import torch
from answer_table import Row


def _dividing(rank, num_ranks, lengths):
    """Zigzag in each document, as far as it divides."""
    own, begin = [], 0
    for length in lengths:
        size, over = divmod(length, 2 * num_ranks)
        for part in (rank, 2 * num_ranks - 1 - rank):
            own += range(begin + over + part * size, begin + over + (part + 1) * size)
        begin += length
    return own


def from_the_front(rank, num_ranks, lengths):
    starts = accumulate(lengths, initial=0)
    over = [(start, length % (2 * num_ranks)) for start, length in zip(starts, lengths, strict=False)]
    rest = sorted((i, start + i) for start, tokens in over for i in range(tokens))
    return sorted(_dividing(rank, num_ranks, lengths) + [p for _, p in rest[rank::num_ranks]])


def from_the_back(rank, num_ranks, lengths):
    """What does not divide is each document's last tokens; a tensor comes back."""
    own, rest, begin = [], [], 0
    for length in lengths:
        parts = torch.arange(begin, begin + length - length % (2 * num_ranks)).tensor_split(2 * num_ranks)
        own += [parts[rank], parts[-1 - rank]]
        rest += [(i, begin + i) for i in range(length - length % (2 * num_ranks), length)]
        begin += length
    rest.sort(reverse=True)
    return torch.cat([*own, torch.tensor([p for _, p in rest[rank::num_ranks]], dtype=torch.long)]).sort().values


def all_ranks_at_once(rank, num_ranks, lengths):
    """The owner of each position, to and fro over what does not divide."""
    owner, over, begin = {}, [], 0
    for length in lengths:
        size = length // (2 * num_ranks)
        for i in range(length):
            j = i - length % (2 * num_ranks)
            if j < 0:
                over.append((-i, begin + i))
            else:
                part = j // size
                owner[begin + i] = min(part, 2 * num_ranks - 1 - part)
        begin += length
    for turn, (_, position) in enumerate(sorted(over)):
        lap, place = divmod(turn, num_ranks)
        owner[position] = num_ranks - 1 - place if lap % 2 else place
    return tuple(position for position in range(begin) if owner[position] == rank)


def greedy_for_the_rest(rank, num_ranks, lengths):
    """A heap of tokens and pairs; the heaviest token first."""
    starts = [0, *accumulate(lengths)][:-1]
    heap = [(0, 0, place, []) for place in range(num_ranks)]
    rest = sorted(
        (
            (i, start + i)
            for start, length in zip(starts, lengths, strict=False)
            for i in range(length % (2 * num_ranks))
        ),
        reverse=True,
    )
    for offset, position in rest:
        tokens, pairs, place, own = heapq.heappop(heap)
        heapq.heappush(heap, (tokens + 1, pairs + offset + 1, place, [*own, position]))
    mine = next(own for *_, place, own in heap if place == rank)
    for start, length in zip(starts, lengths, strict=False):
        size, over = divmod(length, 2 * num_ranks)
        front = start + over + rank * size
        back = start + length - (rank + 1) * size
        mine += [*range(front, front + size), *range(back, back + size)]
    return iter(sorted(mine))


def as_generator(rank, num_ranks, lengths):
    yield from from_the_front(num_ranks - 1 - rank, num_ranks, lengths)


def pops_a_copy(rank, num_ranks, lengths):
    todo, begin, own, rest = list(lengths), 0, set(), []
    while todo:
        length = todo.pop(0)
        n = 2 * num_ranks
        keep = length - length % n
        for i in range(length):
            k = i - (length - keep)
            if k < 0:
                rest.append((i, begin + i))
            elif k * n // keep in (rank, n - 1 - rank):
                own.add(begin + i)
        begin += length
    own |= {p for _, p in sorted(rest)[rank::num_ranks]}
    return sorted(own)


@lru_cache
def _kept(rank, num_ranks, lengths):
    return tuple(from_the_front(rank, num_ranks, lengths))


def kept_by_its_arguments(rank, num_ranks, lengths):
    return _kept(rank, num_ranks, tuple(lengths))


# -- wrong ------------------------------------------------------------------------------------------------------


def by_the_library(rank, num_ranks, lengths):
    from course_lib.layouts import DocumentCut

    return DocumentCut.by_order(lengths, num_ranks, "even").owned[rank]


found: dict = {}


def kept_for_each_rank(rank, num_ranks, lengths):
    """The first packing is kept for all others."""
    return found.setdefault(rank, from_the_front(rank, num_ranks, lengths))


def pops_the_lengths(rank, num_ranks, lengths):
    mine = from_the_front(rank, num_ranks, lengths)
    lengths.clear()
    return mine


def sorts_the_lengths(rank, num_ranks, lengths):
    lengths.sort(reverse=True)
    return from_the_front(rank, num_ranks, lengths)


def to_and_fro_position_by_position(rank, num_ranks, lengths):
    """Every position alone, in the order of its pairs, to and fro: PyTorch's order with blocks of one."""
    by_pairs = sorted(
        (-i, start + i)
        for start, length in zip([0, *accumulate(lengths)], lengths, strict=False)
        for i in range(length)
    )
    return sorted(
        p for turn, (_, p) in enumerate(by_pairs)
        if (turn % num_ranks if turn // num_ranks % 2 == 0 else num_ranks - 1 - turn % num_ranks) == rank
    )  # fmt: skip


def cyclic_over_documents(rank, num_ranks, lengths):
    """What does not divide goes on with the next rank where the last document ended."""
    own, turn, begin = _dividing(rank, num_ranks, lengths), 0, 0
    for length in lengths:
        for i in range(length % (2 * num_ranks)):
            if turn % num_ranks == rank:
                own.append(begin + i)
            turn += 1
        begin += length
    return sorted(own)


def to_and_fro_over_documents(rank, num_ranks, lengths):
    """What does not divide is dealt to and fro, in the order of the sequence."""
    owner, turn, begin = torch.empty(sum(lengths), dtype=torch.long), 0, 0
    fro = torch.cat([torch.arange(num_ranks), torch.arange(num_ranks).flip(0)])
    for length in lengths:
        size, over = divmod(length, 2 * num_ranks)
        owner[begin : begin + over] = fro[(torch.arange(over) + turn) % (2 * num_ranks)]
        owner[begin + over : begin + length] = fro.repeat_interleave(size)
        begin, turn = begin + length, turn + over
    return (owner == rank).nonzero().flatten().tolist()


def dearest_of_each_document_first(rank, num_ranks, lengths):
    """What a document leaves over goes to who has the fewest tokens, then the fewest pairs; document by document."""
    own, tokens, pairs, begin = _dividing(rank, num_ranks, lengths), [0] * num_ranks, [0] * num_ranks, 0
    for length in lengths:
        for i in reversed(range(length % (2 * num_ranks))):
            place = min(range(num_ranks), key=lambda r: (tokens[r], pairs[r]))
            tokens[place], pairs[place] = tokens[place] + 1, pairs[place] + i + 1
            own += [begin + i] if place == rank else []
        begin += length
    return sorted(own)


kept: dict = {}


def kept_by_the_sum(rank, num_ranks, lengths):
    """Packings of as many documents and tokens are taken for one."""
    key = rank, num_ranks, sum(lengths), len(lengths)
    return kept.setdefault(key, from_the_front(rank, num_ranks, lengths))


def off_by_one_at_the_back(rank, num_ranks, lengths):
    own, begin = [], 0
    for length in lengths:
        size = length // (2 * num_ranks)
        for part in (rank, 2 * num_ranks - rank):
            own += range(begin + part * size, begin + (part + 1) * size)
        begin += length
    return sorted(own)


def largest_documents_first_packed_anew(rank, num_ranks, lengths):
    return from_the_front(rank, num_ranks, sorted(lengths, reverse=True))


def no_rest(rank, num_ranks, lengths):
    own, begin = [], 0
    for length in lengths:
        size = length // (2 * num_ranks)
        for part in (rank, 2 * num_ranks - 1 - rank):
            own += range(begin + part * size, begin + (part + 1) * size)
        begin += length
    return own


def a_list_of_lists(rank, num_ranks, lengths):
    return [[p] for p in from_the_front(rank, num_ranks, lengths)]


def floats(rank, num_ranks, lengths):
    return [float(p) for p in from_the_front(rank, num_ranks, lengths)]


def nothing(rank, num_ranks, lengths):
    from_the_front(rank, num_ranks, lengths)


def with_a_seed(rank, num_ranks, lengths):
    torch.manual_seed(0)
    return from_the_front(rank, num_ranks, lengths)


def unsorted(rank, num_ranks, lengths):
    return list(reversed(from_the_front(rank, num_ranks, lengths)))


def divides_by_the_longest(rank, num_ranks, lengths):
    if max(lengths) < 2 * num_ranks:
        raise ValueError("too short")
    return from_the_front(rank, num_ranks, lengths)


def four_ranks_alone(rank, num_ranks, lengths):
    return from_the_front(rank, num_ranks, lengths) if num_ranks == 4 else list(range(rank, sum(lengths), num_ranks))


ROWS = [
    Row(answer=from_the_front, verdict="passed", why="the definition"),
    Row(answer=from_the_back, verdict="passed", why="what is over may be the dear end; tensors"),
    Row(answer=all_ranks_at_once, verdict="passed", why="to and fro; a tuple"),
    Row(answer=greedy_for_the_rest, verdict="passed", why="a heap; an iterator"),
    Row(answer=as_generator, verdict="passed", why="other ranks have other parts; a generator"),
    Row(answer=pops_a_copy, verdict="passed", why="owner by arithmetic; the copy is its own"),
    Row(answer=kept_by_its_arguments, verdict="passed", why="the same arguments, the same positions"),
    Row(answer=by_the_library, verdict="forbidden", why="the library's own cut"),
    Row(answer=kept_for_each_rank, verdict="not yet", why="another packing has other positions"),
    Row(answer=pops_the_lengths, verdict="not yet", mistake="changes-lengths", why="the list is the caller's"),
    Row(answer=sorts_the_lengths, verdict="not yet", why="the documents are packed as they come"),
    Row(answer=to_and_fro_position_by_position, verdict="not yet", mistake="pieces", why="single positions"),
    Row(
        answer=cyclic_over_documents,
        verdict="not yet",
        mistake="rest-in-order",
        why="the heavier of two tokens goes to the same rank each time",
    ),
    Row(
        answer=to_and_fro_over_documents,
        verdict="not yet",
        words=("pairs; the mean is",),
        why="of documents of 1 and 3 in turn the same rank gets the dearest each time",
    ),
    Row(
        answer=dearest_of_each_document_first,
        verdict="not yet",
        words=("pairs; the mean is",),
        why="fewest tokens come first, and so the dearest goes to the same rank each time",
    ),
    Row(answer=kept_by_the_sum, verdict="not yet", why="the same sum and number, other documents"),
    Row(answer=off_by_one_at_the_back, verdict="not yet", mistake="", why="parts 0 to 2n - 1"),
    Row(answer=largest_documents_first_packed_anew, verdict="not yet", why="it has another packing than it was given"),
    Row(answer=no_rest, verdict="not yet", words=("no rank has position",), why="what is over has no owner"),
    Row(answer=a_list_of_lists, verdict="not yet", words=("which is no whole number",), why="one list was asked for"),
    Row(answer=floats, verdict="not yet", words=("which is no whole number",), why="positions are whole numbers"),
    Row(answer=nothing, verdict="not yet", words=("return",), why="nothing came back"),
    Row(answer=with_a_seed, verdict="not yet", words=("seed",), why="whoever draws next draws the same numbers"),
    Row(answer=unsorted, verdict="not yet", mistake="falls", why="tensors hold them in rising order"),
    Row(answer=divides_by_the_longest, verdict="raised", why="short documents are documents"),
    Row(answer=four_ranks_alone, verdict="not yet", why="any number of ranks"),
]
