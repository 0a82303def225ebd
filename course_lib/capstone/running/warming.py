"""Steps of the whole model on a rank that count for nothing: what they leave is no attempt's.

Libraries of mathematics keep buffers and the code that they have made for a processor, autograd keeps threads, PyTorch
looks each operation up once, and the scales and the meter make it look again. All of that fills C's heap, in a new rank
by more than a megabyte; after these steps it is there, and is not taken for what a run hides.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.memory.memory_limit import Weighing
from course_lib.capstone.running.task import ADAMW, batch_of, plain_model
from course_lib.cluster.base.rank import Rank
from course_lib.meter.communication.recorder import Recorder
from course_lib.models import next_token_loss

__all__ = ["warm"]


def warm(me: Rank, capstone: CapstoneJob) -> None:
    """One step with the scales, and one with the meter; every rank calls it, and nothing of it is kept."""
    model, (tokens, targets) = plain_model(capstone), batch_of(capstone)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)

    def step() -> None:
        optimizer.zero_grad()
        next_token_loss(model(tokens), targets).backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
            break
        optimizer.step()

    with Weighing(me.rank, sys.maxsize, (tokens, targets)):
        step()
    with Recorder(me.rank):
        step()
