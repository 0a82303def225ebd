"""12.job: jobs whose `save` or `resume` returns too early, or returns nothing."""

from __future__ import annotations

import threading

import torch.distributed as dist
from answers.lesson_12.job_builds.final import Final


class ReturnsEarly(Final):
    """Rank 0 writes, and the others go on at once."""

    def save(self):
        if self.me.rank == 0:
            self.write(self.state())
            self.prune()


class ReturnsNothing(Final):
    """Goes on as it should, and `resume` does not say where."""

    def resume(self):
        super().resume()


class WaitsBefore(ReturnsEarly):
    """All wait for each other before rank 0 writes, and nobody after it."""

    def save(self):
        dist.barrier()
        super().save()


class WritesBeside(ReturnsEarly):
    """A thread writes, and nobody waits for it."""

    def save(self):
        if self.me.rank == 0:
            threading.Thread(target=super().save).start()
        dist.barrier()
