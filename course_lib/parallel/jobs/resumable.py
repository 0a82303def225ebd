"""A run of training that any number of ranks may begin, and any other number may continue.

Three things make it so. Global batches know nothing of ranks: a rank's share is cut from the batch, and not the batch
put together from shares. The state is the job's, and equal on all ranks: one step, one generator. And a checkpoint is
written beside the others, so that a kill at any moment leaves the one before it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.base.checks import at_least
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.data.checkpoint import CheckpointError, load_on_all, save_by_one
from course_lib.parallel.data.distributed_sampler import GlobalBatches

__all__ = ["ResumableJob"]

_KEPT = 2  # checkpoints: the newest, and the one before it, should that be damaged
_NAME = re.compile(r"step_(\d{8})\.pt")


class ResumableJob:
    """Trains a model as one process would, saves, and goes on where a job before it stopped.

    ``loss_of(model, samples, random)`` gives the sum of the losses of these samples, (), and draws the same numbers
    from ``random`` whatever the samples are. A step minimises the mean over the global batch. In epoch e the order is
    that of ``seed + e``, as ``GlobalBatches`` has it. Every rank calls the same methods.

    Raises ``ValueError`` where ``every`` is below 1, and as ``GlobalBatches`` does.
    """

    def __init__(
        self,
        me: Rank,
        folder: str | Path,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_of: Callable[[nn.Module, list[int], torch.Generator], Tensor],
        num_samples: int,
        batch_size: int,
        schedule: Any = None,
        seed: int = 0,
        every: int = 5,
    ) -> None:
        at_least(1, every=every)
        self.me, self.folder = me, Path(folder)
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.loss_of, self.every, self.step = loss_of, every, 0
        self.batches = GlobalBatches(  # as one rank has them: whole
            num_samples, rank=0, world_size=1, global_batch_size=batch_size, seed=seed
        )
        self.random = torch.Generator().manual_seed(seed)

    def batch(self, step: int) -> list[int]:
        """The samples of all ranks in this step."""
        epoch, place = divmod(step, self.batches.num_batches)
        self.batches.epoch, self.batches.start = epoch, place
        return next(iter(self.batches))

    def samples(self, step: int) -> list[int]:
        """This rank's samples of this step, which may be none where a batch is smaller than there are ranks."""
        return self.batch(step)[self.me.rank :: self.me.world_size]

    def run(self, until: int) -> list[float]:
        """Train up to step ``until``, and save after every ``every`` steps. The mean loss of each step done now."""
        losses = []
        while self.step < until:
            losses.append(self._one_step())
            if self.step % self.every == 0:
                self.save()
        return losses

    def _one_step(self) -> float:
        self.optimizer.zero_grad()
        size = len(self.batch(self.step))
        loss = self.loss_of(self.model, self.samples(self.step), self.random) / size
        loss.backward()
        learning = [p for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([loss.detach().view(1), *(p.grad.flatten() for p in learning if p.grad is not None)])
        dist.all_reduce(flat)
        parts = flat[1:].split([p.numel() for p in learning])
        for parameter, part in zip(learning, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        self.step += 1
        return flat[0].item()

    # -- what outlives a rank -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the next step depends on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "random": self.random.get_state(),
            "step": self.step,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        self.random.set_state(state["random"])
        self.step = int(state["step"])

    def save(self) -> None:
        """Write a checkpoint beside the others, and then remove all but the last two.

        Where it cannot be written, every rank raises the same ``CheckpointError``, and the others are untouched.
        """
        save_by_one(self.me, self.folder / f"step_{self.step:08d}.pt", self.state())
        if self.me.rank == 0:
            for old in self._there()[:-_KEPT]:
                old.unlink(missing_ok=True)

    def resume(self) -> int:
        """Go on from the newest checkpoint that is whole; the step where that is, 0 where there is none.

        A checkpoint that is damaged is passed over, with a warning that names it.
        """
        found: list[Any] = [self._there() if self.me.rank == 0 else []]
        dist.broadcast_object_list(found, src=0)  # the others may not see its disk, or not at the same moment
        for path in reversed(found[0]):
            try:
                self.load_state(load_on_all(self.me, path))
                break
            except CheckpointError as error:
                if self.me.rank == 0:
                    warnings.warn(f"{error} The one before it is tried.", stacklevel=2)
        return self.step

    def _there(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("step_*.pt") if _NAME.fullmatch(path.name))
