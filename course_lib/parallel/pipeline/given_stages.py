"""A schedule executed by ranks that are given their own stages alone, and the shapes of what enters the others.

``Pipeline`` is given the whole model on every rank, and finds out by a first message what shapes travel. Here each
rank is given its stages, and a function that makes room for what enters a stage: nothing but activations and gradients
is sent. It is the interface of the runtime that a learner builds in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.model.stage_p2p import TensorSpec
from course_lib.parallel.pipeline.batch_run import BatchRun
from course_lib.parallel.pipeline.comm_plan import moves_of
from course_lib.parallel.pipeline.stage_run import StageRun
from course_lib.schedules.table import Schedule
from course_lib.schedules.validation import check

__all__ = ["GivenStages"]

Tie = Sequence[tuple[int, str]]


class GivenStages:
    """The stages of this rank, by number, under a schedule for all ranks of ``me``'s world.

    ``loss_of(output, target)`` is the mean over the samples of a micro-batch; ``room(stage, i)`` makes a tensor of the
    shape and dtype of what enters a stage for micro-batch i, stage 0 excepted. A tie names the places of one parameter,
    ``((0, "weight"), (3, "weight"))``: copies on several ranks get the sum of their gradients, and places on one rank
    are one object. Raises ValueError for a schedule that cannot run, and for stages that are not this rank's.
    """

    def __init__(
        self,
        me: Rank,
        stages: Mapping[int, nn.Module],
        schedule: Schedule,
        loss_of: Callable[[Tensor, Tensor], Tensor],
        room: Callable[[int, int], Tensor],
        ties: Sequence[Tie] = (),
    ) -> None:
        due = check(schedule).stages_of_rank[me.rank]
        if tuple(sorted(stages)) != due:
            raise ValueError(
                f"rank {me.rank} was given the stages {sorted(stages)}, and the schedule {schedule.name!r} gives it "
                f"{list(due)}; give it these."
            )
        self.me, self.stages, self.schedule, self.loss_of, self.ties = me, dict(stages), schedule, loss_of, ties
        self._moves = moves_of(schedule.one_by_one(), me.rank, early=me.backend == "gloo")
        self._specs = {
            (stage - 1, i): _spec_of(room(stage, i))
            for stage in range(1, schedule.num_stages)
            for i in range(schedule.num_micro_batches)
        }

    @torch.enable_grad()
    def step(self, inputs: Sequence[Tensor] | None = None, targets: Sequence[Tensor] | None = None) -> Tensor | None:
        """One batch, forward and backward: adds to the gradients of this rank's parameters.

        ``inputs`` are those of stage 0, a tensor for each micro-batch, (rows, ...), on the rank that holds it;
        ``targets`` those of the last stage, on its rank, which gets the batch's mean loss, (); the others get None.
        """
        runs = {
            number: StageRun(number, stage, self.loss_of, with_backward=True) for number, stage in self.stages.items()
        }
        if 0 in runs:
            runs[0].inputs = dict(enumerate(self._needed(inputs, "inputs")))
        last = runs.get(self.schedule.num_stages - 1)
        if last is not None:
            last.targets = self._needed(targets, "targets")
        tied = list(self._tied())
        before = [weight.grad for weight, _ in tied]
        for weight, _ in tied:
            weight.grad = None
        BatchRun(self.me, range(self.schedule.num_ranks), runs, self._specs).go(self._moves)
        for (weight, others), grad in zip(tied, before, strict=True):
            _add_copies(weight, others, grad)
        return None if last is None else torch.stack(last.losses).sum()

    def _needed(self, parts: Sequence[Tensor] | None, name: str) -> Sequence[Tensor]:
        """Raise ValueError for micro-batches that are not as many as the schedule's."""
        due = self.schedule.num_micro_batches
        if parts is None or len(parts) != due:
            given = "None" if parts is None else f"{len(parts)} micro-batches"
            raise ValueError(f"rank {self.me.rank} was given {given} as {name}; the schedule has {due}, so give {due}.")
        return parts

    def _tied(self) -> Iterator[tuple[nn.Parameter, list[int]]]:
        """This rank's copies that learn, each with the other ranks that have one."""
        for places in self.ties:
            ranks = {self.schedule.rank_of_stage[stage] for stage, _ in places} - {self.me.rank}
            own = [self.stages[stage].get_parameter(name) for stage, name in places if stage in self.stages]
            if own and ranks and own[0].requires_grad:
                yield own[0], sorted(ranks)


def _add_copies(weight: nn.Parameter, others: Sequence[int], before: Tensor | None) -> None:
    """Make the gradient of this batch the sum over all copies, and add what was there before it."""
    own = torch.zeros_like(weight) if weight.grad is None else weight.grad.contiguous()
    came = [torch.empty_like(own) for _ in others]
    sends = [send(own, rank) for rank in others]
    exchange([*sends, *(recv(room, rank) for room, rank in zip(came, others, strict=True))])
    whole = torch.stack([own, *came]).sum(0)
    weight.grad = whole if before is None else before.add_(whole)


def _spec_of(room: Tensor) -> TensorSpec:
    return TensorSpec(tuple(room.shape), room.dtype, True)
