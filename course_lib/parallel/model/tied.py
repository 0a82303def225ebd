"""Tied parameters of a model that is cut: a copy on each rank that uses it, kept equal by adding up gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members, in_one_piece

__all__ = ["TiedParameters", "check_tied"]


def check_tied(me: Rank, among: Members, strategy: str, parts: Sequence[nn.Module], owners: Sequence[int]) -> None:
    """Raise ``ValueError`` on all ranks ``among``, where the parts of one of them have other weights in common.

    Copies of a weight that begin apart get the same gradients, and stay apart. Every rank has made all parts, so each
    can tell of what it will not hold.
    """
    from course_lib.parallel.data.replica_check import check_replicas  # whoever reads a pipeline need not read it

    places: dict[nn.Parameter, dict[str, int]] = {}  # of each parameter its names, and the ranks that hold them
    for number, (part, owner) in enumerate(zip(parts, owners, strict=True)):
        for name, parameter in part.named_parameters():
            places.setdefault(parameter, {})[f"{number}.{name}"] = owner
    tied = {" = ".join(names): p for p, names in places.items() if len({*names.values()}) > 1}
    check_replicas(me, among, strategy, tied)


class TiedParameters:
    """The parameters that this rank shares with others, such as an embedding used again in the head.

    ``parts[i]`` is a piece of the model and ``owners[i]`` the rank that holds it; all ranks make the same parts from
    the same seed, and ``check_tied`` has them compare what is tied. A parameter in two parts of one rank is one
    tensor, and autograd adds up its gradients itself. What is remembered are names: a part whose parameters become
    shards later has the gradients of shards added up.

    What has been added up is the same on all ranks, and must not be added up again with what later backwards add to it:
    it is *set aside* before those, and added once, after. ``of_one_batch`` does so around a batch, and ``watch`` has
    autograd say when a backward begins to add.
    """

    def __init__(self, rank: int, parts: Sequence[nn.Module], owners: Sequence[int]) -> None:
        holders: dict[nn.Parameter, set[int]] = {}
        mine: dict[nn.Parameter, tuple[nn.Module, str]] = {}  # in which part of this rank, and its name there
        for part, owner in zip(parts, owners, strict=True):
            for name, parameter in part.named_parameters():
                holders.setdefault(parameter, set()).add(owner)
                if owner == rank:
                    mine.setdefault(parameter, (part, name))
        self._rank = rank
        self._shared = [(*mine[p], sorted(ranks)) for p, ranks in holders.items() if p in mine and len(ranks) > 1]
        self._is_sum: set[int] = set()  # whose gradient, by its number in ``_shared``, is a sum over all copies
        self._stashed: dict[int, Tensor] = {}  # such sums, while further gradients come

    def sum_gradients(self) -> None:
        """After backward, before the step: each copy gets the sum of the gradients of all copies.

        One message each way between every two ranks that hold a copy. Copies that were equal at the start stay so to
        the last bit, because all ranks add up in the same order.
        """
        for number, (part, name, ranks) in enumerate(self._shared):
            parameter = part.get_parameter(name)
            if not parameter.requires_grad:  # on all ranks alike
                continue
            if number in self._is_sum:  # nothing has come since
                self._stash(number)
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            mine = in_one_piece(gradient)
            by_rank = {r: mine if r == self._rank else mine.new_empty(mine.shape) for r in ranks}
            others = [rank for rank in ranks if rank != self._rank]
            exchange([send(mine, rank) for rank in others] + [recv(by_rank[rank], rank) for rank in others])
            parameter.grad = torch.stack([by_rank[rank] for rank in ranks]).sum(0)
            self._add_again(number)
            self._is_sum.add(number)

    @contextlib.contextmanager
    def of_one_batch(self) -> Iterator[None]:
        """In this block gradients of one batch come, and at its end they are added up over the copies."""
        numbers = range(len(self._shared))
        for number in numbers:
            self._stash(number)
        try:
            yield
            self.sum_gradients()
        finally:
            for number in numbers:  # where the batch has failed
                self._add_again(number)

    def watch(self) -> None:
        """Set sums aside when the next backward adds to them, for ranks that call ``sum_gradients`` by themselves."""
        for number, (part, name, _) in enumerate(self._shared):
            parameter = part.get_parameter(name)
            if parameter.requires_grad:
                parameter.register_hook(partial(self._on_gradient, number))

    def _on_gradient(self, number: int, _gradient: Any) -> None:
        if number in self._is_sum:
            self._stash(number)

    def _stash(self, number: int) -> None:
        part, name, _ = self._shared[number]
        parameter = part.get_parameter(name)
        self._is_sum.discard(number)
        if parameter.grad is not None:
            self._stashed[number], parameter.grad = parameter.grad, None

    def _add_again(self, number: int) -> None:
        before = self._stashed.pop(number, None)
        if before is not None:
            part, name, _ = self._shared[number]
            parameter = part.get_parameter(name)
            parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
