"""04.ddp: the models on which a learner's DDP is tried, what each rank computes with them, and what is right."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_04.ddp import models

__all__ = [
    "LEARNING_RATE",
    "SITUATIONS",
    "STEPS",
    "TWO_MODELS",
    "UNORDERED",
    "Situation",
    "arrivals",
    "bucket_sizes",
    "complete_before",
    "gradient_sizes",
    "oracle",
    "weights_by_name",
]

STEPS, LEARNING_RATE = 3, 0.1
TWO_MODELS = "two models at the same time"
UNORDERED = ("two dtypes", TWO_MODELS)  # whose buckets may go in more than one order
Losses = Sequence[Callable[[], Tensor]]


@dataclass(frozen=True)
class Situation:
    """A model, what a rank computes with it in a step, and how large the buckets are.

    ``losses(call, rank, world_size, step, device)`` gives a function for each backward pass of a step; all but the last
    run inside ``no_sync``.
    """

    label: str
    make: Callable[[], nn.Module]
    losses: Callable[..., Losses]
    bucket_bytes: int = 2**20
    is_counted: bool = True  # the calls of a step are all-reduces of buckets alone, and those are looked at
    is_timed: bool = False  # so is when each of them began
    is_weighed: bool = False  # and the memory
    checks_buffers: bool = False

    def model(self, rank: int, device: torch.device | str = "cpu") -> nn.Module:
        """That of a rank, as it is before anybody has wrapped it: each rank draws its own weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(40 + rank)
            made = self.make()
            for buffer in made.buffers():
                buffer.add_(rank)
        return made.to(device)

    def wrapped(self, answer: Callable[..., Any], model: Any, me: Any) -> Any:
        """By the answer; of two models, each by itself."""
        wrap = partial(answer, me=me, bucket_bytes=self.bucket_bytes)
        return models.Two(wrap(model.first), wrap(model.second)) if isinstance(model, models.Two) else wrap(model)


def rows_of(rank: int, step: int, *, count: int = 4, width: int = 8, like: torch.dtype = torch.float64) -> Tensor:
    """A rank's part of the batch, (count, width)."""
    draw = torch.Generator().manual_seed(1 + rank + 100 * step)
    return torch.randn(count, width, generator=draw, dtype=torch.float64).to(like)


# -- what a rank computes -------------------------------------------------------------------------------------------


def _plain(call: Any, rank: int, world_size: int, step: int, device: Any, width: int = 8, count: int = 4) -> Losses:
    return [lambda: call(rows_of(rank, step, width=width, count=count).to(device)).square().mean()]


def _named(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    x = rows_of(rank, step, like=torch.float32).to(device)
    return [lambda: call(x, scale=2.0 + step)["out"].square().mean()]


def _mixed(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    return [lambda: call(rows_of(rank, step).to(device)).square().mean()]


def _unused(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    """Odd ranks leave out "b", and nobody uses "c" in the first step."""
    parts = ("a", *(("b",) if rank % 2 == 0 else ()), *(("c",) if step else ()))
    return [lambda: call(rows_of(rank, step).to(device), parts).square().mean()]


def _another_order(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    parts = ("a", "b", "c") if rank % 2 == 0 else ("c", "b", "a")
    return [lambda: call(rows_of(rank, step).to(device), parts).square().mean()]


def _accumulated(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    """Three pieces; the last one leaves out what the quiet ones have used."""

    def piece(number: int) -> Tensor:
        x = rows_of(rank, 10 * step + number).to(device)
        return call(x, ("a", "b", "c") if number < 2 else ("a", "c")).square().mean() / 3

    return [partial(piece, number) for number in range(3)]


def _uneven(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    """Ranks have unequal parts of the last batch, the last one none: sums, over the rows of all ranks."""
    counts = [4] * world_size if step < STEPS - 1 else [max(0, 3 - each) for each in range(world_size - 1)] + [0]
    x = rows_of(rank, step, count=counts[rank] if world_size > 1 else 3).to(device)
    return [lambda: call(x).square().sum() * (world_size / max(1, sum(counts)))]


def _twice(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    """Two forward passes, an evaluation between them, and one backward pass."""

    def both() -> Tensor:
        first = call(rows_of(rank, step).to(device))
        with torch.no_grad():
            call(rows_of(rank, 50 + step, count=2).to(device))
        return first.square().mean() + call(rows_of(rank, 20 + step).to(device)).mean()

    return [both]


def _images(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    x = rows_of(rank, step, width=2 * 25).view(4, 2, 5, 5).to(device, memory_format=torch.channels_last)
    return [lambda: call(x).square().mean()]


def _one_after_the_other(call: Any, rank: int, world_size: int, step: int, device: Any) -> Losses:
    """Two models: one behind the other in a backward pass; or both forward, and then a backward pass of each."""
    x = rows_of(rank, step).to(device)

    def each() -> Tensor:
        first, second = call.first(x).square().mean(), call.second(x).square().mean()
        first.backward()
        return second

    return [each if step == 1 else lambda: call(x).square().mean()]


# -- the situations -------------------------------------------------------------------------------------------------

_wide = partial(_plain, width=32, count=2)

SITUATIONS = {
    one.label: one
    for one in (
        Situation("three layers", models.plain, _plain),
        Situation("two inputs and a dictionary", models.Named, _named),
        Situation("buckets of 200 bytes", models.plain, _plain, 200),
        Situation("buckets of two layers", models.wide, _wide, 2 * models.WIDE_LAYER_BYTES, is_timed=True),
        Situation("a bucket for each gradient", models.plain, _plain, 1),
        Situation("two dtypes", models.Mixed, _mixed),
        Situation(
            "a bucket for each layer", models.wide, _wide, models.WIDE_LAYER_BYTES, is_timed=True, is_weighed=True
        ),
        Situation("layers that not every rank uses", models.Branches, _unused, models.BRANCH_BYTES, is_counted=False),
        Situation("gradients in another order on odd ranks", models.Branches, _another_order, models.BRANCH_BYTES),
        Situation("frozen layers", models.frozen, _plain, 1000),
        Situation("tied weights", models.Tied, _plain, 1000),
        Situation("buffers", models.with_buffers, _plain, is_counted=False, checks_buffers=True),
        Situation("accumulation in `no_sync`", models.Branches, _accumulated, models.BRANCH_BYTES, is_counted=False),
        Situation("an uneven last batch", models.plain, _uneven, 1000),
        Situation("two forward passes, and one backward", models.plain, _twice, 1000),
        Situation("convolutions in channels_last", models.convolutions, _images, 500),
        Situation(TWO_MODELS, models.Two, _one_after_the_other, 1000),
    )
}


# -- what is right ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Oracle:
    """One process: weights at the beginning and the end, mean gradients of each step, rank 0's buffers before each."""

    begin: dict[str, Tensor]
    gradients: list[dict[str, Tensor]]
    used: list[set[str]]  # of each step, what some rank has used
    end: dict[str, Tensor]
    buffers: list[dict[str, Tensor]]
    own: dict[int, list[dict[str, Tensor]]]  # by rank: what it has before anything is sent


@lru_cache(maxsize=64)
def oracle(label: str, world_size: int) -> Oracle:
    situation = SITUATIONS[label]
    model = situation.model(0)
    begin = weights_by_name(model)
    gradients, used, buffers = list[dict[str, Tensor]](), list[set[str]](), list[dict[str, Tensor]]()
    own: dict[int, list[dict[str, Tensor]]] = {rank: [] for rank in range(world_size)}
    learning = {name for name, p in model.named_parameters() if p.requires_grad}
    for step in range(STEPS):
        buffers.append({name: buffer.clone() for name, buffer in model.named_buffers()})
        replicas = [copy.deepcopy(model) for _ in range(world_size)]
        for rank, replica in enumerate(replicas):
            replica.zero_grad()
            for loss in situation.losses(replica, rank, world_size, step, "cpu"):
                loss().backward()
            own[rank].append({n: p.grad.clone() for n, p in replica.named_parameters() if p.grad is not None})
        used.append({name for each in own.values() for name in each[step]})
        gradients.append(
            {
                name: torch.stack(
                    [own[rank][step].get(name, torch.zeros_like(model.get_parameter(name))) for rank in own]
                )
                .to(torch.float64)
                .mean(0)
                .to(model.get_parameter(name).dtype)
                for name in learning
            }
        )
        with torch.no_grad():
            for name in learning:
                model.get_parameter(name).sub_(LEARNING_RATE * gradients[step][name])
            for buffer, after in zip(model.buffers(), replicas[0].buffers(), strict=True):
                buffer.copy_(after)
    return Oracle(begin, gradients, used, weights_by_name(model), buffers, own)


def weights_by_name(model: nn.Module) -> dict[str, Tensor]:
    """Copies, on the CPU."""
    return {name: parameter.detach().cpu().clone() for name, parameter in model.named_parameters()}


@lru_cache(maxsize=64)
def _buckets(label: str, *, from_the_front: bool = False, times: int = 1) -> list[list[tuple[str, int]]]:
    """Names and bytes of each bucket's parameters, from the last of ``parameters()``; one dtype in each.

    The other arguments make what a usual mistake does: filled from the front, or of ``times`` the size.
    """
    situation = SITUATIONS[label]
    closed: list[list[tuple[str, int]]] = []
    unclosed: dict[torch.dtype, list[tuple[str, int]]] = {}
    order = [*situation.model(0).named_parameters()]
    owner = ""
    for name, parameter in order if from_the_front else reversed(order):
        if label == TWO_MODELS and owner != (owner := name.partition(".")[0]):
            closed += unclosed.values()  # each model has buckets of its own
            unclosed = {}
        if parameter.requires_grad:
            bucket = unclosed.setdefault(parameter.dtype, [])
            bucket.append((name, parameter.nbytes))
            if sum(size for _, size in bucket) >= situation.bucket_bytes * times:
                closed.append(unclosed.pop(parameter.dtype))
    return [*closed, *unclosed.values()]


def bucket_sizes(label: str, *, from_the_front: bool = False, times: int = 1) -> list[int]:
    """Bytes of each bucket, sorted where buckets of two dtypes or of two models are filled side by side."""
    buckets = _buckets(label, from_the_front=from_the_front, times=times)
    sizes = [sum(size for _, size in bucket) for bucket in buckets]
    return sorted(sizes) if label in UNORDERED else sizes


def gradient_sizes(label: str) -> list[int]:
    """Bytes of each gradient, from the last parameter to the first."""
    return [size for bucket in _buckets(label) for _, size in bucket]


@lru_cache(maxsize=32)
def arrivals(label: str) -> tuple[str, ...]:
    """The parameters in the order in which their gradients come."""
    situation, order = SITUATIONS[label], list[str]()
    model = situation.model(0)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    for loss in situation.losses(model, 0, 2, 0, "cpu"):
        loss().backward()
    return tuple(order)


@lru_cache(maxsize=32)
def complete_before(label: str) -> list[int]:
    """How many buckets are complete before each gradient, counted from the first one without a gap."""
    come: set[str] = set()
    counts = []
    for name in arrivals(label):
        whole = [all(one in come for one, _ in bucket) for bucket in _buckets(label)]
        counts.append(next((at for at, is_whole in enumerate(whole) if not is_whole), len(whole)))
        come.add(name)
    return counts
