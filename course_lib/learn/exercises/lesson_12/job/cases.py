"""12.job: what a job is tried on, and what one process gives for it, also for one that loses a part of its state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

__all__ = [
    "BIG",
    "HABITS",
    "NEW_SEED",
    "SEED",
    "SITUATIONS",
    "JobRun",
    "JobSituation",
    "Small",
    "data_of",
    "loss_of",
    "oracle",
    "order_of",
]

SEED, NEW_SEED = 11, 50  # of the order and ``random``; of the weights of who begins again
BIG = 4096  # numbers in the matrix of the model whose bytes are counted
_64 = torch.float64


@dataclass(frozen=True, kw_only=True)
class JobSituation:
    """A job: its data, its model, how long it runs, and what happens to it. ``kind`` is how the trial goes on with it.

    plain      runs to ``stops``, one after the other
    samples    the shares of all steps, then as plain
    resume     for each of ``stops``: runs so far, and a new job of new objects goes on to ``until``
    torn       the folder as a kill would leave it at each moment of the save of the last of ``stops``
    other      ``stops`` were reached on another number of ranks
    cost       bytes of a step and of a save; a disk that is full
    damaged    the newest checkpoint is damaged; foreign       what is no checkpoint lies in the folder
    empty      there is no checkpoint; two       two jobs at the same time
    """

    kind: str = "plain"
    num_samples: int = 24
    batch_size: int = 6
    until: int = 12
    stops: tuple[int, ...] = (3, 6)
    every: int = 1000
    damage: str = ""
    plain_sgd: bool = False  # no state, no schedule
    frozen: bool = False
    tied: bool = False
    width: int = 4

    def other(self, num_ranks: int) -> int:
        """How many ranks the job ran on before."""
        return num_ranks if self.kind != "other" else {1: 3, 2: 3, 3: 2}.get(num_ranks, num_ranks - 1)

    def made(self, device: Any = "cpu", model_seed: int = 1) -> tuple[Small, torch.optim.Optimizer, Any]:
        """Model, optimizer and schedule, equal wherever ``model_seed`` is."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(model_seed)
            model = Small(self.width, tied=self.tied).to(device)
        if self.frozen:
            model.first.requires_grad_(False)
        if self.plain_sgd:
            return model, torch.optim.SGD(model.parameters(), lr=0.05), None
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)

    @property
    def num_batches(self) -> int:
        """Global batches in an epoch."""
        return -(-self.num_samples // self.batch_size)


class Small(nn.Module):
    """Two layers, and a buffer that counts the steps and has a say in the result."""

    count: Tensor

    def __init__(self, width: int, *, tied: bool = False) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, width, dtype=_64), nn.Linear(width, 4, dtype=_64)
        if tied:
            self.last.weight = self.first.weight
        self.register_buffer("count", torch.zeros((), dtype=_64))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.last(torch.tanh(self.first(x))) * (1 + self.count / 50)


@lru_cache(maxsize=16)
def data_of(num_samples: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets, (N, 4) each; float64."""
    draw = torch.Generator().manual_seed(3)
    inputs, targets = torch.randn(2, num_samples, 4, generator=draw, dtype=_64)
    return inputs, targets


def loss_of(num_samples: int) -> Any:
    """What a job is given: the sum of the losses of some samples, with noise that belongs to the step."""

    def summed(model: nn.Module, samples: list[int], random: torch.Generator) -> Tensor:
        device = next(model.parameters()).device
        inputs, targets = data_of(num_samples)
        noise = torch.randn(num_samples, 4, generator=random, dtype=_64)
        rows = torch.as_tensor(list(samples), dtype=torch.int64)
        out = model((inputs[rows] + 0.3 * noise[rows]).to(device))
        return ((out - targets[rows].to(device)) ** 2).sum()

    return summed


def order_of(situation: JobSituation, epoch: int) -> list[int]:
    draw = torch.Generator().manual_seed(SEED + epoch)
    return torch.randperm(situation.num_samples, generator=draw).tolist()


def batch_of(situation: JobSituation, step: int) -> list[int]:
    """The samples of all ranks in a step."""
    epoch, place = divmod(step, situation.num_batches)
    first = place * situation.batch_size
    return order_of(situation, epoch)[first : first + situation.batch_size]


HABITS = frozenset({"zero_grad", "schedule_step"})  # what a process may leave out in each step


@dataclass(frozen=True)
class JobRun:
    """Mean losses of the steps from ``begin``, and the weights and buffers at the end."""

    begin: int
    losses: tuple[float, ...]
    weights: dict[str, Tensor]


@lru_cache(maxsize=256)
def oracle(label: str, stop: int, until: int, lost: Collection[str] = frozenset(), times: int = 1) -> JobRun:
    """One process: to ``stop``, then with new objects, without the parts that were ``lost``, to ``until``.

    Parts are weights, buffers, optimizer, schedule, random and place; or ``HABITS``, without a restart. Gradients that
    nobody set back count ``times`` over in the next step: on ranks they are summed again.

    The losses are those after ``stop``.
    """
    situation = SITUATIONS[label]
    process = _Process(situation, habits=frozenset(lost) & HABITS, times=times)
    process.run(stop)
    if not process.habits and lost:
        process = process.resumed(frozenset(lost))
    begin = process.step
    losses = process.run(until)
    weights = {name: one.detach().clone() for name, one in process.model.state_dict().items()}
    return JobRun(begin, tuple(losses), weights)


class _Process:
    def __init__(
        self, situation: JobSituation, model_seed: int = 1, habits: frozenset[str] = frozenset(), times: int = 1
    ) -> None:
        self.situation, self.habits, self.times = situation, habits, times
        self.model, self.optimizer, self.schedule = situation.made(model_seed=model_seed)
        self.random = torch.Generator().manual_seed(SEED)
        self.step = self.place = 0  # ``place``: the step whose samples come next

    def run(self, until: int) -> list[float]:
        summed, losses = loss_of(self.situation.num_samples), []
        while self.step < until:
            samples = batch_of(self.situation, self.place)
            if "zero_grad" not in self.habits:
                self.optimizer.zero_grad()
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad *= self.times
            loss = summed(self.model, samples, self.random) / len(samples)
            loss.backward()
            self.optimizer.step()
            if self.schedule is not None and "schedule_step" not in self.habits:
                self.schedule.step()
            self.step, self.place = self.step + 1, self.place + 1
            losses.append(loss.item())
        return losses

    def resumed(self, lost: frozenset[str]) -> _Process:
        new = _Process(self.situation, model_seed=NEW_SEED)
        names = {name for name, _ in self.model.named_buffers()}
        state = self.model.state_dict()
        taken = {name: one for name, one in state.items() if ("buffers" if name in names else "weights") not in lost}
        new.model.load_state_dict(taken, strict=False)
        if "optimizer" not in lost:
            new.optimizer.load_state_dict(self.optimizer.state_dict())
        if self.schedule is not None and "schedule" not in lost:
            new.schedule.load_state_dict(self.schedule.state_dict())
        if "random" not in lost:
            new.random.set_state(self.random.get_state())
        new.step = self.step
        epoch = self.step // self.situation.num_batches
        new.place = epoch * self.situation.num_batches if "place" in lost else new.step
        return new


SITUATIONS = {
    "batches that divide": JobSituation(),
    "a last batch of five": JobSituation(kind="samples", num_samples=26, batch_size=7, stops=(9,)),
    "a last batch of one": JobSituation(kind="samples", num_samples=25, stops=(11,)),
    "jobs that were stopped": JobSituation(kind="resume", num_samples=23, until=8, stops=(4, 7), every=2),
    "kills within a save": JobSituation(kind="torn", num_samples=23, until=14, stops=(9, 12), every=3),
    "another number of ranks": JobSituation(kind="other", num_samples=26, batch_size=7, until=8, stops=(7,), every=3),
    "a larger model": JobSituation(kind="cost", width=BIG // 4, until=6, stops=(2, 3), every=1000),
    "frozen weights": JobSituation(kind="resume", frozen=True, until=6, stops=(3,), every=3),
    "tied weights": JobSituation(kind="resume", tied=True, until=6, stops=(3,), every=3),
    "an optimizer without state": JobSituation(kind="resume", plain_sgd=True, until=6, stops=(3,), every=3),
    "an empty folder": JobSituation(kind="empty", until=4, stops=(4,)),
    "a checkpoint that was cut off": JobSituation(kind="damaged", damage="cut", until=8, stops=(4, 6), every=2),
    "a checkpoint with other bytes": JobSituation(kind="damaged", damage="bytes", until=8, stops=(4, 6), every=2),
    "files of others in the folder": JobSituation(kind="foreign", until=8, stops=(6,), every=2),
    "two jobs at the same time": JobSituation(kind="two", until=6, stops=(4,), every=2),
}
