"""A stranger's job in which rank 1 never comes to the second step; ends by itself once the watchdog has spoken."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.own_job import watchdog


def train(folder):
    model = DistributedDataParallel(nn.Linear(64, 64))
    with watchdog(quiet_s=2, folder=folder):
        for step in range(3):
            while step == 1 and dist.get_rank() == 1 and not (folder / "hang.txt").exists():
                time.sleep(0.2)
            if step == 1 and dist.get_rank() == 1:
                os._exit(3)
            model(torch.randn(8, 64)).sum().backward()


dist.init_process_group("gloo")
train(Path(sys.argv[1]))
