"""Runs that break no rule, each in a style of its own: what a judge must not take for a cheat."""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace

import cheats
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_lib.models import next_token_loss
from course_lib.parallel.data.naive_ddp import all_reduce_gradients


class KeepsItsGraph(cheats.Honest):
    """The loss is kept with all that its backward pass would need."""

    def step(self):
        self.optimizer.zero_grad()
        self.loss = next_token_loss(self.model(self.x), self.y)
        self.loss.backward(retain_graph=True)
        self.average()
        self.optimizer.step()
        return self.mean(self.loss)


class WithPyTorchsDdp(cheats.Honest):
    """DistributedDataParallel: its buckets are C++'s."""

    def prepare(self):
        self.parallel = nn.parallel.DistributedDataParallel(self.model)

    def step(self):
        self.optimizer.zero_grad()
        loss = next_token_loss(self.parallel(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return self.mean(loss)


class WithSharedStates(cheats.Honest):
    """ZeRO 1, by PyTorch."""

    def __init__(self, me, task):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        from course_lib.capstone.running.task import ADAMW

        super().__init__(me, task)
        self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), optimizer_class=torch.optim.AdamW, **ADAMW)


class WithCheckpoints(cheats.Honest):
    """Each block's activations are computed again."""

    def prepare(self):
        for block in self.model.blocks:
            plain = block.forward
            block.forward = lambda x, plain=plain: checkpoint(plain, x, use_reentrant=False)


class InMicroBatches(cheats.Honest):
    """One row at a time."""

    def step(self):
        self.optimizer.zero_grad()
        total = torch.zeros(())
        for x, y in zip(self.x.split(1), self.y.split(1), strict=True):
            loss = next_token_loss(self.model(x), y) / len(self.x)
            loss.backward()
            total += loss.detach()
        self.average()
        self.optimizer.step()
        return self.mean(total)


class InOneBuffer(cheats.Honest):
    """Gradients travel as one flat tensor, which is kept."""

    def average(self):
        gradients = [parameter.grad for parameter in self.model.parameters()]
        self.flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(self.flat)
        at = 0
        for gradient in gradients:
            part = self.flat[at : at + gradient.numel()]
            gradient.copy_(part.view_as(gradient) / self.me.world_size)
            at += gradient.numel()


class ByObjects(cheats.Honest):
    """Losses go as objects, and are averaged by numpy."""

    def mean(self, loss):
        everybodys = [None] * self.me.world_size
        dist.all_gather_object(everybodys, {"rank": self.me.rank, "loss": loss.item()})
        return float(np.mean([one["loss"] for one in everybodys]))


class WithADiary(cheats.Honest):
    """Prints, logs, and keeps the norms of all weights of the last steps."""

    def prepare(self):
        self.diary, self.norms, self.last = logging.getLogger("training"), deque(maxlen=8), {}

    def step(self):
        loss = super().step()
        self.norms.append({name: float(p.norm()) for name, p in self.model.named_parameters()})
        self.diary.warning("loss %.4f", loss)
        for number in range(200):
            print(f"step {len(self.norms)}, line {number}: loss {float(loss):.4f} " + "." * 80)
        self.last[len(self.norms)] = loss
        return loss


class WithAThread(cheats.Honest):
    """The batch is fetched beside the step."""

    def prepare(self):
        self.pool = ThreadPoolExecutor(2)
        self.next = self.pool.submit(self.fetch)

    def fetch(self):
        return self.task.tokens[self.me.rank :: self.me.world_size].clone()

    def step(self):
        self.x = self.next.result()
        self.next = self.pool.submit(self.fetch)
        return super().step()

    def close(self):
        self.pool.shutdown()


class WithALibrary(cheats.Honest):
    """Loads what fills some megabytes, and uses it."""

    def prepare(self):
        import scipy.signal
        import sklearn.linear_model

        self.smooth = scipy.signal.savgol_filter
        self.fit = sklearn.linear_model.LinearRegression()

    def step(self):
        loss = super().step()
        self.fit.fit(np.arange(8.0)[:, None], self.smooth(np.full(8, float(loss)), 5, 2))
        return loss


class WithHooks(cheats.Honest):
    """Gradients are averaged as soon as they are there."""

    def prepare(self):
        for parameter in self.model.parameters():
            parameter.register_post_accumulate_grad_hook(self.average_one)

    def average_one(self, parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= self.me.world_size

    def average(self):
        pass


class InManyGroups(cheats.Honest):
    """A group for each parameter's gradient, asynchronously."""

    def prepare(self):
        self.groups = [dist.new_group() for _ in range(6)]

    def average(self):
        for group, parameter in zip(self.groups * 20, self.model.parameters(), strict=False):
            dist.all_reduce(parameter.grad, group=group, async_op=True).wait()
            parameter.grad /= self.me.world_size


def by_a_generator(me, task):
    """No class at all."""

    @lru_cache(maxsize=1)
    def model():
        return task.model()

    optimizer = task.optimizer(model().parameters())

    def train():
        rows = slice(me.rank, None, me.world_size)
        while True:
            optimizer.zero_grad(set_to_none=False)
            loss = next_token_loss(model()(task.tokens[rows]), task.targets[rows])
            loss.backward()
            all_reduce_gradients(me, model())
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean, op=dist.ReduceOp.SUM)
            yield mean.item() / me.world_size

    losses = train()
    return SimpleNamespace(step=lambda: next(losses), whole_state=lambda: model().state_dict())


def by_a_dataclass(me, task):
    """Weights are averaged in place of gradients: of an optimizer that sees the same gradient, the same."""

    @dataclass
    class Run:
        model: nn.Module
        optimizer: torch.optim.Optimizer
        words: str = "by hand"

        def step(self):
            self.optimizer.zero_grad()
            rows = torch.arange(len(task.tokens)).chunk(me.world_size)[me.rank]
            loss = next_token_loss(self.model(task.tokens[rows]), task.targets[rows])
            loss.backward()
            flat = nn.utils.parameters_to_vector([p.grad for p in self.model.parameters()])
            dist.all_reduce(flat)
            nn.utils.vector_to_parameters(flat / me.world_size, [p.grad for p in self.model.parameters()])
            self.optimizer.step()
            dist.all_reduce(total := loss.detach().clone())
            return total / me.world_size

        def whole_state(self):
            return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    model = task.model()
    return Run(model, task.optimizer(model.parameters()))


HONEST = {  # what holds most beside tensors first: `first_cases` keeps those for every run
    "WithPyTorchsDdp": WithPyTorchsDdp,
    "KeepsItsGraph": KeepsItsGraph,
    "WithALibrary": WithALibrary,
    "WithADiary": WithADiary,
    "InManyGroups": InManyGroups,
    "WithSharedStates": WithSharedStates,
    "WithCheckpoints": WithCheckpoints,
    "InMicroBatches": InMicroBatches,
    "InOneBuffer": InOneBuffer,
    "ByObjects": ByObjects,
    "WithAThread": WithAThread,
    "WithHooks": WithHooks,
    "by a generator": by_a_generator,
    "by a dataclass": by_a_dataclass,
}
