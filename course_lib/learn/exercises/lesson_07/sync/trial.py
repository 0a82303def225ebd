"""What 07.sync looks at: pipelines side by side on 2 to 5 ranks, two batches, what is sent and what is left behind."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.pipeline import Pipeline
from course_lib.schedules import one_f_one_b

__all__ = ["LAYOUTS", "RightSync", "SyncLayout", "SyncSeen", "right_step", "try_step"]

_WIDTH, _BATCHES = 6, 2
_SLOW_S, _PATIENCE_S = 0.15, 0.05  # how late the others are, and how long a result may take to be noticed
Answer = Callable[[Any, Any, Callable[[], Any]], Any]
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class SyncLayout:
    """So many pipelines of so many stages; each gets its own part of a batch, in micro-batches of uneven sizes."""

    num_pipelines: int
    num_stages: int
    num_micro_batches: int
    num_samples: int  # of each pipeline
    is_slow: bool = False  # one pipeline after the other is late
    dtype: torch.dtype = torch.float64

    @property
    def world_size(self) -> int:
        return self.num_pipelines * self.num_stages

    def place(self, rank: int) -> tuple[int, int]:
        """The pipeline of a rank, and its stage."""
        return divmod(rank, self.num_stages)

    def pipeline_of(self, rank: int) -> list[int]:
        first = rank - rank % self.num_stages
        return list(range(first, first + self.num_stages))

    def same_stage(self, stage: int) -> list[int]:
        return list(range(stage, self.world_size, self.num_stages))

    def stages(self) -> list[nn.Module]:
        """All of one shape, with other weights: two layers that share a weight, and a BatchNorm between them."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            return [_stage().to(self.dtype) for _ in range(self.num_stages)]

    def batch(self, pipeline: int, number: int) -> tuple[Tensor, Tensor]:
        made = torch.Generator().manual_seed(10 * pipeline + number)
        shape = self.num_samples, _WIDTH
        x, y = (torch.randn(shape, generator=made, dtype=torch.float64).to(self.dtype) for _ in range(2))
        return (1 + pipeline) * x, y


LAYOUTS = {
    "two pipelines of two stages, four micro-batches": SyncLayout(2, 2, 4, 9),
    "two pipelines of one stage in float32, one micro-batch": SyncLayout(2, 1, 1, 5, is_slow=True, dtype=torch.float32),
    "three pipelines of one stage, two micro-batches": SyncLayout(3, 1, 2, 5),
    "five pipelines of one stage, three micro-batches": SyncLayout(5, 1, 3, 8),
}


def _stage() -> nn.Module:
    first, second = nn.Linear(_WIDTH, _WIDTH, bias=False), nn.Linear(_WIDTH, _WIDTH)
    second.weight = first.weight
    return nn.Sequential(first, nn.BatchNorm1d(_WIDTH), nn.Tanh(), second)


@dataclass
class RightSync:
    """For one rank, and for each batch: the gradients that are right, and those that stand for a mistake."""

    layout: SyncLayout
    gradients: list[Gradients] = field(default_factory=list)
    own: list[Gradients] = field(default_factory=list)  # of this rank's pipeline alone
    everybody: list[Gradients] = field(default_factory=list)  # the mean over all ranks, whatever their stage


def right_step(layout: SyncLayout) -> Callable[[int, int], RightSync]:
    """By autograd: every pipeline's micro-batches one after the other, then the mean over pipelines."""

    def expected(rank: int, world_size: int) -> RightSync:
        right = RightSync(layout)
        pipeline, stage = layout.place(rank)
        for number in range(_BATCHES):
            found = [_by_autograd(layout, each, number) for each in range(layout.num_pipelines)]
            right.own.append(found[pipeline][stage])
            right.gradients.append(_mean([stages[stage] for stages in found]))
            right.everybody.append(_mean([gradients for stages in found for gradients in stages]))
        return right

    return expected


@cache
def _by_autograd(layout: SyncLayout, pipeline: int, number: int) -> list[Gradients]:
    """The gradients of every stage of one pipeline."""
    stages = layout.stages()
    model = nn.Sequential(*stages)
    x, y = (part.tensor_split(layout.num_micro_batches) for part in layout.batch(pipeline, number))
    for piece, target in zip(x, y, strict=True):
        loss = nn.functional.mse_loss(model(piece), target)
        (loss * (len(piece) / layout.num_samples)).backward()
    return [_gradients(stage) for stage in stages]


def _gradients(stage: nn.Module) -> Gradients:
    return {name: p.grad.detach().cpu().clone() for name, p in stage.named_parameters() if p.grad is not None}


def _mean(several: list[Gradients]) -> Gradients:
    return {name: torch.stack([each[name] for each in several]).mean(0) for name in several[0]}


@dataclass
class SyncSeen:
    """What an answer did on one rank, batch by batch."""

    gradients: list[Gradients] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # how often the step was taken
    sent: list[float] = field(default_factory=list)  # for gradients, in sizes of the rank's gradients
    sent_early: float = 0.0  # of that, before the step
    pickled: bool = False  # some of it as objects, which travel as bytes
    unfinished: int = 0  # calls whose result was not there when the answer returned
    asked_none: bool = False  # it stopped at a gradient that was None
    notes: list[str] = field(default_factory=list)  # what it changed against the contract, in words


def try_step(answer: Answer, me: Rank, layout: SyncLayout) -> SyncSeen:
    """Two batches; the answer takes the step of each and does what belongs to it."""
    seen = SyncSeen()
    stage = layout.place(me.rank)[1]
    model = Pipeline(
        me,
        layout.stages(),
        one_f_one_b(layout.num_stages, layout.num_micro_batches),
        nn.functional.mse_loss,
        ranks=layout.pipeline_of(me.rank),
    )
    for number in range(_BATCHES):
        for parameter in model.parameters():
            parameter.grad = None
        groups: list[Any] = [dist.group.WORLD]
        if layout.num_stages > 1:  # every rank makes all groups, for each batch anew
            groups = [dist.new_group(layout.same_stage(each)) for each in range(layout.num_stages)]
            dist.barrier(groups[stage])  # else an answer that sends nothing ends it while another rank connects
        goes_on = _one_batch(answer, model, groups[stage], layout, number, seen)
        if layout.num_stages > 1:
            dist.destroy_process_group(groups[stage])
        if not goes_on:
            break
    return seen


def _one_batch(answer: Answer, model: Pipeline, group: Any, layout: SyncLayout, number: int, seen: SyncSeen) -> bool:
    """Whether it came to its end."""
    from course_lib.meter.communication.recorder import Recorder

    me = model.me
    pipeline = layout.place(me.rank)[0]
    x, y = (part.to(me.device) for part in layout.batch(pipeline, number))
    before = _State(model)
    within: list[range] = []  # which calls each step itself made

    def step() -> Tensor | None:
        begin = len(recorder.calls)
        loss = model.step(x, y)
        within.append(range(begin, len(recorder.calls)))
        before.buffers = [buffer.clone() for buffer in model.stages.buffers()]
        if layout.is_slow and pipeline != number:
            time.sleep(_SLOW_S)
        return loss

    step.__qualname__ = step.__name__  # by which Python names it to a learner who calls it otherwise
    with Recorder(me.rank) as recorder:
        try:
            answer(model, group, step)
        except (TypeError, ValueError, AttributeError) as error:
            if within or "None" not in str(error):
                raise
            seen.asked_none = True
        seen.unfinished += _unfinished(recorder, within)
    seen.steps.append(len(within))
    size_bytes = sum(parameter.nbytes for parameter in model.parameters())
    for index, call in enumerate(recorder.calls):
        if not _is_pipelines_own(index, call, within, layout.pipeline_of(me.rank)):
            share = sum(call.sent_bytes.values()) / size_bytes
            seen.pickled |= call.dtype == "uint8"
            seen.sent += [0.0] * (number + 1 - len(seen.sent))
            seen.sent[number] += share
            seen.sent_early += share if not within or index < within[0].start else 0.0
    seen.sent += [0.0] * (number + 1 - len(seen.sent))
    seen.gradients.append(_gradients(model.stages[str(layout.place(me.rank)[1])]))
    seen.notes += [note for note in before.changes() if note not in seen.notes]
    return not seen.asked_none and not before.is_frozen()


def _is_pipelines_own(index: int, call: Any, within: list[range], ranks: list[int]) -> bool:
    """Whether a call carries activations, or their gradients, within the pipeline."""
    in_a_step = any(index in calls for calls in within)
    return in_a_step and call.operation in ("send", "recv") and set(call.sent_bytes) <= set(ranks)


def _unfinished(recorder: Any, within: list[range]) -> int:
    """How many calls have no result yet; a moment is given for it to be noticed."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        open_calls = [
            index
            for index, call in enumerate(recorder.calls)
            if call.end_s is None and not (call.operation in ("send", "recv") and _in_any(index, within))
        ]
        if not open_calls or time.monotonic() > deadline_s:
            return len(open_calls)
        time.sleep(_PATIENCE_S / 10)


def _in_any(index: int, within: list[range]) -> bool:
    return any(index in calls for calls in within)


class _State:
    """A model as it is before an answer gets it, and what differs afterwards."""

    def __init__(self, model: Pipeline) -> None:
        self.model = model
        self.weights = [parameter.detach().clone() for parameter in model.parameters()]
        self.flags = [parameter.requires_grad for parameter in model.parameters()]
        self.modes = [module.training for module in model.stages.modules()]
        self.hooks = [_num_hooks(parameter) for parameter in model.parameters()]
        self.num_groups = _num_groups()
        self.ranks, self.schedule, self.loss_of = model.ranks, model.schedule, model.loss_of
        self.buffers = [copy.deepcopy(buffer) for buffer in model.stages.buffers()]  # as the step leaves them

    def is_frozen(self) -> bool:
        """Whether a weight learns no more, so that no other batch can be tried."""
        return self.flags != [parameter.requires_grad for parameter in self.model.parameters()]

    def changes(self) -> Iterator[str]:
        model = self.model
        parameters, buffers = list(model.parameters()), list(model.stages.buffers())
        if not all(map(torch.equal, parameters, self.weights)):
            yield "the weights have changed; the optimizer changes them, later"
        if not all(map(torch.equal, buffers, self.buffers)):
            yield "the buffers of BatchNorm are not what the step left in them"
        if self.flags != [parameter.requires_grad for parameter in parameters]:
            yield "`requires_grad` of a weight is not what it was"
        if self.modes != [module.training for module in model.stages.modules()]:
            yield "the model is not in the mode (train or eval) that it was in"
        if self.hooks != [_num_hooks(parameter) for parameter in parameters]:
            yield "hooks stay on the weights when the step is over, and the next step calls them again"
        if (self.ranks, self.schedule, self.loss_of) != (model.ranks, model.schedule, model.loss_of):
            yield "the pipeline has other ranks, another schedule or another loss than before"
        if self.num_groups != _num_groups():
            yield "process groups were made and not destroyed: one more with each step"
        if not torch.is_grad_enabled():
            torch.set_grad_enabled(True)
            yield "autograd stays switched off"


def _num_hooks(parameter: nn.Parameter) -> int:
    kinds = parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None)
    return sum(len(hooks) for hooks in kinds if hooks)


def _num_groups() -> int:
    return len(dist.distributed_c10d._world.pg_map)
