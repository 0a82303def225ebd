"""A short run of every strategy, on whatever device ``me`` has: for tests that ask how it behaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_07.right import runs
from torch import nn

from course_lib.cluster import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel import collectives
from course_lib.parallel.context import context_loss, split_context
from course_lib.parallel.data import DistributedDataParallel, SyncBatchNorm, find_divergence
from course_lib.parallel.experts import (
    ExpertParallel,
    MixtureOfExperts,
    count_choices,
    load_balancing_loss,
    update_selection_bias,
)
from course_lib.parallel.experts import (
    average_gradients as average_expert_gradients,
)
from course_lib.parallel.mesh import MeshGroups, OnMesh, clip_gradients
from course_lib.parallel.model import ModelParallel, cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline import Pipeline, RowStage, average_gradients
from course_lib.parallel.sharded import FullySharded, ShardedOptimizer
from course_lib.parallel.tensor import split_transformer, vocab_parallel_cross_entropy
from course_lib.schedules import SCHEDULES, get_schedule

NUM_STEPS = 2
CONFIG = TransformerConfig(vocab_size=13, context_length=8, num_layers=2, width=16, num_heads=4, hidden=22)


def layers(num: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(num)]


def batch(me: Rank) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.randn(2, 8, 6, generator=torch.Generator().manual_seed(me.rank)).to(me.device)
    return x, y


def tokens(me: Rank) -> torch.Tensor:
    return torch.randint(13, (2, 9), generator=torch.Generator().manual_seed(1)).to(me.device)


def all_collectives(me: Rank) -> list[Any]:
    n = me.world_size
    x = torch.arange(2.0 * n * n, device=me.device).reshape(n * n, 2) + me.rank
    out = torch.empty(n, 2, device=me.device)
    sums = [collectives.all_reduce(me, x, algorithm=name).tolist() for name in collectives.ALL_REDUCE_ALGORITHMS]
    sums.append(collectives.hierarchical_all_reduce(me, x, 2 if n % 2 == 0 else 1).tolist())
    moved = [
        collectives.broadcast(me, x, root=0),
        collectives.reduce(me, x, root=0),
        collectives.gather(me, x, root=0),
        collectives.scatter(me, x if me.rank == 0 else None, out=out, root=0),
        collectives.all_gather(me, x),
        collectives.reduce_scatter(me, x),
        collectives.all_to_all(me, x),
    ]
    return [sums, *(None if one is None else one.tolist() for one in moved)]


def ddp(me: Rank) -> Any:
    model = DistributedDataParallel(me, nn.Sequential(*layers(2)).to(me.device))
    return trained(me, model)


def ddp_with_an_unused_layer(me: Rank) -> Any:
    class Skips(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = layers(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    return trained(me, DistributedDataParallel(me, Skips().to(me.device), find_unused_parameters=True))


def sync_batch_norm(me: Rank) -> Any:
    model = nn.Sequential(layers(1)[0], SyncBatchNorm(me, 6)).to(me.device)
    return trained(me, DistributedDataParallel(me, model))


def trained(me: Rank, model: nn.Module) -> Any:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    x, y = batch(me)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return values_of(model)


def drift(me: Rank) -> Any:
    model = nn.Linear(3, 2).to(me.device)
    with torch.no_grad():
        model.bias += me.rank
    return str(find_divergence(me, model))


def model_parallel(me: Rank) -> Any:
    model = nn.Sequential(*layers(4))
    parts = ModelParallel(me, cut(model, split_evenly(parameter_costs(model), me.world_size)))
    x, y = batch(me)
    for by_hand in (True, False):
        given, wanted = x if parts.is_first else None, y if parts.is_last else None
        if by_hand:
            parts.forward_backward(given, wanted, F.mse_loss)
        else:
            parts.loss(F.mse_loss, parts(given), wanted).backward()
    return values_of(parts.part)


def pipeline(me: Rank, kind: str) -> Any:
    schedule = get_schedule(kind, me.world_size, 4)
    line = Pipeline(me, layers(schedule.num_stages), schedule, F.mse_loss)
    for _ in range(NUM_STEPS):
        line.step(*batch(me))
    groups = [dist.new_group([rank]) for rank in range(me.world_size)]  # one pipeline: a stage is on one rank
    average_gradients(line, groups[me.rank])
    return [p.grad.tolist() for p in line.parameters()]


def pipeline_by_rows(me: Rank) -> Any:
    """A loop as learners write it, which starts messages that cross together."""
    schedule = get_schedule("1f1b", me.world_size, 4)
    stage = RowStage(me, layers(me.world_size), batch(me), 4, F.mse_loss, (2, 6))
    runs.crossing_by_rank(me, [action.short for action in schedule.rows[me.rank]], stage)
    return [p.grad.tolist() for p in stage.module.parameters()]


def tensor_parallel(me: Rank, sequence_parallel: bool) -> Any:
    torch.manual_seed(0)
    model = split_transformer(me, Transformer(CONFIG).double().to(me.device), sequence_parallel=sequence_parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    given = tokens(me)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        vocab_parallel_cross_entropy(me, model(given[:, :-1]), given[:, 1:], vocab_size=13).backward()
        optimizer.step()
    return values_of(model)


def context_parallel(me: Rank, way: str) -> Any:
    torch.manual_seed(0)
    cut = SequenceCut(8, me.world_size)
    split = split_context(me, Transformer(CONFIG).double().to(me.device), cut, way=way, tile=3)
    model = DistributedDataParallel(me, split)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    given = tokens(me)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        context_loss(me, model(given[:, :-1]), given[:, 1:], cut).backward()
        optimizer.step()
    return values_of(model)


def ddp_of_a_transformer(me: Rank) -> Any:
    torch.manual_seed(0)
    model = DistributedDataParallel(me, Transformer(CONFIG).double().to(me.device))
    given = tokens(me)
    for _ in range(NUM_STEPS):
        next_token_loss(model(given[:, :-1]), given[:, 1:]).backward()
    return values_of(model)


def fully_sharded(me: Rank, **options: Any) -> Any:
    model = FullySharded(me, nn.Sequential(*layers(3)).to(me.device), **options)
    trained(me, model)
    return [tensor.tolist() for tensor in model.full_state_dict().values()]


def sharded_optimizer(me: Rank, stage: int) -> Any:
    model = nn.Sequential(*layers(3)).to(me.device)
    optimizer = ShardedOptimizer(me, model.parameters(), torch.optim.AdamW, stage=stage, lr=0.1)
    x, y = batch(me)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.clip_grad_norm(0.5)
        optimizer.step()
    return values_of(model)


def experts(me: Rank, data_ranks: int, capacity_factor: float | None) -> Any:
    """Experts shared out, and experts that all ranks hold, on a mesh of data x experts where the ranks fill one."""
    data_ranks = data_ranks if me.world_size % data_ranks == 0 else 1
    mesh = Mesh.of(dp_replicate=data_ranks, ep=me.world_size // data_ranks)
    groups = MeshGroups(me, mesh, together=[("dp_replicate", "ep")])
    torch.manual_seed(0)
    whole = MixtureOfExperts(6, hidden=8, num_experts=5, capacity_factor=capacity_factor)
    own = ExpertParallel(me, whole, group=groups.group("ep"))
    everybodys = MixtureOfExperts(6, hidden=4, num_experts=3, capacity_factor=capacity_factor)
    model = nn.Sequential(*layers(1), own, everybodys, *layers(1)).to(me.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    x, y = batch(me)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        (F.mse_loss(model(x), y) + 0.1 * load_balancing_loss(me, own.routing)).backward()
        average_expert_gradients(model, groups)
        optimizer.step()
        update_selection_bias(own.router, count_choices(me, own.routing))
    groups.close()
    return values_of(model)


def on_mesh(me: Rank, mesh: str) -> Any:
    """``mesh`` with ``n`` for the number of ranks: "dp_shard=n"."""
    placed = Mesh.parse(mesh.replace("=n", f"={me.world_size}"))
    torch.manual_seed(0)
    model = OnMesh(me, placed, Transformer(CONFIG).double())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    given = torch.randint(13, (13, 9), generator=torch.Generator().manual_seed(1))
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        model.step(*model.data.deal(given[:, :-1], given[:, 1:]))
        clip_gradients(model, 0.1)
        optimizer.step()
    return [p.tolist() for p in model.parameters()]


def values_of(model: nn.Module) -> list[Any]:
    return [p.tolist() for p in model.parameters()]


STRATEGIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "collectives": (all_collectives, ()),
    "DDP": (ddp, ()),
    "DDP, unused layer": (ddp_with_an_unused_layer, ()),
    "DDP, transformer": (ddp_of_a_transformer, ()),
    "SyncBatchNorm": (sync_batch_norm, ()),
    "drift": (drift, ()),
    "model parallel": (model_parallel, ()),
    **{f"pipeline, {kind}": (pipeline, (kind,)) for kind in SCHEDULES},
    "pipeline, by rows": (pipeline_by_rows, ()),
    "experts": (experts, (1, None)),
    "experts x data": (experts, (2, 1.0)),
    "sharded, stage 1": (sharded_optimizer, (1,)),
    "sharded, stage 2": (sharded_optimizer, (2,)),
    "sharded, stage 3": (fully_sharded, ()),
    "context, ring": (context_parallel, ("ring",)),
    "context, all-to-all": (context_parallel, ("all_to_all",)),
    "tensor parallel": (tensor_parallel, (False,)),
    "tensor and sequence parallel": (tensor_parallel, (True,)),
    "mesh, replicas": (on_mesh, ("dp_replicate=n",)),
    "mesh, shards": (on_mesh, ("dp_shard=n",)),
    "mesh, pipeline": (on_mesh, ("pp=n",)),
}

# Those that need four ranks.
COMBINATIONS = ("pp=2 dp_shard=2", "dp_shard=2 tp=2", "pp=2 tp=2", "dp_replicate=2 dp_shard=2")
