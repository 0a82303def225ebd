"""Reduce-scatters that overlap with backward, and what has to be checked at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.parallel.collectives.dim_collectives import start_all_reduce
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.at_rest import ShardedParameter
from course_lib.parallel.sharded.prefetch_order import Passed
from course_lib.parallel.sharded.unit import Unit

__all__ = ["Reduction"]

_MAX_IN_FLIGHT = 1  # each holds a unit's whole gradients until it is done


class Reduction:
    """From unsharded gradients on every rank to means over all ranks, each rank its own rows.

    With ``replicas`` (hybrid sharding) the rows are summed over those ranks too, by an all-reduce of a shard.
    """

    def __init__(
        self, members: Members, replicas: Members | None, units: Sequence[Unit], find_unused_parameters: bool
    ) -> None:
        self.members, self.replicas, self.units = members, replicas, units
        self.num_ranks = members.count * (replicas.count if replicas else 1)
        self.find_unused_parameters = find_unused_parameters
        self._scattering: list[tuple[Unit, Callable[[], Tensor]]] = []
        self._averaging: list[tuple[Unit, Callable[[], Tensor]]] = []
        self._used: set[ShardedParameter] = set()
        self._without: set[ShardedParameter] = set()  # those that had no gradient before this backward

    def begin(self) -> None:
        """A backward begins; what a failed one has left is dropped."""
        for _, finish in (*self._scattering, *self._averaging):
            finish()
        self._scattering, self._averaging = [], []
        self._without = {p for unit in self.units for p in unit.parameters if p.shard.grad is None}

    def start(self, unit: Unit, gradients: Sequence[Tensor | None]) -> None:
        """Start to send a unit's gradients; ``None`` stands for a weight that was not used."""
        while len(self._scattering) >= _MAX_IN_FLIGHT:
            self._land()
        self._used |= {p for p, g in zip(unit.parameters, gradients, strict=True) if g is not None}
        self._used |= {p for p, g in zip(unit.parameters, unit.deferred, strict=False) if g is not None}
        self._scattering.append((unit, unit.start_reduction(gradients)))

    def _land(self) -> None:
        """Wait for the oldest reduce-scatter."""
        unit, finish = self._scattering.pop(0)
        flat = finish()  # (K,)
        if self.replicas is None:
            unit.accumulate(flat.div_(self.num_ranks))
        else:
            self._averaging.append((unit, start_all_reduce(self.replicas, flat)))

    def finish(self, passed: Passed) -> list[str]:
        """Wait for all. Returns the parameters that have got no gradient on this rank where that is not allowed."""
        while self._scattering:
            self._land()
        for unit, finish in self._averaging:
            unit.accumulate(finish().div_(self.num_ranks))
        self._averaging = []
        trained = [p for unit in self.units for p in unit.parameters if p.shard.requires_grad]
        used, self._used = self._used, set()
        if self.find_unused_parameters:
            num_users = self.compare(passed, [parameter in used for parameter in trained])
            for parameter, users in zip(trained, num_users, strict=True):
                if users == 0 and parameter in self._without:
                    parameter.shard.grad = None
            return []
        return [p.name for p in trained if p not in used]

    def compare(self, passed: Passed, numbers: Sequence[int] = ()) -> list[int]:
        """Sums over ranks of ``numbers``. ``RuntimeError`` on all ranks where they have used different units."""
        sums = torch.tensor([*passed.numbers(), *numbers], device=self.units[0].parameters[0].shard.device)
        dist.all_reduce(sums, group=self.members.group)
        if self.replicas:
            dist.all_reduce(sums, group=self.replicas.group)
        of_passed, of_numbers = sums.tolist()[:2], sums.tolist()[2:]
        passed.check(of_passed, self.num_ranks)
        return of_numbers
