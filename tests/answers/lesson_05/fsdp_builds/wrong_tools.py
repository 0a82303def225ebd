"""05.fsdp: builds that train rightly, and whose clip, reading or loading does not what it is to, each in one way."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from answers.lesson_05.fsdp_builds.final import Final
from torch import nn


class GivesAFloat(Final):
    def clip_grad_norm_(self, max_norm):
        return super().clip_grad_norm_(max_norm).item()


class GivesARow(Final):
    def clip_grad_norm_(self, max_norm):
        return super().clip_grad_norm_(max_norm).view(1)


class AllBuffers(Final):
    """Those too that are in no ``state_dict()``."""

    def full_state_dict(self):
        return super().full_state_dict() | {name: buffer.clone() for name, buffer in self.module.named_buffers()}


class ClearsGradients(Final):
    def full_state_dict(self):
        self.zero_grad()
        return super().full_state_dict()


class KeepsTheState(Final):
    def full_state_dict(self):
        self.state = super().full_state_dict()
        return dict(self.state)


class LoadsInto(Final):
    """Of each row the whole one is made, and ``keep`` takes this rank's part of it."""

    @torch.no_grad()
    def load_full_state_dict(self, state):
        for name, buffer in self.module.state_dict().items():
            buffer.copy_(state[name])
        for number, row in enumerate(self.rows):
            whole = torch.cat([state[name].flatten() for name, *_ in row.names])
            whole = F.pad(whole, (0, -len(whole) % self.me.world_size))
            self.keep(number, row, whole.chunk(self.me.world_size)[self.me.rank])


class PartIsAView(LoadsInto):
    """The part keeps the whole row alive."""

    def keep(self, number, row, part):
        row.part.data = part


class ReplacesParts(LoadsInto):
    """An optimizer that was made before has the old ones."""

    def keep(self, number, row, part):
        row.part = nn.Parameter(part.clone(), requires_grad=row.part.requires_grad)
        self.parts[number] = row.part


class BuffersAreTheStates(Final):
    """The next batch is counted in the state that was loaded."""

    def load_full_state_dict(self, state):
        super().load_full_state_dict(state)
        for name in self.module.state_dict():
            owner, _, attribute = name.rpartition(".")
            self.module.get_submodule(owner)._buffers[attribute] = state[name]


class TakesOut(Final):
    """What has been read of the state is taken out of it."""

    def load_full_state_dict(self, state):
        super().load_full_state_dict(state)
        state.clear()
