"""A stranger's job: two stages of ``torch.distributed.pipelining``, 1F1B."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from course_lib.own_job import recorded

MICRO_BATCHES, ROWS, WIDTH = 4, 8, 32
dist.init_process_group("gloo")
rank, num_ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
stage = PipelineStage(nn.Linear(WIDTH, WIDTH), rank, num_ranks, torch.device("cpu"))
schedule = Schedule1F1B(stage, MICRO_BATCHES, loss_fn=lambda output, target: (output - target).square().mean())
x, target = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)


def step():
    if rank == 0:
        schedule.step(x)
    elif rank == num_ranks - 1:
        schedule.step(target=target)
    else:
        schedule.step()


step()  # the first step agrees on shapes
with recorded() as run:
    step()
if rank == 0:
    sent = run.communication.of(operation="send")
    print("counted", *[sent.sent_bytes(each) for each in range(num_ranks)])
    crossing = ROWS * WIDTH * 4  # all micro-batches together, in each direction
    print("formula", *[crossing * (min(each, 1) + min(num_ranks - 1 - each, 1)) for each in range(num_ranks)])
    print(run)
dist.destroy_process_group()
