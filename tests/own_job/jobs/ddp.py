"""A stranger's job: DDP. Prints what the meter counted and what the formula says, for each rank."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.own_job import recorded, watchdog

STEPS = 3
dist.init_process_group("gloo")
rank, num_ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
num_bytes = sum(parameter.nbytes for parameter in model.parameters())
with watchdog(quiet_s=60), recorded() as run:
    for _ in range(STEPS):
        model(torch.randn(8, 64)).sum().backward()
counted = run.communication.of(operation="all_reduce")
if rank == 0:
    print("counted", *[counted.sent_bytes(each) for each in range(num_ranks)])
    print("formula", STEPS * 2 * (num_ranks - 1) * num_bytes // num_ranks)
    print(run)
else:
    print(f"alone {rank}: {counted.sent_bytes(rank)}", flush=True)
dist.destroy_process_group()
