"""07.pipe: tables and models on which a pipeline is tried, and what one process gives for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_07.pipe.stages import WatchedStage, loss_of
from course_lib.schedules import (
    from_text,
    gpipe,
    interleaved,
    looped_bfs,
    one_f_one_b,
    placement,
    zero_bubble_h1,
    zero_bubble_v,
)
from course_lib.schedules.action import Action
from course_lib.schedules.table import Schedule

__all__ = [
    "AWKWARD",
    "CHUNKS",
    "FAILS",
    "LEARNING_RATE",
    "MESSAGES",
    "PLAIN",
    "SITUATIONS",
    "SPLIT",
    "STEPS",
    "TIED",
    "PipeSituation",
    "UncutRun",
    "batch_of",
    "gradients_of",
    "oracle",
]

STEPS, LEARNING_RATE = 2, 0.1
_ROWS = 3  # of a micro-batch
_64, _32 = torch.float64, torch.float32


@dataclass(frozen=True)
class PipeSituation:
    """A table for so many ranks, and a model; ``frozen`` are stages, from the end where they are negative."""

    schedule: Callable[[int], Schedule]
    last_rows: int = _ROWS  # of the last micro-batch
    frozen: tuple[int, ...] = ()
    is_tied: bool = False  # the first stage and the last have one matrix
    is_even: bool = False  # all messages are of one size
    is_coarse: bool = False  # odd stages compute in float32
    is_late: bool = False  # the last stage takes its time
    clears: bool = True  # gradients, before each step
    is_counted: bool = True  # messages, and what is kept
    fails: str = ""  # F or back: in which a stage fails, in a step before all others
    num_pipelines: int = 1

    def model(self, num_ranks: int, number: int = 0) -> list[WatchedStage]:
        """All stages, of all ranks alike. What is tied and on one rank is one object."""
        schedule = self.schedule(num_ranks)
        count = schedule.num_stages
        widths = [4 if self.is_tied or self.is_even else 4 + s % 3 for s in range(count + 1)]
        dtypes = [_32 if self.is_coarse and s % 2 else _64 for s in range(count + 1)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(30 + number)
            stages = [WatchedStage(s, (widths[s], widths[s + 1]), (dtypes[s], dtypes[s + 1])) for s in range(count)]
        if self.is_tied and schedule.rank_of_stage[0] == schedule.rank_of_stage[-1]:
            stages[-1].first.weight = stages[0].first.weight
        elif self.is_tied:
            stages[-1].first.weight.data.copy_(stages[0].first.weight.data)
        for place in self.frozen:
            stages[place % count].requires_grad_(False)
        stages[-1].is_late = self.is_late
        return stages

    def ties(self, num_ranks: int) -> tuple[tuple[tuple[int, str], ...], ...]:
        """Which parameters are one, as (stage, name)."""
        last = self.schedule(num_ranks).num_stages - 1
        return (((0, "first.weight"), (last, "first.weight")),) if self.is_tied else ()

    def failing(self, num_ranks: int) -> tuple[str, int, int]:
        """Where it fails: in a stage in the middle, with its second micro-batch."""
        return self.fails, min(1, self.schedule(num_ranks).num_stages - 1), 1


# -- tables -----------------------------------------------------------------------------------------------------------


def _last_back_first(num_ranks: int) -> Schedule:
    """GPipe whose backwards come from the last micro-batch to the first."""
    table = gpipe(num_ranks, 3)
    return table.with_actions(([*row[:3], *row[:2:-1]] for row in table.rows), name="GPipe, from the last to the first")


def _v(num_ranks: int) -> Schedule:
    """Two stages a rank, placed as a V: the first and the last are on rank 0. Backwards are whole."""
    ranks, count, m = placement(num_ranks, 2, "v"), 2 * num_ranks, 3
    rows: list[list[Action]] = [[] for _ in range(num_ranks)]
    for kind, stages in (("F", range(count)), ("B", range(count - 1, -1, -1))):
        for stage in stages:
            rows[ranks[stage]] += [Action(kind, stage, i) for i in range(m)]
    return Schedule("a V", m, ranks, tuple(map(tuple, rows)))


_CROSSING = """
F0.0 F0.2 B0.2 F1.0 F1.2 B0.0 B1.2 B1.0
F0.1 F0.3 B0.3 F1.1 B0.1 F1.3 B1.3 B1.1
"""


def _crossing(num_ranks: int) -> Schedule:
    """What rank 0 sends to rank 1 first, a gradient, is needed there after the activations that come later."""
    if num_ranks == 1:
        return gpipe(1, 2)
    return from_text(_CROSSING + "F0.4 B0.4 F1.4 B1.4" * (num_ranks > 2), name="crossing")


def _idle(num_ranks: int) -> Schedule:
    """1F1B with its idle cells written down."""
    return one_f_one_b(num_ranks, 4).aligned()


def _mixed(num_ranks: int) -> Schedule:
    """1F1B whose even ranks cut their backwards, with all W at the end."""
    rows = []
    for rank, row in enumerate(one_f_one_b(num_ranks, 3).rows):
        halves = [one._replace(kind="I") if one.kind == "B" else one for one in row]
        late = [one._replace(kind="W") for one in row if one.kind == "B"]
        rows.append(row if rank % 2 else (*halves, *late))
    return one_f_one_b(num_ranks, 3).with_actions(rows, name="halves on even ranks")


def _one_rank_or(table: Callable[[int], Schedule]) -> Callable[[int], Schedule]:
    """On one rank two stages, one after the other; else this table."""
    alone = "F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0"
    return lambda num_ranks: from_text(alone, name="two stages of one rank") if num_ranks == 1 else table(num_ranks)


def _table(make: Callable[..., Schedule], *sizes: int) -> Callable[[int], Schedule]:
    return lambda num_ranks: make(num_ranks, *sizes)


TIED = ("tied weights", "tied weights, and two batches before a step")
FAILS = ("a stage that fails in forward", "a stage that fails in backward")
SITUATIONS = {
    "GPipe": PipeSituation(_table(gpipe, 3)),
    "GPipe, from the last to the first": PipeSituation(_last_back_first),
    "one micro-batch": PipeSituation(_table(gpipe, 1)),
    "1F1B": PipeSituation(_table(one_f_one_b, 6)),
    "1F1B with a rank that is late": PipeSituation(_table(one_f_one_b, 4), is_late=True),
    "a table with idle cells": PipeSituation(_idle),
    "interleaved 1F1B": PipeSituation(lambda num_ranks: interleaved(num_ranks, 2 * num_ranks)),
    "looped": PipeSituation(_table(looped_bfs, 2)),
    "a V": PipeSituation(_v),
    "messages that cross": PipeSituation(_crossing, is_even=True),
    "ZB-H1": PipeSituation(_table(zero_bubble_h1, 4)),
    "halves on even ranks": PipeSituation(_mixed),
    "ZB-V": PipeSituation(_table(zero_bubble_v, 4)),
    TIED[0]: PipeSituation(_one_rank_or(_table(one_f_one_b, 2)), is_tied=True, is_counted=False),
    TIED[1]: PipeSituation(_one_rank_or(_table(one_f_one_b, 2)), is_tied=True, is_counted=False, clears=False),
    "a first stage that is frozen": PipeSituation(_one_rank_or(_table(one_f_one_b, 3)), frozen=(0,), is_counted=False),
    "a last stage that is frozen": PipeSituation(
        _one_rank_or(_table(zero_bubble_h1, 3)), frozen=(-1,), is_counted=False
    ),
    "a smaller last micro-batch": PipeSituation(_table(one_f_one_b, 3), last_rows=1),
    "stages of two dtypes": PipeSituation(_one_rank_or(_table(one_f_one_b, 2)), is_coarse=True),
    "two pipelines at the same time": PipeSituation(_table(one_f_one_b, 2), num_pipelines=2, is_counted=False),
    FAILS[0]: PipeSituation(_table(one_f_one_b, 3), fails="F", is_counted=False),
    FAILS[1]: PipeSituation(_table(one_f_one_b, 3), fails="back", is_counted=False),
}
PLAIN = ("GPipe", "GPipe, from the last to the first", "one micro-batch")
MESSAGES = ("1F1B", "1F1B with a rank that is late", "a table with idle cells")
CHUNKS = ("interleaved 1F1B", "looped", "a V", "messages that cross")
SPLIT = ("ZB-H1", "halves on even ranks", "ZB-V")
AWKWARD = tuple(SITUATIONS)[len(PLAIN + MESSAGES + CHUNKS + SPLIT) :]


# -- one process ------------------------------------------------------------------------------------------------------


def batch_of(label: str, num_ranks: int, step: int, number: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs of the first stage and the targets of the last, by micro-batch."""
    situation = SITUATIONS[label]
    schedule, model = situation.schedule(num_ranks), situation.model(num_ranks)
    draw = torch.Generator().manual_seed(7 + 100 * step + 10 * number)
    inputs, targets = [], []
    for i in range(schedule.num_micro_batches):
        rows = situation.last_rows if i == schedule.num_micro_batches - 1 else _ROWS
        x = torch.randn(rows, model[0].first.in_features, generator=draw, dtype=_64)
        inputs.append(torch.cat([torch.full((rows, 1), float(i), dtype=_64), x], 1))
        targets.append(torch.randn(rows, model[-1].last.out_features, generator=draw, dtype=_64))
    return inputs, [target.to(model[-1].gives) for target in targets]


@dataclass(frozen=True)
class UncutRun:
    """The loss of each step, and the gradients after it by name; ``of_last``: of the last micro-batch alone."""

    losses: list[float]
    gradients: list[dict[str, Tensor]]
    of_last: list[float]


def gradients_of(stages: dict[int, nn.Module]) -> dict[str, Tensor]:
    """By the number of a stage and a parameter's name; those that have none are left out."""
    return {
        f"{number}.{name}": parameter.grad.detach().cpu().clone()
        for number, stage in sorted(stages.items())
        for name, parameter in stage.named_parameters()
        if parameter.grad is not None
    }


@lru_cache(maxsize=64)
def oracle(label: str, num_ranks: int, number: int = 0) -> UncutRun:
    """The whole batch through the uncut model, one step after the other."""
    situation = SITUATIONS[label]
    stages = situation.model(num_ranks, number)
    if situation.is_tied:
        stages[-1].first.weight = stages[0].first.weight
    losses, gradients, of_last = [], [], []
    parameters = list({p: None for stage in stages for p in stage.parameters()})
    for step in range(STEPS):
        if situation.clears:
            nn.Sequential(*stages).zero_grad()
        inputs, targets = batch_of(label, num_ranks, step, number)
        output = nn.Sequential(*stages)(torch.cat(inputs))
        loss = loss_of(output, torch.cat(targets))
        loss.backward()
        losses.append(loss.item())
        last = len(targets[-1])
        of_last.append(loss_of(output[-last:], targets[-1]).item())
        gradients.append(gradients_of(dict(enumerate(stages))))
        with torch.no_grad():
            for p in parameters:
                if p.grad is not None:
                    p.sub_(LEARNING_RATE * p.grad)
    return UncutRun(losses, gradients, of_last)
