"""A pipeline at work: any valid schedule, executed by real ranks.

A schedule is data, and nothing here knows one from another. To read on: ``batch_run.py`` has the loop over a row of
the schedule, ``stage_run.py`` what one stage does with one micro-batch, ``shapes.py`` what is found out before.

In production use ``torch.distributed.pipelining``, with which the tests and ``course bench pipeline`` compare this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.collectives.members import Members
from course_lib.parallel.collectives.parts import HoldsParts, stage_is_part
from course_lib.parallel.model.stage_p2p import TensorSpec
from course_lib.parallel.model.tied import TiedParameters, check_tied
from course_lib.parallel.pipeline.batch_run import BatchRun
from course_lib.parallel.pipeline.comm_plan import moves_of
from course_lib.parallel.pipeline.shapes import find_shapes
from course_lib.parallel.pipeline.stage_run import StageRun
from course_lib.parallel.pipeline.wrapped import gradients_sent_once, refuse_to_wrap
from course_lib.schedules.table import Schedule
from course_lib.schedules.trace import ActionSpan
from course_lib.schedules.validation import check

__all__ = ["Pipeline"]

Loss = Callable[[Tensor, Tensor], Tensor]


class _Stages(HoldsParts, nn.ModuleDict):
    """This rank's, by their numbers; a copy of them is as much a part."""


class Pipeline:
    """The stages of a model on the ranks of a schedule; this rank holds those that the schedule gives it.

    ``stages`` is the whole model cut in ``schedule.num_stages`` modules, each of which takes the one tensor that the
    one before it gave; every rank makes the same ones, from the same seed, and keeps its own. Weights that stages share
    are compared, once::

        pipeline = Pipeline(me, cut(model, ranges), one_f_one_b(me.world_size, 8), loss_of)
        optimizer = torch.optim.AdamW(pipeline.parameters())
        for x, y in batches:
            loss = pipeline.step(x, y)      # gradients as of one backward over the whole batch
            optimizer.step()
            optimizer.zero_grad()

    ``loss_of(output, target)`` is the *mean* over the samples of a micro-batch. One that divides by something else,
    such as the tokens that are no padding, is averaged wrongly where micro-batches differ in it. ``ranks[r]`` is the
    global rank that plays rank r of the schedule (default: itself), so that several pipelines can run side by side.

    Two actions that overlap (``F&B``) run one after the other, as PyTorch's runtime has it. With ``overlap=True`` they
    run at the same time, the backward in a thread of its own, on the forward's stream of a GPU. It is for stages that
    wait inside of a forward or a backward, and not for those whose backward draws random numbers, as one that computes
    activations again does where there is dropout: the forward beside it draws from the same generator.

    What a pipeline changes: BatchNorm sees micro-batches, as with accumulation, and its running statistics move once
    for each; dropout draws its numbers on each rank for itself; a stage must not change its input in place, which
    begins a graph of its own there.

    ``wrap`` makes of a stage what runs in its place, such as ``FullySharded``. One that can hold gradients back
    (``no_sync``) does so until the batch is over, and sends them once. It needs whole backwards, one at a time.

    Raises ValueError for a schedule that cannot run (``validate`` says why), for stages or ranks that are not as many
    as the schedule's, for shared weights that differ between ranks, and in ``step`` for fewer samples than
    micro-batches; ``StageFailed`` for what a stage raises.
    """

    def __init__(
        self,
        me: Rank,
        stages: Sequence[nn.Module],
        schedule: Schedule,
        loss_of: Loss,
        *,
        ranks: Sequence[int] | None = None,
        overlap: bool = False,
        wrap: Callable[[nn.Module], nn.Module] | None = None,
    ) -> None:
        self.ranks = tuple(range(me.world_size) if ranks is None else ranks)
        self._refuse_strays(me, len(stages), schedule)
        self.me, self.schedule, self.loss_of = me, check(schedule), loss_of
        self.rank = self.ranks.index(me.rank)  # in the schedule
        owners = [self.ranks[rank] for rank in schedule.rank_of_stage]
        among = Members(self.rank, self.ranks, None)
        check_tied(me, among, type(self).__name__, stages, owners)
        self.ties = TiedParameters(me.rank, stages, owners)
        mine = schedule.stages_of_rank[self.rank]
        own = [stages[stage].to(me.device) for stage in mine]
        for stage in own:
            stage_is_part(stage, type(self).__name__, among)
        if wrap is not None:
            refuse_to_wrap(own, schedule, overlap=overlap)
            own = [wrap(stage) for stage in own]
        self.stages = _Stages({str(number): stage for number, stage in zip(mine, own, strict=True)})
        # Of the last batch: when each action ran, on the host's clock ``time.perf_counter``.
        self.spans: list[ActionSpan] = []
        # Of the last step, by stage: the most micro-batches in flight, whose activations were kept, at a time.
        self.peak_in_flight: dict[int, int] = {}
        early = me.backend == "gloo"  # see comm_plan.py
        # By whether there is a backward: what this rank does, and the shapes that travel.
        self._moves = {
            True: moves_of(schedule if overlap else schedule.one_by_one(), self.rank, early=early),
            False: moves_of(schedule.forward_only(), self.rank, early=early),
        }
        self._specs: dict[bool, dict[tuple[int, int], TensorSpec]] = {}

    def parameters(self) -> list[nn.Parameter]:
        """Those of this rank's stages, each once."""
        return list(self.stages.parameters())

    def named_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The same, each after the number of its stage and its name within it: ``("1.0.weight", parameter)``."""
        return list(self.stages.named_parameters())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of this rank's parameters, as ``nn.Module.zero_grad`` does."""
        self.stages.zero_grad(set_to_none)

    @torch.enable_grad()
    def step(self, x: Tensor | None = None, target: Tensor | None = None) -> Tensor | None:
        """One batch forward and backward: adds to the gradients of this rank's parameters. The batch's mean loss.

        x: (B, ...), needed by the rank of the first stage; target: (B, ...), by that of the last, which alone gets the
        loss, (); the others get None. A batch that the micro-batches do not divide is cut as evenly as can be, and each
        micro-batch counts by its samples. Where ``x`` requires a gradient, ``x.grad`` is added to as well.
        """
        with self.ties.of_one_batch(), gradients_sent_once(self.stages.values()):
            stages = self._run(x, target, with_backward=True)
        if x is not None and x.requires_grad and 0 in stages:
            parts = stages[0].input_gradients
            torch.autograd.backward(x, torch.cat([part for _, part in sorted(parts.items())]).to(x))
        self.peak_in_flight = {number: stage.peak_in_flight for number, stage in stages.items()}
        last = stages.get(self.schedule.num_stages - 1)
        return None if last is None else torch.stack(last.losses).sum()

    @torch.no_grad()
    def forward_only(self, x: Tensor | None = None) -> Tensor | None:
        """The model's output for a batch, (B, ...), on the rank of the last stage; None on the others."""
        stages = self._run(x, None, with_backward=False)
        last = stages.get(self.schedule.num_stages - 1)
        return None if last is None else torch.cat([last.outputs[i] for i in sorted(last.outputs)])

    def forget_shapes(self) -> None:
        """On every rank, before a batch with another shape or dtype, or after (un)freezing parameters."""
        self._specs.clear()

    def _run(self, x: Tensor | None, target: Tensor | None, *, with_backward: bool) -> dict[int, StageRun]:
        """The stages of this rank, after a batch."""
        stages = {
            int(name): StageRun(int(name), module, self.loss_of, with_backward=with_backward)
            for name, module in self.stages.items()
        }
        if 0 in stages:
            stages[0].inputs = dict(enumerate(self._cut(x, "x")))
        if with_backward and self.schedule.num_stages - 1 in stages:
            stages[self.schedule.num_stages - 1].targets = self._cut(target, "the target")
        if with_backward not in self._specs:
            self._specs[with_backward] = find_shapes(self.me, self.schedule, stages, self.ranks)
        batch = BatchRun(self.me, self.ranks, stages, self._specs[with_backward])
        batch.go(self._moves[with_backward])
        self.spans = batch.spans
        return stages

    def _cut(self, batch: Tensor | None, name: str) -> Sequence[Tensor]:
        num_micro_batches = self.schedule.num_micro_batches
        if batch is None or len(batch) < num_micro_batches:
            given = "None" if batch is None else f"{len(batch)} samples"
            raise ValueError(
                f"rank {self.me.rank} was given {given} as {name}; it needs at least one sample for each of the "
                f"{num_micro_batches} micro-batches of {self.schedule.name!r}"
            )
        parts = batch.detach().to(self.me.device).tensor_split(num_micro_batches)
        return [part.requires_grad_(batch.requires_grad and torch.is_grad_enabled()) for part in parts]

    def _refuse_strays(self, me: Rank, num_stages: int, schedule: Schedule) -> None:
        """Raise ValueError where stages and ranks are not those of the schedule."""
        if num_stages != schedule.num_stages or len(self.ranks) != schedule.num_ranks:
            raise ValueError(
                f"{num_stages} stages on {len(self.ranks)} ranks were given to the schedule {schedule.name!r}, which "
                f"has {schedule.num_stages} stages on {schedule.num_ranks} ranks; give it as many."
            )
        if self.ranks.count(me.rank) != 1 or len(set(self.ranks)) < len(self.ranks):
            raise ValueError(
                f"ranks={list(self.ranks)} was given to rank {me.rank}; it must name every rank of a pipeline once, "
                f"this rank too. The nearest without ranks= is {list(range(me.world_size))}."
            )
