"""Right answers of other styles than the reference solutions: a judge that refuses one of them is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.cluster.base.point_to_point import exchange, recv, send

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]


def ring_the_other_way(me: Any, tensor: Tensor) -> Tensor:
    """Against the clock, beginning with another part."""
    n = me.world_size
    parts = tensor.tensor_split(n)
    for step in range(n - 1):
        mine = parts[(me.rank + step + 2) % n]
        arrived = torch.empty_like(mine)
        exchange([recv(arrived, (me.rank + 1) % n), send(parts[(me.rank + step + 1) % n], (me.rank - 1) % n)])
        mine += arrived
    for step in range(n - 1):
        give, room = parts[(me.rank + step) % n], parts[(me.rank + step + 1) % n]
        exchange([send(give, (me.rank - 1) % n), recv(room, (me.rank + 1) % n)])
    return tensor


def ring_with_pytorchs_messages(me: Any, tensor: Tensor) -> Tensor:
    """PyTorch's own messages, started one by one; both laps in one loop."""
    n = me.world_size
    parts = tensor.tensor_split(n)
    for step in range(2 * (n - 1)):
        give, take = parts[(me.rank - step) % n], parts[(me.rank - step - 1) % n]
        arrived = torch.zeros_like(take)
        works = [dist.irecv(arrived, (me.rank - 1) % n), dist.isend(give, (me.rank + 1) % n)]
        for work in works:
            assert work is not None
            work.wait()
        torch.add(take, arrived, out=take) if step < n - 1 else take.copy_(arrived)
    return tensor


class Ring:
    """A class: a step is a method, the parts are found by their offsets, a batch of P2POp is the exchange."""

    def __call__(self, me: Any, tensor: Tensor) -> Tensor:
        self.n, self.rank, self.tensor = me.world_size, me.rank, tensor
        size, rest = divmod(len(tensor), self.n)
        self.sizes = [size + (part < rest) for part in range(self.n)]
        for step in range(self.n - 1):
            self.part(self.rank - step - 1).add_(self.step(step))
        for step in range(self.n - 1):
            self.part(self.rank - step)[:] = self.step(step - 1)
        return tensor

    def part(self, number: int) -> Tensor:
        start = sum(self.sizes[: number % self.n])
        return self.tensor[start : start + self.sizes[number % self.n]]

    def step(self, step: int) -> Tensor:
        arrived = torch.empty_like(self.part(self.rank - step - 1))
        messages = [
            dist.P2POp(dist.isend, self.part(self.rank - step), (self.rank + 1) % self.n),
            dist.P2POp(dist.irecv, arrived, (self.rank - 1) % self.n),
        ]
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        return arrived


def ring_in_turns(me: Any, tensor: Tensor) -> Tensor:
    """Blocking messages: even ranks send first and odd ones receive first, so that nobody waits in a circle."""
    n, parts = me.world_size, list(tensor.tensor_split(me.world_size))

    def passed_on(give: Tensor, room: Tensor) -> Tensor:
        halves: list[Callable[[], Any]] = [
            lambda: dist.send(give, (me.rank + 1) % n),
            lambda: dist.recv(room, (me.rank - 1) % n),
        ]
        for half in halves if me.rank % 2 == 0 else reversed(halves):
            half()
        return room

    for step in range(n - 1):
        mine = parts[me.rank - step - 1]
        mine += passed_on(parts[me.rank - step], torch.empty_like(mine))
    for step in range(n - 1):
        passed_on(parts[(me.rank - step + 1) % n], parts[me.rank - step])
    return tensor


def ring_padded(me: Any, tensor: Tensor) -> Tensor:
    """A matrix of parts, filled up with zeros, so that all messages are of one size."""
    n = me.world_size
    rows = torch.nn.functional.pad(tensor, (0, -len(tensor) % n)).view(n, -1)
    arrived = torch.empty_like(rows[0])
    for step in range(2 * n - 2):
        row = (me.rank - step - 1) % n
        exchange([send(rows[row - n + 1], (me.rank + 1) % n), recv(arrived, (me.rank - 1) % n)])
        rows[row] = arrived + rows[row] * (step < n - 1)
    return tensor.copy_(rows.flatten()[: len(tensor)])


def tree_of_halves(me: Any, tensor: Tensor) -> Tensor:
    """The root sends to the middle first, then each half has a root of its own."""
    start, end = 0, me.world_size
    while end - start > 1:
        middle = start + (end - start + 1) // 2
        if me.rank == start:
            exchange([send(tensor, middle)])
        elif me.rank == middle:
            exchange([recv(tensor, start)])
        start, end = (start, middle) if me.rank < middle else (middle, end)
    return tensor


def tree_by_recursion(me: Any, tensor: Tensor) -> Tensor:
    """Recursion over halves of a list of ranks, with blocking messages of PyTorch's own."""

    def deal(ranks: list[int]) -> None:
        if len(ranks) < 2:
            return
        near, far = ranks[: len(ranks) // 2], ranks[len(ranks) // 2 :]
        if len(near) < len(far):
            near, far = ranks[: len(far)], ranks[len(far) :]
        if me.rank == near[0]:
            dist.send(tensor, far[0])
        if me.rank == far[0]:
            dist.recv(tensor, near[0])
        deal(near if me.rank in near else far)

    deal(list(range(me.world_size)))
    return tensor


def tree_by_bits(me: Any, tensor: Tensor) -> Tensor:
    """By the bits of the rank: the highest bit names the parent, every higher one a child; no rounds in the code."""
    if me.rank:
        exchange([recv(tensor, me.rank - (1 << (me.rank.bit_length() - 1)))])
    children = (me.rank + (1 << bit) for bit in range(me.rank.bit_length(), me.world_size.bit_length()))
    for child in children:
        if child < me.world_size:
            exchange([send(tensor, child)])
    return tensor


def tree_by_plan(me: Any, tensor: Tensor) -> Tensor:
    """First a plan of all rounds as pairs, then this rank's part of it, by messages that are waited for at the end."""

    def plan() -> Iterator[list[tuple[int, int]]]:
        for number in range(math.ceil(math.log2(me.world_size))):
            yield [(r, r + 2**number) for r in range(2**number) if r + 2**number < me.world_size]

    works = []
    for pairs in plan():
        for source, target in pairs:
            if me.rank == target:
                exchange([recv(tensor, source)])
            elif me.rank == source:
                works.append(dist.isend(tensor, target))
    for work in works:
        assert work is not None
        work.wait()
    return tensor


def shift_taking_turns(me: Any, mine: Tensor) -> Tensor:
    """Slowly: rank 0 receives first, and so breaks the circle."""
    theirs, n = torch.empty_like(mine), me.world_size
    first, then = send(mine, (me.rank + 1) % n), recv(theirs, (me.rank - 1) % n)
    for message in (then, first) if me.rank == 0 else (first, then):
        exchange([message])
    return theirs


def shift_with_works(me: Any, mine: Tensor) -> Tensor:
    """A send in the background around a receive that blocks."""
    theirs = torch.zeros(mine.shape, dtype=mine.dtype, device=mine.device)
    work = dist.isend(mine, dst=(me.rank + 1) % me.world_size)
    dist.recv(theirs, src=(me.rank - 1) % me.world_size)
    assert work is not None
    work.wait()
    return theirs


def shift_in_a_batch(me: Any, mine: Tensor) -> Tensor:
    """PyTorch's batch, of a copy of the tensor."""
    theirs, n = mine.clone(), me.world_size
    give = dist.P2POp(dist.isend, mine.clone(), (me.rank + 1) % n)
    take = dist.P2POp(dist.irecv, theirs, me.rank - 1 if me.rank else n - 1)
    assert all(work.wait() for work in dist.batch_isend_irecv([take, give]))
    return theirs


def shift_as_numpy(me: Any, mine: Tensor) -> Any:
    """The result as an array of NumPy."""
    theirs = torch.empty_like(mine)
    ring = [*range(me.world_size)] * 2
    exchange([recv(theirs, ring[me.rank - 1]), send(mine, ring[me.rank + 1])])
    return theirs.cpu().numpy()


RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "02.ring": (ring_the_other_way, ring_with_pytorchs_messages, Ring(), ring_in_turns, ring_padded),
    "02.tree": (tree_of_halves, tree_by_recursion, tree_by_bits, tree_by_plan),
    "02.shift": (shift_taking_turns, shift_with_works, shift_in_a_batch, shift_as_numpy),
}

_NO_NUMBERS = "no page hands over a tensor without numbers, and what ranks hold in common has some"
_NO_GRADIENT = "no page hands over a tensor that asks for a gradient; a message carries numbers, and no history"
_IN_ORDER = "the solution fails there as well: gloo takes no tensor that does not lie in memory in its own order"

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "02.ring": {
        "fails-where-nothing-is-to-do": _NO_NUMBERS,
        "only-without-requires-grad": _NO_GRADIENT,
    },
    "02.tree": {
        "fails-where-nothing-is-to-do": _NO_NUMBERS,
        "only-contiguous": _IN_ORDER,
        "only-without-requires-grad": _NO_GRADIENT,
    },
    "02.shift": {
        "fails-on-one-rank": "the solution fails there as well: gloo has no message from a rank to itself",
        "fails-where-nothing-is-to-do": _NO_NUMBERS,
        "only-contiguous": _IN_ORDER,
        "only-without-requires-grad": _NO_GRADIENT,
    },
}

_FROM_THE_END = "the number is between -n and n - 1, and Python counts a negative one from the end: it is the same part"

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "02.ring": {
        "3: `(me.rank - step - 1) % n` -> `me.rank - step - 1`": _FROM_THE_END,
        "5: `(me.rank - step) % n` -> `me.rank - step`": _FROM_THE_END,
        "8: `(me.rank - step) % n` -> `me.rank - step`": _FROM_THE_END,
    },
    "02.tree": {
        "8: `reach *= 2` -> a new name for a new value": "a number cannot be changed in place: either way the "
        "name has a new number",
        "2: `reach < me.world_size` -> `reach <= me.world_size`": "the loop goes round once more only when `reach` is "
        "the number of ranks, and then no rank is as far away as that: nobody sends or receives",
    },
    "02.shift": {
        "1: `theirs = torch.empty_like(mine)` after `after, before = ((me.rank + 1) % me.world_size, (me.rank - 1) % "
        "me.world_size)`": "neither line uses what the other makes",
    },
}
