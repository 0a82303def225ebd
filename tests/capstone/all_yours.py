"""Runs for level 4, where every strategy is to be the learner's: one that is, and ways to have another's.

Each holds replicas on two ranks, as ``cheats.Honest`` does, and averages gradients in the way that its name says.
"""

from __future__ import annotations

import _thread
import importlib.util
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from course_lib.models import next_token_loss


class Own:
    """Replicas by nobody else's strategy."""

    def __init__(self, me, task):
        self.me, self.task, self.model = me, task, task.model()
        rows = slice(me.rank, None, me.world_size)
        self.x, self.y = task.tokens[rows], task.targets[rows]
        self.prepare()
        self.optimizer = task.optimizer(self.model.parameters())

    def prepare(self):
        pass

    def step(self):
        self.optimizer.zero_grad()
        loss = next_token_loss(self.forward(self.x), self.y)
        loss.backward()
        self.average()
        self.optimizer.step()
        return self.mean(loss)

    def forward(self, x):
        return self.model(x)

    def average(self):
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= self.me.world_size

    def mean(self, loss):
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        return mean / self.me.world_size

    def whole_state(self):
        return self.model.state_dict() if self.me.rank == 0 else None


class ByTheCourse(Own):
    def average(self):
        from course_lib.parallel.data import all_reduce_gradients

        all_reduce_gradients(self.me, self.model)


class UnderAnotherName(Own):
    """A file of the course's, loaded as a module of one's own."""

    def prepare(self):
        import course_lib

        file = Path(course_lib.__file__).with_name("parallel") / "data" / "naive_ddp.py"
        spec = importlib.util.spec_from_file_location("my_very_own", file)
        self.own = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.own)

    def average(self):
        self.own.all_reduce_gradients(self.me, self.model)


class ByItsText(Own):
    """The text of the course's function with other names in it, as if it had been typed; what it calls is left out."""

    def prepare(self):
        import course_lib

        file = Path(course_lib.__file__).with_name("parallel") / "data" / "naive_ddp.py"
        kept = [line for line in file.read_text().splitlines() if not line.startswith("from course_lib")]
        text = "\n".join(kept).replace("parameter", "weight").replace("message", "parcel").replace("me: Rank", "me")
        text = text.replace("weights()", "parameters()").replace(".gradient", ".grad")
        members = type("Members", (), {"of": staticmethod(lambda *_: None)})
        self.own = {"refuse_parts": lambda *_: None, "Members": members, "in_one_piece": lambda one: one}
        exec(compile(text, "/home/ada/mine_alone.py", "exec"), self.own)

    def average(self):
        self.own["all_reduce_gradients"](self.me, self.model)


class ByMineThatIsNotYours(Own):
    """``mine`` gives the course's where no check has passed."""

    def prepare(self):
        from course_lib.mine.courses import MyDDP

        self.parallel = MyDDP(self.model, self.me)

    def forward(self, x):
        return self.parallel(x)

    def average(self):
        pass


class ByDdp(Own):
    def prepare(self):
        self.parallel = nn.parallel.DistributedDataParallel(self.model)

    def forward(self, x):
        return self.parallel(x)

    def average(self):
        pass


class ByZero(Own):
    def __init__(self, me, task):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        from course_lib.capstone.running.task import ADAMW

        super().__init__(me, task)
        self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), optimizer_class=torch.optim.AdamW, **ADAMW)


class TellsTheOraclesLoss(Own):
    """Trains as it should, and asks the course's oracle what to tell."""

    number = 0

    def mean(self, loss):
        from course_lib.capstone.running.reference_run import on_one_device

        self.number += 1
        return on_one_device(self.task.capstone, self.number).losses[-1]


class Unwatched(ByTheCourse):
    """Switches off who counts, and on again behind it."""

    def average(self):
        before = sys.gettrace()
        sys.settrace(None)
        super().average()
        sys.settrace(before)


class InARawThread(ByTheCourse):
    """A thread of which Python's own module of threads knows nothing."""

    def average(self):
        done = threading.Event()

        def average():
            super(InARawThread, self).average()
            done.set()

        _thread.start_new_thread(average, ())
        done.wait()
