"""12.job: short jobs that pass an early step and no later one."""

from __future__ import annotations

import torch
import torch.distributed as dist


class OnlyTrains:
    """Step 1: batches divide, and nobody saves."""

    def __init__(self, me, folder, model, optimizer, loss_of, num_samples, batch_size, schedule=None, seed=0, every=5):
        self.me, self.model, self.optimizer, self.schedule = me, model, optimizer, schedule
        self.loss_of, self.num_samples, self.batch_size, self.seed = loss_of, num_samples, batch_size, seed
        self.random, self.step = torch.Generator().manual_seed(seed), 0

    def samples(self, step):
        per_epoch = self.num_samples // self.batch_size
        draw = torch.Generator().manual_seed(self.seed + step // per_epoch)
        order = torch.randperm(self.num_samples, generator=draw)
        batch = order.view(per_epoch, self.batch_size)[step % per_epoch]
        return batch[self.me.rank :: self.me.world_size].tolist()

    def run(self, until):
        losses = []
        for step in range(self.step, until):
            self.optimizer.zero_grad()
            loss = self.loss_of(self.model, self.samples(step), self.random) / self.batch_size
            loss.backward()
            both = [loss.detach(), *(p.grad for p in self.model.parameters())]
            for one in both:
                dist.all_reduce(one)
            self.optimizer.step()
            if self.schedule is not None:
                self.schedule.step()
            losses.append(float(both[0]))
        self.step = until
        return losses

    def save(self):
        pass

    def resume(self):
        return 0
