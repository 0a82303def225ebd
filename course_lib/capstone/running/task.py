"""What a rank is handed: the model, the batch, the optimizer's settings, and what it may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.running.emulated_compute import Tally, WorkTransformer
from course_lib.cluster.base.rank import Rank
from course_lib.cost.mesh.scaled_job import ScaledJob
from course_lib.models import Transformer, TransformerConfig

__all__ = ["ADAMW", "Assemble", "CapstoneRun", "Task", "batch_of", "config_of", "plain_model"]

ADAMW: Mapping[str, Any] = MappingProxyType({"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-3, "weight_decay": 0.01})
# With the usual eps, 1e-8, a gradient of a rounding error's size moves its weight a whole lr, in either direction:
# no two orders of adding would end with the same weights.


class CapstoneRun(Protocol):
    """What ``assemble(me, task)`` returns.

    It may have ``mesh`` (a ``Mesh``: bytes are told by its axes), ``words`` (how it is called in the report) and
    ``close()``, which is called at the end.
    """

    def step(self) -> Any:
        """One training step: forward, backward, what is to be sent, update. Returns the batch's mean loss."""
        ...

    def whole_state(self) -> dict[str, Tensor] | None:
        """All weights by the plain model's names, on rank 0; every rank calls it."""
        ...


class Assemble(Protocol):
    """What a learner writes."""

    def __call__(self, me: Rank, task: Task, /) -> CapstoneRun: ...


@dataclass(frozen=True, eq=False)
class Task:
    """Of one rank. ``tokens`` and ``targets``, (B, T), are the whole batch of every step; a rank may take its share."""

    me: Rank
    capstone: CapstoneJob
    tally: Tally
    tokens: Tensor
    targets: Tensor

    @property
    def job(self) -> ScaledJob:
        """Sizes, batch, computing and links."""
        return self.capstone.job

    @property
    def memory_bytes(self) -> int:
        """The most that this rank may hold while it trains."""
        return self.capstone.memory_bytes

    def model(self) -> WorkTransformer:
        """The whole model, with the same weights on every rank; its blocks wait for what they compute.

        To be cut before training: whole, it is more than a rank may hold.
        """
        config, row_s = config_of(self.capstone), self.capstone.row_s
        weights = plain_model(self.capstone).state_dict()
        return WorkTransformer(self.me, config, row_s=row_s, tally=self.tally, weights=weights)

    def optimizer(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """AdamW with the job's settings."""
        return torch.optim.AdamW(parameters, **ADAMW)


def config_of(capstone: CapstoneJob) -> TransformerConfig:
    """The sizes of the job's model."""
    assert isinstance(capstone.job.config, TransformerConfig)
    return capstone.job.config


def plain_model(capstone: CapstoneJob) -> Transformer:
    """The model as one device would build it, without waits; the generator of random numbers is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(capstone.seed)
        return Transformer(config_of(capstone))


def batch_of(capstone: CapstoneJob) -> tuple[Tensor, Tensor]:
    """Tokens and targets, (B, T) each."""
    seed = capstone.seed if capstone.batch_seed is None else capstone.batch_seed
    generator = torch.Generator().manual_seed(seed)
    config = config_of(capstone)
    size = (capstone.job.batch_size, config.context_length + 1)
    tokens = torch.randint(config.vocab_size, size, generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
