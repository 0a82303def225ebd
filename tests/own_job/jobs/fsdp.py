"""A stranger's job: ``fully_shard``, two blocks and the rest."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from course_lib.own_job import recorded

dist.init_process_group("gloo")
rank, num_ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 128, bias=False))
num_bytes = sum(parameter.nbytes for parameter in model.parameters())
mesh = init_device_mesh("cpu", (num_ranks,))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
model(torch.randn(8, 64)).sum().backward()  # the first pass sets up
with recorded() as run:
    model(torch.randn(8, 64)).sum().backward()
if rank == 0:
    gathered = run.communication.of(operation=("all_gather", "all_gather_into_tensor"))
    print("counted", *[gathered.sent_bytes(each) for each in range(num_ranks)])
    print("formula", 2 * num_bytes * (num_ranks - 1) // num_ranks)  # before forward, and before backward
    print(run)
dist.destroy_process_group()
