"""What 07.run looks at: rows of several schedules on 1 to 3 ranks, their gradients, and what was sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.pipeline.row_stage import RowStage
from course_lib.schedules import from_text, gpipe, one_f_one_b
from course_lib.schedules.table import Schedule

__all__ = ["LAYOUTS", "RightRun", "RunLayout", "RunSeen", "right_run", "try_run"]

_WIDTH, _SAMPLES = 5, 3  # of a micro-batch
Answer = Callable[[Any, list[str], Any], Any]
Gradients = dict[str, Tensor]


@dataclass(frozen=True)
class RunLayout:
    """A schedule with one stage a rank, and a model and a batch for it."""

    schedule: Schedule

    @property
    def world_size(self) -> int:
        return self.schedule.num_ranks

    def row(self, rank: int) -> list[str]:
        return [action.short for action in self.schedule.rows[rank]]

    def stages(self) -> list[nn.Module]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            return [nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.Tanh()).double() for _ in range(self.world_size)]

    def batch(self) -> tuple[Tensor, Tensor]:
        made = torch.Generator().manual_seed(self.world_size)
        shape = self.schedule.num_micro_batches * _SAMPLES, _WIDTH
        x, y = (torch.randn(shape, generator=made, dtype=torch.float64) for _ in range(2))
        return x, y


_LAST_BACK_FIRST = from_text("F0 F1 F2 B2 B1 B0\nF0 F1 F2 B2 B1 B0", name="backwards from the last to the first")

LAYOUTS = {
    "GPipe, two stages, three micro-batches": RunLayout(gpipe(2, 3)),
    "1F1B, two stages, four micro-batches": RunLayout(one_f_one_b(2, 4)),
    "1F1B, three stages, five micro-batches": RunLayout(one_f_one_b(3, 5)),
    "GPipe, two stages, backwards from the last to the first": RunLayout(_LAST_BACK_FIRST),
    "three stages, one micro-batch": RunLayout(gpipe(3, 1)),
    "one stage, eleven micro-batches": RunLayout(gpipe(1, 11)),
}


@dataclass
class RightRun:
    """For one rank: the gradients that are right, and how many messages it has to send."""

    layout: RunLayout
    row: list[str]
    gradients: Gradients
    num_messages: int


def right_run(layout: RunLayout) -> Callable[[int, int], RightRun]:
    """By autograd: the whole batch through the uncut model."""

    def expected(rank: int, world_size: int) -> RightRun:
        stages = layout.stages()
        x, y = layout.batch()
        nn.functional.mse_loss(nn.Sequential(*stages)(x), y).backward()
        neighbours = (rank > 0) + (rank < world_size - 1)
        num_messages = layout.schedule.num_micro_batches * neighbours
        return RightRun(layout, layout.row(rank), _gradients(stages[rank]), num_messages)

    return expected


def _gradients(stage: nn.Module) -> Gradients:
    return {name: p.grad.detach().cpu().clone() for name, p in stage.named_parameters() if p.grad is not None}


@dataclass
class RunSeen:
    """What an answer did on one rank."""

    ran: list[str] = field(default_factory=list)  # actions, in order
    overwritten: list[int] = field(default_factory=list)  # micro-batches into whose input another one was received
    gradients: Gradients = field(default_factory=dict)
    sent: float = 0.0  # in messages of one micro-batch
    held: list[tuple[str, str]] = field(default_factory=list)  # what was made and had not set out when this one began
    row_after: list[str] = field(default_factory=list)  # the row, as the answer leaves it
    calls: Sequence[Any] = ()  # as the recorder noted them


class _Watched(RowStage):
    """A stage that writes down what it is asked to do, and what of that had not set out by then."""

    seen: RunSeen
    num_sent: Callable[[], int]

    def _begin(self, action: str) -> None:
        goes_nowhere = "F" if self.is_last else "B" if self.is_first else ""
        alone = self.is_first and self.is_last
        made = [] if alone else [one for one in self.seen.ran if one[0] != goes_nowhere]
        if len(made) > self.num_sent():
            self.seen.held.append((made[self.num_sent()], action))
        self.seen.ran.append(action)

    def forward(self, i: int, arrived: Tensor | None = None) -> Tensor:
        self._begin(f"F{i}")
        if isinstance(arrived, Tensor):
            place = arrived.data_ptr()
            held = [each for each, (given, _) in self._saved.items() if given.data_ptr() == place]
            self.seen.overwritten += held
        return super().forward(i, arrived)

    def backward(self, i: int, arrived: Tensor | None = None) -> Tensor | None:
        self._begin(f"B{i}")
        return super().backward(i, arrived)


def try_run(answer: Answer, me: Rank, layout: RunLayout) -> RunSeen:
    """One batch, by the learner's loop."""
    from course_lib.meter.communication.recorder import Recorder

    schedule = layout.schedule
    shape = _SAMPLES, _WIDTH
    mse = nn.functional.mse_loss
    stage = _Watched(me, layout.stages(), layout.batch(), schedule.num_micro_batches, mse, shape)
    stage.seen = RunSeen()
    row = layout.row(me.rank)
    with Recorder(me.rank) as recorder:
        stage.num_sent = lambda: sum(bool(call.sent_bytes) for call in recorder.calls)
        answer(me, row, stage)
    seen = stage.seen
    seen.row_after = row
    seen.gradients = _gradients(stage.module)
    seen.sent = sum(sum(call.sent_bytes.values()) for call in recorder.calls) / stage.room().nbytes
    seen.calls = recorder.calls
    return seen
