"""12.job: jobs that train otherwise than one process, or on other samples."""

from __future__ import annotations

import random

import torch
import torch.distributed as dist
from answers.lesson_12.job_builds.final import Final


class SumNotMean(Final):
    def divisor(self):
        return 1


class DividesByRanks(Final):
    """The mean over the ranks of means over the global batch."""

    def divisor(self):
        return super().divisor() * self.me.world_size


class OwnShareCounts(Final):
    def divisor(self):
        return max(1, len(self.samples(self.step)))


class EachItsOwn(Final):
    def sum_up(self, loss):
        return loss.item()


class OwnLosses(Final):
    def sum_up(self, loss):
        super().sum_up(loss)
        return loss.item()


class GradientsPileUp(Final):
    """Nobody sets the gradients back; what was summed is set aside, so that it is not summed again."""

    def sum_up(self, loss):
        earlier = getattr(self, "earlier", None) or [torch.zeros_like(p) for p in self.model.parameters()]
        whole = super().sum_up(loss)
        for parameter, before in zip(self.model.parameters(), earlier, strict=True):
            parameter.grad += before
        self.earlier = [parameter.grad.clone() for parameter in self.model.parameters()]
        return whole


class ScheduleStandsStill(Final):
    def __init__(self, *args, schedule=None, **kwargs):
        super().__init__(*args, schedule=None, **kwargs)


class SeedsForAll(Final):
    def order(self, epoch):
        torch.manual_seed(self.seed + epoch)
        return torch.randperm(self.num_samples).tolist()


class NeverWaits(Final):
    def sum_up(self, loss):
        whole = super().sum_up(loss)
        if self.step == 11:
            self.sent = dist.all_reduce(torch.zeros(1), async_op=True)
        return whole


class SeedFromTime(Final):
    def order(self, epoch):
        draw = torch.Generator().manual_seed(random.SystemRandom().randrange(2**31))
        return torch.randperm(self.num_samples, generator=draw).tolist()


class SeedOfRank(Final):
    def generator(self):
        return torch.Generator().manual_seed(self.seed + self.me.rank)


class ReturnsTensors(Final):
    def one_step(self):
        return torch.tensor(super().one_step())


class NoResume:
    def __init__(self, *args, **kwargs):
        pass

    def samples(self, step):
        return []

    run = save = samples


class OneOrder(Final):
    def order(self, epoch):
        return super().order(0)


class FillsUp(Final):
    """As DistributedSampler does: a short batch begins again from its first sample."""

    def samples(self, step):
        batch = self.batch(step)
        n = self.me.world_size
        if len(batch) < n:
            batch = batch * n
        return (batch + batch[: -len(batch) % n])[self.me.rank :: n]


class LosesTheRest(Final):
    def samples(self, step):
        batch = self.batch(step)
        size = len(batch) // self.me.world_size
        return batch[self.me.rank * size : (self.me.rank + 1) * size]


class RestToTheLast(Final):
    def samples(self, step):
        batch, n = self.batch(step), self.me.world_size
        size = len(batch) // n
        last = self.me.rank == n - 1
        return batch[self.me.rank * size : len(batch) if last else (self.me.rank + 1) * size]


class GivesAllToOne(Final):
    """In a short batch rank 0 has them all."""

    def samples(self, step):
        batch = self.batch(step)
        if len(batch) < self.batch_size:
            return batch if self.me.rank == 0 else []
        return super().samples(step)


class ShortCountWhole(Final):
    def divisor(self):
        return self.batch_size


class SkipsEmptyLists(Final):
    """A rank without samples has zeros for gradients, and draws nothing."""

    def one_step(self):
        if self.samples(self.step):
            return super().one_step()
        asked, self.loss_of = self.loss_of, lambda model, *_: 0.0 * sum(p.sum() for p in model.parameters())
        try:
            return super().one_step()
        finally:
            self.loss_of = asked


class PilesUpAndSums(Final):
    """Nobody sets the gradients back, so the sum over ranks is summed again."""

    def one_step(self):
        kept, self.optimizer.zero_grad = self.optimizer.zero_grad, lambda: None
        try:
            return super().one_step()
        finally:
            self.optimizer.zero_grad = kept


class TensorsOfSamples(Final):
    def samples(self, step):
        return torch.tensor(super().samples(step))


class DealsByRank(Final):
    """Each rank its n-th sample of the epoch, and a local batch of it: the global batch depends on the ranks."""

    def samples(self, step):
        epoch, place = divmod(step, -(-self.num_samples // self.batch_size))
        own = self.order(epoch)[self.me.rank :: self.me.world_size]
        size = self.batch_size // self.me.world_size
        return own[place * size : (place + 1) * size]


class BarrierEachStep(Final):
    def one_step(self):
        dist.barrier()
        return super().one_step()


class SendsWeights(Final):
    """The weights of rank 0 to all, in each step."""

    def one_step(self):
        whole = super().one_step()
        for parameter in self.model.parameters():
            dist.broadcast(parameter.data, src=0)
        return whole


class FrozenHaveNone(Final):
    def sum_up(self, loss):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        return whole.item()


class TiedTwice(Final):
    def sum_up(self, loss):
        names = self.model.state_dict(keep_vars=True).values()
        for one in [p for p in names if isinstance(p, torch.nn.Parameter) and p.grad is not None]:
            dist.all_reduce(one.grad)
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        return whole.item()


class OfTheClass(Final):
    """The generator of the newest job is that of all jobs in this process."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        type(self).random = vars(self).pop("random")


class TwoAtLeast(Final):
    def sum_up(self, loss):
        if self.me.world_size < 2:
            raise ValueError("nobody is there")
        return super().sum_up(loss)


class ByTheCourse(Final):
    """Right, by the course's own writer."""

    def write(self, state):
        from course_lib.parallel.data import save_checkpoint

        save_checkpoint(self.path(), state)

    def __init__(self, *args, **kwargs):
        from course_lib.parallel.data import GlobalBatches

        super().__init__(*args, **kwargs)
        GlobalBatches(self.num_samples, rank=0, world_size=1, global_batch_size=self.batch_size)
