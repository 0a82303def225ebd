"""Gradients on their way: reduce-scatters that run beside backward, and what has to be said about them at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from course_lib.parallel.collectives.dim_collectives import start_all_reduce
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.sharded.unit import ShardedParameter, Unit

__all__ = ["Reduction"]

_MOST_UNDER_WAY = 1  # each holds a unit's whole gradients until it is done


class Reduction:
    """From whole gradients on every rank to means over all ranks, each rank its own rows.

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
        """Send a unit's gradients on their way; ``None`` stands for a weight that was not used."""
        while len(self._scattering) >= _MOST_UNDER_WAY:
            self._land()
        self._used |= {p for p, g in zip(unit.parameters, gradients, strict=True) if g is not None}
        self._used |= {p for p, g in zip(unit.parameters, unit.held_back, strict=False) if g is not None}
        self._scattering.append((unit, unit.start_reduction(gradients)))

    def _land(self) -> None:
        """Wait for the oldest reduce-scatter."""
        unit, finish = self._scattering.pop(0)
        flat = finish()  # (K,)
        if self.replicas is None:
            unit.accumulate(flat.div_(self.num_ranks))
        else:
            self._averaging.append((unit, start_all_reduce(self.replicas, flat)))

    def finish(self) -> None:
        """Wait for all. ``RuntimeError`` where a parameter has got no gradient on this rank, and that is not
        allowed."""
        while self._scattering:
            self._land()
        for unit, finish in self._averaging:
            unit.accumulate(finish().div_(self.num_ranks))
        self._averaging = []
        trained = [p for unit in self.units for p in unit.parameters if p.shard.requires_grad]
        used, self._used = self._used, set()
        if self.find_unused_parameters:
            for parameter in self._used_nowhere(trained, used):
                if parameter in self._without:
                    parameter.shard.grad = None
            return
        if missing := [p.name for p in trained if p not in used]:
            raise RuntimeError(
                f"{', '.join(missing)} got no gradient in this backward, on this rank. If another rank has one, ranks "
                "would not agree about it. Use every parameter in the loss, or pass find_unused_parameters=True."
            )

    def _used_nowhere(
        self, trained: Sequence[ShardedParameter], used: set[ShardedParameter]
    ) -> list[ShardedParameter]:
        is_used = [parameter in used for parameter in trained]
        num_users = torch.tensor(is_used, dtype=torch.int32, device=trained[0].shard.device)
        dist.all_reduce(num_users, group=self.members.group)
        if self.replicas:
            dist.all_reduce(num_users, group=self.replicas.group)
        return [p for p, users in zip(trained, num_users.tolist(), strict=True) if users == 0]
