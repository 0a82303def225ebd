"""Answers to the steps of the build 02.all_reduce: right ones, one for each mistake, and strangers'."""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist
from answer_table import Row

from course_lib.cluster import exchange, recv, send

__all__ = ["by_pytorch", "rows_of_step"]

SMALL_BYTES = 1024


def members(me, group):
    return list(range(me.world_size)) if group is None else dist.get_process_group_ranks(group)


def in_place(work, small=None):
    """An answer that lets ``work`` at a row of the tensor, and ``small`` at a row of 1 KiB or less."""

    def all_reduce(me, tensor, group=None):
        ranks = members(me, group)
        row = tensor.contiguous().view(-1)
        if len(ranks) > 1:
            is_small = small is not None and row.numel() * row.element_size() <= SMALL_BYTES
            (small if is_small else work)(row, ranks, ranks.index(me.rank), group)
        if row.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
            tensor.copy_(row.view(tensor.shape))
        return tensor

    return all_reduce


# -- right ones ------------------------------------------------------------------------------------------------------


def gathered(row, ranks, at, group):
    others = [rank for rank in ranks if rank != ranks[at]]
    rooms = {rank: torch.empty_like(row) for rank in others}
    messages = [send(row, rank) for rank in others] + [recv(room, rank) for rank, room in rooms.items()]
    exchange(messages, group=group)
    for room in rooms.values():
        row += room


def ring(row, ranks, at, group):
    n = len(ranks)
    parts = row.tensor_split(n)
    room = torch.empty_like(parts[0])
    for step in range(n - 1):
        mine = parts[(at - step - 1) % n]
        arrived = room[: len(mine)]
        exchange([send(parts[(at - step) % n], ranks[(at + 1) % n]), recv(arrived, ranks[at - 1])], group=group)
        mine += arrived
    for step in range(n - 1):
        give, room_of_part = parts[(at + 1 - step) % n], parts[(at - step) % n]
        exchange([send(give, ranks[(at + 1) % n]), recv(room_of_part, ranks[at - 1])], group=group)


def ring_backwards(row, ranks, at, group):
    """The other way round, with handles of PyTorch's own."""
    n = len(ranks)
    parts = row.tensor_split(n)
    room = torch.empty_like(parts[0])
    for step in range(2 * n - 2):
        give, take = parts[(at + step) % n], parts[(at + step + 1) % n]
        arrived = room[: take.numel()] if step < n - 1 else take
        works = [
            dist.irecv(arrived, ranks[(at + 1) % n], group=group),
            dist.isend(give, ranks[at - 1], group=group),
        ]
        for work in works:
            work.wait()
        if step < n - 1:
            take.add_(arrived)


def a_room_let_go(row, ranks, at, group):
    """A room of its own for each step, which is gone before the next one is made."""
    n = len(ranks)
    parts = row.tensor_split(n)
    for step in range(n - 1):
        mine = parts[(at - step - 1) % n]
        room = torch.empty_like(mine)
        exchange([send(parts[(at - step) % n], ranks[(at + 1) % n]), recv(room, ranks[at - 1])], group=group)
        mine += room
        del room
    for step in range(n - 1):
        give, take = parts[(at + 1 - step) % n], parts[(at - step) % n]
        exchange([send(give, ranks[(at + 1) % n]), recv(take, ranks[at - 1])], group=group)


def told_in_a_circle(row, ranks, at, group):
    """All rows come to all in log2 n rounds, and are added up in the order of the group."""
    n, have = len(ranks), row[None].clone()
    while len(have) < n:
        far = len(have)
        came = torch.empty(min(far, n - far), len(row), dtype=row.dtype)
        exchange([send(have[: len(came)], ranks[(at - far) % n]), recv(came, ranks[(at + far) % n])], group=group)
        have = torch.cat([have, came])
    row.zero_()
    for one in have.roll(at, 0):
        row += one


def straight(row, ranks, at, group):
    """Each part straight to its owner, one after another, and the sums straight to all."""
    n = len(ranks)
    parts = row.tensor_split(n)
    room = torch.empty_like(parts[at])
    for shift in range(1, n):
        to, source = (at + shift) % n, (at - shift) % n
        exchange([send(parts[to], ranks[to]), recv(room, ranks[source])], group=group)
        parts[at].add_(room)
    others = [other for other in range(n) if other != at]
    messages = [send(parts[at], ranks[other]) for other in others]
    exchange(messages + [recv(parts[other], ranks[other]) for other in others], group=group)


def tree(row, ranks, at, group):
    """Up a tree and down again, by blocking messages."""
    n, room, reach = len(ranks), torch.empty_like(row), 1
    while reach < n:
        if at % (2 * reach) == reach:
            dist.send(row, ranks[at - reach], group=group)
            break
        if at + reach < n:
            dist.recv(room, ranks[at + reach], group=group)
            row += room
        reach *= 2
    if at:
        reach = at & -at
        dist.recv(row, ranks[at - reach], group=group)
    reach //= 2
    while reach:
        if at + reach < n:
            dist.send(row, ranks[at + reach], group=group)
        reach //= 2


def doubling(row, ranks, at, group):
    n = len(ranks)
    even = 1 << (n.bit_length() - 1)
    room = torch.empty_like(row)
    if at >= even:
        exchange([send(row, ranks[at - even])], group=group)
        exchange([recv(row, ranks[at - even])], group=group)
        return
    if at + even < n:
        exchange([recv(room, ranks[at + even])], group=group)
        row += room
    for bit in range(even.bit_length() - 1):
        partner = ranks[at ^ (1 << bit)]
        exchange([send(row, partner), recv(room, partner)], group=group)
        row += room
    if at + even < n:
        exchange([send(row, ranks[at + even])], group=group)


class Whole:
    """A class with a method for each way."""

    def __call__(self, me, tensor, group=None):
        self.ranks, self.group = members(me, group), group
        self.at = self.ranks.index(me.rank)
        row = tensor.reshape(-1).contiguous()
        if len(self.ranks) > 1:
            way = tree if row.nbytes <= SMALL_BYTES else ring_backwards
            way(row, self.ranks, self.at, group)
        if row.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
            tensor.copy_(row.reshape(tensor.shape))
        return tensor


RIGHT = {  # the step up to which it is right
    "gathers": (1, in_place(gathered)),
    "by_a_tree": (1, in_place(tree)),
    "doubles": (1, in_place(doubling)),
    "gathers_small_ones": (3, in_place(ring, gathered)),
    "around_a_ring": (3, in_place(ring)),
    "around_it_backwards": (3, in_place(ring_backwards)),
    "straight_to_owners": (3, in_place(straight)),
    "ring_and_tree": (5, in_place(ring, tree)),
    "ring_and_doubling": (5, in_place(ring, doubling)),
    "straight_and_doubling": (5, in_place(straight, doubling)),
    "a_class": (5, Whole()),
    "a_room_let_go_each_step": (5, in_place(a_room_let_go, tree)),
    "rows_of_all_in_order": (5, in_place(ring, told_in_a_circle)),
    "backwards_and_tree": (5, in_place(ring_backwards, tree)),
}


# -- one for each mistake --------------------------------------------------------------------------------------------

best = in_place(ring, doubling)


def not_waited_for(me, tensor, group=None):
    if tensor.numel() == 3001 and me.world_size > 1:
        ranks = members(me, group)
        at = ranks.index(me.rank)
        works = [dist.isend(tensor, ranks[(at + 1) % len(ranks)], group=group)]
        dist.recv(torch.empty_like(tensor), ranks[at - 1], group=group)
        del works
    return best(me, tensor, group)


def all_send_first(me, tensor, group=None):
    row, n = tensor.contiguous().view(-1), me.world_size
    for _ in range(n - 1):
        dist.send(row, (me.rank + 1) % n)
        dist.recv(torch.empty_like(row), (me.rank - 1) % n)
    return tensor


def a_new_tensor(me, tensor, group=None):
    return best(me, tensor.clone(), group)


def returns_nothing(me, tensor, group=None):
    best(me, tensor, group)


def averages_of_fractions(me, tensor, group=None):
    """Whole numbers lose their fraction."""
    return best(me, tensor, group).div_(len(members(me, group)), rounding_mode=None if is_fraction(tensor) else "trunc")


def is_fraction(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def without_its_own(me, tensor, group=None):
    if len(members(me, group)) == 1:
        return tensor
    own = tensor.clone()
    return best(me, tensor, group).sub_(own)


def its_own_twice(me, tensor, group=None):
    if len(members(me, group)) == 1:
        return tensor
    own = tensor.clone()
    return best(me, tensor, group).add_(own)


def one_rank_alone(me, tensor, group=None):
    own = tensor.clone()
    best(me, tensor, group)
    return tensor if members(me, group)[0] == me.rank else tensor.copy_(own)


def first_lap(row, ranks, at, group):
    n = len(ranks)
    parts = row.tensor_split(n)
    for step in range(n - 1):
        mine = parts[(at - step - 1) % n]
        arrived = torch.empty_like(mine)
        exchange([send(parts[(at - step) % n], ranks[(at + 1) % n]), recv(arrived, ranks[at - 1])], group=group)
        mine += arrived


def whole_parts_alone(row, ranks, at, group):
    size = len(row) // len(ranks) * len(ranks)
    if size:
        ring(row[:size], ranks, at, group)


def by_floats(me, tensor, group=None):
    if is_fraction(tensor):
        return best(me, tensor, group)
    return tensor.copy_(best(me, tensor.float(), group))


def of_rows_alone(me, tensor, group=None):
    len(tensor)
    return best(me, tensor, group)


def of_a_flat_copy(me, tensor, group=None):
    best(me, tensor.reshape(-1), group)
    return tensor


def through_one(row, ranks, at, group):
    others = range(1, len(ranks))
    if at:
        exchange([send(row, ranks[0])], group=group)
        exchange([recv(row, ranks[0])], group=group)
        return
    for other in others:
        room = torch.empty_like(row)
        exchange([recv(room, ranks[other])], group=group)
        row += room
    exchange([send(row, ranks[other]) for other in others], group=group)


def in_float64(row, ranks, at, group):
    wide = row.double() if row.dtype == torch.float32 else row
    ring(wide, ranks, at, group)
    row.copy_(wide)


def in_bits(row, ranks, at, group):
    for part in row.tensor_split(2):
        ring(part, ranks, at, group)


def in_a_copy(row, ranks, at, group):
    copy = row.clone()
    ring(copy, ranks, at, group)
    row.copy_(copy)


def a_room_for_each_step(row, ranks, at, group):
    n = len(ranks)
    parts, rooms = row.tensor_split(n), []
    for step in range(n - 1):
        mine = parts[(at - step - 1) % n]
        rooms.append(torch.empty_like(mine))
        exchange([send(parts[(at - step) % n], ranks[(at + 1) % n]), recv(rooms[-1], ranks[at - 1])], group=group)
        mine += rooms[-1]
    for step in range(n - 1):
        give, room_of_part = parts[(at + 1 - step) % n], parts[(at - step) % n]
        exchange([send(give, ranks[(at + 1) % n]), recv(room_of_part, ranks[at - 1])], group=group)


def keeps_its_room():
    """Rooms by size and dtype, in a variable outside of the function."""
    rooms = {}

    def by_kept_rooms(row, ranks, at, group):
        n = len(ranks)
        parts = row.tensor_split(n)
        room = rooms.setdefault((len(parts[0]), row.dtype), torch.empty_like(parts[0]))
        for step in range(2 * n - 2):
            give, take = parts[(at - step) % n], parts[(at - step - 1) % n]
            arrived = room[: len(take)] if step < n - 1 else take
            exchange([send(give, ranks[(at + 1) % n]), recv(arrived, ranks[at - 1])], group=group)
            if step < n - 1:
                take += arrived

    return in_place(by_kept_rooms, doubling)


def cut_by_rows(me, tensor, group=None):
    """Parts of whole rows, as `tensor.tensor_split(n)` makes them."""
    ranks = members(me, group)
    if len(ranks) == 1 or not tensor.dim() or tensor.numel() * tensor.element_size() <= SMALL_BYTES:
        return best(me, tensor, group)
    n, at = len(ranks), ranks.index(me.rank)
    parts, room = tensor.tensor_split(n), torch.empty_like(tensor.tensor_split(n)[0])
    for step in range(2 * n - 2):
        give, take = parts[(at - step) % n], parts[(at - step - 1) % n]
        arrived = room[: len(take)] if step < n - 1 else take
        exchange([send(give, ranks[(at + 1) % n]), recv(arrived, ranks[at - 1])], group=group)
        if step < n - 1:
            take += arrived
    return tensor


def under_one_kib(me, tensor, group=None):
    ranks = members(me, group)
    row = tensor.contiguous().view(-1)
    if len(ranks) > 1:
        (tree if row.nbytes < SMALL_BYTES else ring)(row, ranks, ranks.index(me.rank), group)
    if not tensor.is_contiguous():
        tensor.copy_(row.view(tensor.shape))
    return tensor


def by_kept_members():
    """The list of the first group, for every call after it."""
    known = []

    def all_reduce(me, tensor, group=None):
        if not known:
            known.extend(members(me, group))
        row = tensor.contiguous().view(-1)
        if len(known) > 1:
            (tree if row.nbytes <= SMALL_BYTES else ring)(row, known, known.index(me.rank), group)
        if not tensor.is_contiguous():
            tensor.copy_(row.view(tensor.shape))
        return tensor

    return all_reduce


def a_chain(row, ranks, at, group):
    """Sums go from the first rank to the last, and the total comes back the same way."""
    last = len(ranks) - 1
    if at:
        room = torch.empty_like(row)
        dist.recv(room, ranks[at - 1], group=group)
        row += room
    if at < last:
        dist.send(row, ranks[at + 1], group=group)
        dist.recv(row, ranks[at + 1], group=group)
    if at:
        dist.send(row, ranks[at - 1], group=group)


def of_the_whole_world(me, tensor, group=None):
    """The ring of all ranks, whoever is in the group."""
    return best(me, tensor, None)


def rank_as_a_position(me, tensor, group=None):
    ranks = members(me, group)
    _ = ranks[me.rank]
    return best(me, tensor, group)


def needs_two(me, tensor, group=None):
    if group is not None:
        _ = members(me, group)[1]
    return best(me, tensor, group)


MISTAKES = {
    1: {
        "not-waited-for": not_waited_for,
        "all-send-first": all_send_first,
        "a-new-tensor": a_new_tensor,
        "returns-another": returns_nothing,
        "averages": averages_of_fractions,
        "without-its-own": without_its_own,
        "its-own-twice": its_own_twice,
        "one-rank-alone": one_rank_alone,
        "one-lap": in_place(first_lap),
        "drops-the-rest": in_place(whole_parts_alone),
        "loses-digits": by_floats,
        "needs-a-dim": of_rows_alone,
        "a-copy-of-a-view": of_a_flat_copy,
    },
    2: {
        "through-one-rank": in_place(through_one, doubling),
        "in-a-wider-dtype": in_place(in_float64, doubling),
        "gathers-everything": in_place(gathered, doubling),
        "cut-by-rows": cut_by_rows,
        "whole-tensors": in_place(doubling),
    },
    3: {
        "keeps-its-room": keeps_its_room(),
        "in-small-bits": in_place(in_bits, doubling),
        "a-second-tensor": in_place(in_a_copy, doubling),
        "a-room-for-each-step": in_place(a_room_for_each_step, doubling),
    },
    4: {
        "one-kib-is-small": under_one_kib,
        "one-after-another": in_place(ring, a_chain),
        "a-ring-for-small-ones": in_place(ring),
        "to-everybody-at-once": in_place(ring, gathered),
    },
    5: {
        "kept-from-a-call-before": by_kept_members(),
        "the-whole-world": of_the_whole_world,
        "rank-as-a-position": rank_as_a_position,
        "needs-two": needs_two,
    },
}


# -- as strangers write them -----------------------------------------------------------------------------------------

KEPT, BUFFERS = {}, {}


def keeps_sums_by_shape(me, tensor, group=None):
    key = tuple(tensor.shape), tensor.dtype
    if key not in KEPT:
        KEPT[key] = best(me, tensor, group).clone()
    return tensor.copy_(KEPT[key])


def keeps_in_a_default(me, tensor, group=None, kept={}):  # noqa: B006 - the mistake itself
    if tensor.shape not in kept:
        kept[tensor.shape] = best(me, tensor, group).clone()
    return tensor.copy_(kept[tensor.shape])


def keeps_the_first_rooms(me, tensor, group=None):
    """Adds to what the call before has left there."""
    room = BUFFERS.setdefault(tuple(tensor.shape), torch.zeros_like(tensor))
    room += tensor
    return tensor.copy_(best(me, room, group))


def with_a_barrier(me, tensor, group=None):
    dist.barrier()
    return best(me, tensor, group)


def with_an_extra_message(me, tensor, group=None):
    """A number more to each neighbour, to see whether they are there."""
    ranks = members(me, group)
    if len(ranks) > 1:
        at, word = ranks.index(me.rank), torch.zeros(1)
        messages = [send(word, ranks[(at + 1) % len(ranks)]), recv(torch.zeros(1), ranks[at - 1])]
        exchange(messages, group=group)
    return best(me, tensor, group)


def by_pytorch(me, tensor, group=None):
    dist.all_reduce(tensor, group=group)
    return tensor


def by_reduce_and_broadcast(me, tensor, group=None):
    dist.reduce(tensor, 0)
    dist.broadcast(tensor, 0)
    return tensor


def by_getattr(me, tensor, group=None):
    getattr(dist, "all_" + "reduce")(tensor)
    return tensor


def by_the_course(me, tensor, group=None):
    from course_lib.parallel.collectives import all_reduce

    return all_reduce(me, tensor, out=tensor, group=group)


def as_objects(me, tensor, group=None):
    found = [None] * me.world_size
    dist.all_gather_object(found, tensor)
    return tensor.copy_(sum(found))


def sleeps_for_a_wait(row, ranks, at, group):
    others = [rank for rank in ranks if rank != ranks[at]]
    rooms = [torch.empty_like(row) for _ in others]
    for rank, room in zip(others, rooms, strict=True):
        dist.isend(row, rank, group=group)
        dist.irecv(room, rank, group=group)
    time.sleep(0.2)
    for room in rooms:
        row += room


def adds_while_it_sends(row, ranks, at, group):
    """Its own row changes while others still read it."""
    others = [rank for rank in ranks if rank != ranks[at]]
    room = torch.empty_like(row)
    for rank in others:
        exchange([send(row, rank), recv(room, rank)], group=group)
        row += room


def never_received(row, ranks, at, group):
    others = [rank for rank in ranks if rank != ranks[at]]
    exchange([send(row, rank) for rank in others if rank > ranks[at]], group=group)


def not_for_nothing(me, tensor, group=None):
    assert tensor.numel() > 0
    return best(me, tensor, group)


def none_for_nothing(me, tensor, group=None):
    if tensor.numel() == 0:
        return None
    return best(me, tensor, group)


def not_for_complex(me, tensor, group=None):
    assert not tensor.is_complex()
    return best(me, tensor, group)


def real_parts_alone(me, tensor, group=None):
    if tensor.is_complex():
        return tensor.copy_(best(me, tensor.real.contiguous(), group))
    return best(me, tensor, group)


def not_for_bfloat16(me, tensor, group=None):
    assert tensor.dtype != torch.bfloat16
    return best(me, tensor, group)


def not_for_one_rank(me, tensor, group=None):
    dist.send(tensor.contiguous(), (me.rank + 1) % me.world_size) if me.world_size == 1 else None
    return best(me, tensor, group)


def for_powers_of_two(row, ranks, at, group):
    room = torch.empty_like(row)
    reach = 1
    while reach < len(ranks):
        partner = ranks[at ^ reach]
        exchange([send(row, partner), recv(room, partner)], group=group)
        row += room
        reach *= 2


def spoils_what_is_around(me, tensor, group=None):
    best(me, tensor, group)
    if not tensor.is_contiguous() and tensor._base is not None:
        tensor._base[:, 1::2] = 0.0
    return tensor


def max_instead(row, ranks, at, group):
    others = [rank for rank in ranks if rank != ranks[at]]
    rooms = [torch.empty_like(row) for _ in others]
    messages = [send(row, rank) for rank in others]
    exchange(messages + [recv(room, rank) for rank, room in zip(others, rooms, strict=True)], group=group)
    for room in rooms:
        row[:] = torch.where(room.abs() > row.abs(), room, row)


def leaves_a_group(me, tensor, group=None):
    dist.new_group(list(range(me.world_size)))
    return best(me, tensor, group)


def in_a_thread_left_running(me, tensor, group=None):
    worker = threading.Thread(target=best, args=(me, tensor, group))
    worker.start()
    return tensor


def wrong_neighbour(row, ranks, at, group):
    n = len(ranks)
    parts = row.tensor_split(n)
    for step in range(n - 1):
        mine = parts[(at - step) % n]
        arrived = torch.zeros(max(map(len, parts)), dtype=row.dtype)[: len(mine)]
        exchange([send(parts[(at - step) % n], ranks[(at + 1) % n]), recv(arrived, ranks[at - 1])], group=group)
        mine += arrived


def halves_by_bits(row, ranks, at, group):
    """As many bytes as a ring with two ranks, and more with three."""
    doubling(row, ranks, at, group)


def two_buffers(row, ranks, at, group):
    copy = torch.empty_like(row)
    del copy
    ring(row, ranks, at, group)


def small_is_what_has_few_numbers(me, tensor, group=None):
    ranks = members(me, group)
    row = tensor.contiguous().view(-1)
    if len(ranks) > 1:
        (tree if row.numel() <= 250 else ring)(row, ranks, ranks.index(me.rank), group)
    if not tensor.is_contiguous():
        tensor.copy_(row.view(tensor.shape))
    return tensor


def pairs_in_turn(row, ranks, at, group):
    """Every rank meets every other, in rounds: few rounds, n - 1 messages."""
    own, room = row.clone(), torch.empty_like(row)
    for other in range(len(ranks)):
        if other != at:
            exchange([send(own, ranks[other]), recv(room, ranks[other])], group=group)
            row += room


def group_ranks_for_peers(me, tensor, group=None):
    """Positions in the group taken for numbers of ranks."""
    if group is None:
        return best(me, tensor)
    n, at = dist.get_world_size(group), dist.get_rank(group)
    row = tensor.contiguous().view(-1)
    if n > 1:
        parts, room = row.tensor_split(n), torch.empty_like(row.tensor_split(n)[0])
        for step in range(2 * n - 2):
            give, take = parts[(at - step) % n], parts[(at - step - 1) % n]
            arrived = room[: len(take)] if step < n - 1 else take
            exchange([send(give, (at + 1) % n), recv(arrived, (at - 1) % n)], group=group)
            if step < n - 1:
                take += arrived
    return tensor


def sorted_members(me, tensor, group=None):
    """Right all the same: a sum has no order."""
    ranks = sorted(members(me, group))
    row = tensor.contiguous().view(-1)
    if len(ranks) > 1:
        (doubling if row.nbytes <= SMALL_BYTES else ring)(row, ranks, ranks.index(me.rank), group)
    if not tensor.is_contiguous():
        tensor.copy_(row.view(tensor.shape))
    return tensor


def ring_of_the_world(row, ranks, at, group):
    """Everybody helps: the ranks outside are waited for."""
    everybody = list(range(dist.get_world_size()))
    ring(row, everybody, everybody.index(dist.get_rank()), None)


def gathers_in_groups(me, tensor, group=None):
    return (best if group is None else in_place(gathered))(me, tensor, group)


def bfloat16_as_float32(row, ranks, at, group):
    wide = row.float() if row.dtype == torch.bfloat16 else row
    ring(wide, ranks, at, group)
    row.copy_(wide)


def turns_by_a_counter():
    """The ring is turned about with every call, by a number that each rank counts for itself."""
    turns = [0]

    def counted(me, tensor, group=None):
        turns[0] += 1
        ranks = members(me, group)[:: 1 if turns[0] % 2 else -1]
        row = tensor.contiguous().view(-1)
        if len(ranks) > 1:
            (tree if row.nbytes <= SMALL_BYTES else ring)(row, ranks, ranks.index(me.rank), group)
        if not tensor.is_contiguous():
            tensor.copy_(row.view(tensor.shape))
        return tensor

    return counted


def way_of_the_first_call():
    way = []

    def chosen_once(me, tensor, group=None):
        ranks = members(me, group)
        row = tensor.contiguous().view(-1)
        if len(ranks) > 1:
            way.append(tree if row.nbytes <= SMALL_BYTES else ring)
            way[0](row, ranks, ranks.index(me.rank), group)
        if not tensor.is_contiguous():
            tensor.copy_(row.view(tensor.shape))
        return tensor

    return chosen_once


NOT_YET, RAISED, BAD_CALL = "not yet", "raised", "forbidden"
STRANGERS = [  # the step it is handed in at, the answer, the verdict, the mistake (None: any), why
    (1, keeps_sums_by_shape, NOT_YET, None, "240 other numbers get the sum of the first 240"),
    (1, keeps_in_a_default, NOT_YET, None, "the same in a default argument"),
    (1, keeps_the_first_rooms, NOT_YET, None, "a buffer that is added to from call to call"),
    (1, with_a_barrier, BAD_CALL, None, "a barrier is a collective"),
    (1, by_pytorch, BAD_CALL, None, "what is to be written"),
    (1, by_reduce_and_broadcast, BAD_CALL, None, "the same from two collectives"),
    (1, by_getattr, BAD_CALL, None, "its name put together"),
    (1, by_the_course, BAD_CALL, None, "the course's own"),
    (1, as_objects, BAD_CALL, None, "by pickled objects"),
    (1, in_place(sleeps_for_a_wait), NOT_YET, "not-waited-for", "sleep for wait"),
    (1, in_place(adds_while_it_sends), NOT_YET, None, "partial sums are sent on"),
    (1, in_place(never_received), RAISED, "", "half of the messages have no receiver"),
    (1, not_for_nothing, RAISED, "", "an empty tensor has a sum"),
    (1, none_for_nothing, NOT_YET, "returns-another", "None for an empty tensor"),
    (1, not_for_complex, RAISED, "", "complex numbers are refused"),
    (1, real_parts_alone, NOT_YET, "", "the imaginary parts are lost"),
    (1, not_for_bfloat16, RAISED, "", "bfloat16 is refused"),
    (1, not_for_one_rank, RAISED, "", "a message to itself"),
    (1, in_place(for_powers_of_two), RAISED, "", "three ranks have no partner each"),
    (1, spoils_what_is_around, NOT_YET, "", "the columns between are set to zero"),
    (1, in_place(max_instead), NOT_YET, "", "the largest instead of the sum"),
    (1, leaves_a_group, NOT_YET, "", "a process group is left"),
    (1, in_a_thread_left_running, None, None, "a thread still runs when it returns"),
    (1, in_place(wrong_neighbour), NOT_YET, "", "the part that was sent is the one that is added to"),
    (2, in_place(halves_by_bits), NOT_YET, "whole-tensors", "whole tensors in log2 n rounds"),
    (2, with_an_extra_message, NOT_YET, "", "a number more than the parts"),
    (2, in_place(bfloat16_as_float32, doubling), NOT_YET, "in-a-wider-dtype", "a large tensor of bfloat16 as float32"),
    (3, in_place(two_buffers, doubling), NOT_YET, "a-second-tensor", "a buffer that is given back is held once"),
    (4, in_place(ring, pairs_in_turn), NOT_YET, "to-everybody-at-once", "n - 1 messages a rank"),
    (4, small_is_what_has_few_numbers, NOT_YET, "whole-tensors", "240 numbers of 8 bytes are no small tensor"),
    (5, group_ranks_for_peers, RAISED, "", "positions are no ranks"),
    (5, turns_by_a_counter(), NOT_YET, "kept-from-a-call-before", "ranks of a pair have counted further"),
    (5, way_of_the_first_call(), NOT_YET, "kept-from-a-call-before", "the first size chooses for all"),
    (5, sorted_members, "passed", "", "a sum has no order"),
    (5, in_place(ring_of_the_world, doubling), NOT_YET, "the-whole-world", "ranks outside of the group are waited for"),
    (5, gathers_in_groups, NOT_YET, "gathers-everything", "in a group as many bytes as before"),
]


def rows_of_step(level):
    """The table of a step: right ones, a row for each mistake that it knows, and what strangers handed in."""
    rows = [Row(answer=answer, verdict="passed", why=name) for name, (upto, answer) in RIGHT.items() if upto >= level]
    for at, found in MISTAKES.items():
        if at <= level:
            rows += [
                Row(answer=answer, verdict="not yet", mistake=name, why=name, long=at < level)
                for name, answer in found.items()
            ]
    rows += [
        Row(answer=answer, verdict=verdict, mistake=mistake, why=why, long=True)
        for at, answer, verdict, mistake, why in STRANGERS
        if at == level and verdict is not None
    ]
    return rows
