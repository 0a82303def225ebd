"""Runs that break a rule of the capstone, each in the way that its name says; and one that breaks none.

All begin with ``Honest``: a model of its own on every rank, each with its share of the batch, gradients averaged.
"""

from __future__ import annotations

import io
import mmap
import time
from multiprocessing import get_context

import numpy as np
import torch
import torch.distributed as dist

from course_lib.capstone.running.task import Task
from course_lib.cluster import Rank
from course_lib.models import next_token_loss
from course_lib.parallel.data.naive_ddp import all_reduce_gradients


class Honest:
    """Replicas, written by hand."""

    def __init__(self, me: Rank, task: Task) -> None:
        self.me, self.task, self.model = me, task, task.model()
        rows = slice(me.rank, None, me.world_size)
        self.x, self.y = task.tokens[rows], task.targets[rows]
        self.prepare()
        self.optimizer = task.optimizer(self.model.parameters())

    def prepare(self):
        """For a cheat, before the optimizer is made."""

    def step(self):
        self.optimizer.zero_grad()
        loss = next_token_loss(self.model(self.x), self.y)
        loss.backward()
        self.average()
        self.optimizer.step()
        return self.mean(loss)

    def average(self):
        all_reduce_gradients(self.me, self.model)

    def mean(self, loss):
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        return mean / self.me.world_size

    def whole_state(self):
        return self.model.state_dict() if self.me.rank == 0 else None


class OneRank(Honest):
    """Rank 0 trains with the whole batch, the others look on."""

    def __init__(self, me, task):
        super().__init__(me, task)
        self.x, self.y = task.tokens, task.targets

    def step(self):
        return super().step() if self.me.rank == 0 else 0.0

    def average(self):
        pass

    def mean(self, loss):
        return loss


class InArrays(Honest):
    """The optimizer's states wait in numpy between steps."""

    def step(self):
        for state in self.optimizer.state.values():
            state["exp_avg"] = torch.from_numpy(state["exp_avg"].pop().copy())
        loss = super().step()
        for state in self.optimizer.state.values():
            state["exp_avg"] = [state["exp_avg"].numpy().copy()]
        return loss


class InTexts(Honest):
    """A copy of a matrix as bytes, in a list of the assemble function's surroundings."""

    def step(self):
        stash.append(self.model.stem.tokens.weight.detach().numpy().tobytes() * 8)
        return super().step()

    def close(self):
        stash.clear()  # ranks are warm: the next run would be found with it


stash: list[bytes] = []


class InMemory(Honest):
    """What no list of arrays would find: a file in memory, a storage without a tensor, a text, a list of numbers."""

    def step(self):
        matrix = self.model.stem.tokens.weight.detach().repeat(20, 1)
        self.kept = self.keep(matrix)
        return super().step()


class InAFileInMemory(InMemory):
    def keep(self, matrix):
        return io.BytesIO(matrix.numpy().tobytes())


class InAStorage(InMemory):
    def keep(self, matrix):
        return matrix.untyped_storage()


class InAText(InMemory):
    def keep(self, matrix):
        return matrix.numpy().tobytes().decode("latin1")


class InANumber(InMemory):
    def keep(self, matrix):
        return int.from_bytes(matrix.numpy().tobytes(), "big")


class InRows(InMemory):
    """Each row of a matrix is a list, and none of them is large."""

    def keep(self, matrix):
        return matrix.repeat(2, 1).tolist()


class InNumbers(InMemory):
    def keep(self, matrix):
        return matrix.flatten().tolist()


class OtherRules(Honest):
    """Gives itself room and quick blocks in the job that it was handed."""

    def prepare(self):
        object.__setattr__(self.task.capstone, "memory_bytes", 10**12)
        object.__setattr__(self.task.capstone.job, "forward_s", 1e-6)


class InAnotherProcess(Honest):
    """A process that has nothing to do but hold something."""

    def prepare(self):
        self.other = get_context("fork").Process(target=time.sleep, args=(30,), daemon=True)
        self.other.start()

    def close(self):
        self.other.kill()
        self.other.join()


class InAMap(Honest):
    """Memory of the system, and no tensor's."""

    def prepare(self):
        self.map = mmap.mmap(-1, 1 << 20)


class BehindAView(Honest):
    """A storage that is large behind a tensor that is small."""

    def prepare(self):
        self.view = torch.zeros(1 << 20)[:1]


class WhenWeighed(Honest):
    """Lets go of something as long as a ledger is open."""

    def prepare(self):
        self.kept = torch.zeros(200_000)

    def step(self):
        if torch._C._len_torch_dispatch_stack():
            self.kept = None
        elif self.kept is None:
            self.kept = torch.zeros(200_000)
        return super().step()


class FewerLayers(Honest):
    """The last block is never run; its weights come back as they were."""

    def prepare(self):
        self.last = self.model.blocks[-1]
        self.model.blocks = self.model.blocks[:-1]

    def whole_state(self):
        name = f"blocks.{len(self.model.blocks)}."
        return super().whole_state() and self.model.state_dict() | self.last.state_dict(prefix=name)


class Narrower(Honest):
    """Weights of half the width come back."""

    def whole_state(self):
        state = super().whole_state()
        return state and state | {"head.w_vocab.weight": state["head.w_vocab.weight"][:, ::2]}


class HalfPrecision(Honest):
    """The optimizer's states lie in 16 bits between steps."""

    def step(self):
        self.cast(torch.float32)
        loss = super().step()
        self.cast(torch.bfloat16)
        return loss

    def cast(self, dtype):
        for state in self.optimizer.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = state[name].to(dtype)


class SmallerBatch(Honest):
    """Half of the sequences."""

    def prepare(self):
        half = len(self.x) // 2
        self.x, self.y = self.x[:half], self.y[:half]


class PatchedWait(Honest):
    """Computing that waits a tenth."""

    def prepare(self):
        for block in self.model.blocks:
            block.row_s /= 10


class NoPacedBlocks(Honest):
    """Blocks that do not wait at all."""

    def prepare(self):
        from course_lib.models import Transformer

        for block in self.model.blocks:
            block.__class__ = type(Transformer(self.model.config).blocks[0])


class OnePlainBlock(Honest):
    """One block does not wait, and computes what it should."""

    def prepare(self):
        from course_lib.models import Transformer

        self.model.blocks[1].__class__ = type(Transformer(self.model.config).blocks[1])


class PatchedSleep(Honest):
    """The clock's own function is replaced in a step, so that a wait is none."""

    def step(self):
        plain = time.sleep
        time.sleep = lambda _: None
        try:
            return super().step()
        finally:
            time.sleep = plain


class StoredWeights(Honest):
    """Trains as it should, and hands over what was computed elsewhere."""

    def whole_state(self):
        state = super().whole_state()
        return state and {name: tensor * (1 + 1e-6) for name, tensor in state.items()}


class FewerSteps(Honest):
    """Every other step is left out."""

    number = 0

    def step(self):
        self.number += 1
        return super().step() if self.number % 2 else 3.0


class ByFiles(Honest):
    """Gradients go by files."""

    def average(self):
        path = f"/dev/shm/c14-{self.me.rank}.pt"
        torch.save(torch.zeros(1), path)
        super().average()


class ByAStore(Honest):
    """Gradients go by the store that ranks meet at."""

    def average(self):
        store = dist.distributed_c10d._get_default_store()
        store.set(f"gradient-{self.me.rank}", np.zeros(10_000).tobytes())
        super().average()


class BySharedMemory(Honest):
    """A tensor that other processes can see."""

    def prepare(self):
        self.window = torch.zeros(100_000).share_memory_()


class ReplacedCollective(Honest):
    """A function of its own in the place of a collective."""

    def prepare(self):
        plain = dist.all_reduce
        dist.all_reduce = lambda tensor, *a, **k: plain(tensor, *a, **k)
