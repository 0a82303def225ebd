"""A stranger's job: a mesh of data times tensor parallelism, by PyTorch's ``parallelize_module`` and DDP by hand."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from course_lib.own_job import recorded

ROWS, WIDTH, INNER = 8, 32, 64
dist.init_process_group("gloo")
rank, num_ranks = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (num_ranks // 2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, INNER, bias=False), nn.ReLU(), nn.Linear(INNER, WIDTH, bias=False))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
x = torch.randn(ROWS, WIDTH)
with recorded() as run:
    model(x).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad.to_local(), group=mesh["dp"].get_group())
if rank == 0:
    print("counted", *[run.communication.sent_bytes(each) for each in range(num_ranks)])
    of_rows = 2 * 1 * ROWS * WIDTH * 4 // 2  # one all-reduce over two ranks, forward; x needs no gradient
    of_gradients = 2 * (num_ranks // 2 - 1) * (2 * WIDTH * INNER * 4 // 2) // (num_ranks // 2)
    print("formula", of_rows + of_gradients)
    print(run)
dist.destroy_process_group()
