"""12.job: jobs that keep too little, write in another place, or give a gradient to what is frozen."""

from __future__ import annotations

import os
import tempfile

import torch
from answers.lesson_12.job_builds.final import Final


class KeepsOne(Final):
    def prune(self):
        for old in self.there()[:-1]:
            old.unlink()


class OneFile(Final):
    """One name for all, which a rename replaces."""

    def path(self):
        return self.folder / "step_0.pt"


class WritesElsewhere(Final):
    """The draft lies in the folder of the system for temporary files."""

    def write(self, state):
        handle, draft = tempfile.mkstemp()
        with os.fdopen(handle, "wb") as file:
            torch.save(state, file)
            file.flush()
            self.sync(file)
        os.replace(draft, self.path())


class ZerosForFrozen(Final):
    """Every parameter has a gradient, of zeros where none came."""

    def sum_up(self, loss):
        for parameter in self.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return super().sum_up(loss)
