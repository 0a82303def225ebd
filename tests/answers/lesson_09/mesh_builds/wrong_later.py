"""09.mesh: trainers with right steps, and a wrong norm, a wrong checkpoint, or no sense for awkward models."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from answers.lesson_09.mesh_builds.final import Final

# -- norm


class CopiesCounted(Final):
    def counted(self, name):
        is_second_end = self.tied and self.here["pp"] > 0 and name == "head.w_vocab.weight"
        return torch.full_like(self.parts[name].detach(), 0.0 if is_second_end else 1.0)


class OwnNorm(Final):
    def step(self, tokens, targets, max_norm=None):
        self.mine = None
        loss, _ = super().step(tokens, targets, max_norm)
        return loss, self.mine

    def square(self):
        square = super().square()
        self.mine = square.sqrt().item()
        return square


class NormAfterwards(Final):
    def step(self, tokens, targets, max_norm=None):
        loss, norm = super().step(tokens, targets, max_norm)
        return loss, norm if max_norm is None else min(norm, max_norm)


class NoLimit(Final):
    def clip(self, norm, max_norm):
        pass


class LimitsItsOwn(Final):
    """Each rank by the norm of its own share."""

    def clip(self, norm, max_norm):
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_([self.shard], max_norm)


class LimitsAfterwards(Final):
    """The step is limited, and not the gradient."""

    def clip(self, norm, max_norm):
        self.before, self.factor = self.shard.detach().clone(), None
        if max_norm is not None:
            self.factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)

    def spread(self):
        if self.factor is not None:
            step = self.shard - self.before
            self.shard.copy_(self.before + step * self.factor.sqrt())
        super().spread()


# -- checkpoints


class WeightsAfresh(Final):
    @torch.no_grad()
    def load(self, folder):
        before = {name: part.clone() for name, part in self.parts.items()}
        super().load(folder)
        for name, part in self.parts.items():
            part.copy_(before[name])
        self.shard.copy_(self.own_share(self.flat(self.parts)))


class StatesAfresh(Final):
    def load(self, folder):
        super().load(folder)
        self.optimizer.state.clear()


class CountAfresh(Final):
    def load(self, folder):
        super().load(folder)
        state = self.optimizer.state[self.shard]
        if "step" in state:
            state["step"] = torch.zeros_like(state["step"])


class OldShare(Final):
    @torch.no_grad()
    def load(self, folder):
        before = self.shard.clone()
        super().load(folder)
        self.shard.copy_(before)


class EverybodyWrites(Final):
    def save(self, folder):
        super().save(folder)
        if not self.writes():
            shutil.copy(Path(folder) / f"stage-{self.here['pp']}.pt", Path(folder) / f"copy-{self.me.rank}.pt")
        dist.barrier()


class FileOfEachRank(Final):
    """What a rank held; whoever stands at its place goes on."""

    def save(self, folder):
        state = self.optimizer.state.get(self.shard, {})
        held = {"parts": dict(self.parts), "shard": self.shard.detach(), "state": state}
        torch.save(held, Path(folder) / f"{self.me.rank}.pt")
        dist.barrier()

    @torch.no_grad()
    def load(self, folder):
        held = torch.load(Path(folder) / f"{self.me.rank}.pt", weights_only=False)
        for name, part in self.parts.items():
            part.copy_(held["parts"][name])
        self.shard.copy_(held["shard"])
        self.optimizer.state[self.shard] = held["state"]


# -- awkward


class EndsApart(Final):
    def add_ties(self):
        pass


class EndsCountTwice(Final):
    def counted(self, name):
        is_copy = self.dims[name] is None and self.here["tp"] > 0
        return torch.full_like(self.parts[name].detach(), 0.0 if is_copy else 1.0)


class AllStagesLearn(Final):
    """An optimizer of no parameters is asked for where nothing learns."""

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        super().__init__(me, groups, model, optimizer_class, num_micro_batches, **defaults)
        if not len(self.shard):
            optimizer_class([], **defaults)


class FrozenAreNotSaved(Final):
    @torch.no_grad()
    def load(self, folder):
        before = {name: part.clone() for name, part in self.parts.items() if not part.requires_grad}
        super().load(folder)
        for name, one in before.items():
            self.parts[name].copy_(one)


class FrozenDecay(Final):
    """Frozen weights shrink with the others."""

    def spread(self):
        super().spread()
        for part in self.parts.values():
            if not part.requires_grad:
                part *= 0.99


class MeanOfMeans(Final):
    def weight(self, target, targets):
        return 1 / len(self.deal(targets)) / self.num_shares


class NeedsStates(Final):
    def save(self, folder):
        if not self.optimizer.state[self.shard]:
            raise ValueError("there is nothing to save")
        super().save(folder)


class TwoAtLeast(Final):
    def reduce(self):
        if self.me.world_size < 2:
            raise ValueError("a mesh has two ranks at least")
        super().reduce()
