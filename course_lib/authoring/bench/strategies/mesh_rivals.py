"""Training steps of a transformer on a mesh, two ways: by the course's ``OnMesh``, and of PyTorch's parts.

PyTorch's are put together as torchtitan does: ``parallelize_module`` and ``loss_parallel`` for ``tp``, a
``PipelineStage`` for ``pp``, ``fully_shard`` for ``dp_shard``, its ``DistributedDataParallel`` for ``dp_replicate``, on
one ``init_device_mesh``. Both train the same model, with the same stages, micro-batches and units; both end with the
mean loss of the batch on every rank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from course_lib.authoring.bench.strategies.tensor import block_plan
from course_lib.cluster.base.rank import Rank
from course_lib.layouts.mesh import Mesh

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh

    from course_lib.models import Transformer, TransformerConfig

__all__ = ["Step", "batch_of", "course_step", "torch_step"]

Step = Callable[[], "Tensor"]  # a training step; the mean loss, ()


def batch_of(config: TransformerConfig, batch_size: int, length: int) -> tuple[Tensor, Tensor]:
    """Tokens and the tokens that follow them, (B, T) each, the same on every rank."""
    import torch

    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(config.vocab_size, (batch_size, length + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def course_step(
    me: Rank, mesh: Mesh, config: TransformerConfig, batch: tuple[Tensor, Tensor]
) -> tuple[Step, Callable[[], None]]:
    """A step, and what ends the groups."""
    import torch

    from course_lib.models import Transformer
    from course_lib.parallel.mesh import OnMesh

    torch.manual_seed(0)
    model = OnMesh(me, mesh, Transformer(config))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    mine = model.data.deal(*batch)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = model.step(*mine)
        optimizer.step()
        return loss

    return step, model.close


def torch_step(me: Rank, mesh: Mesh, config: TransformerConfig, batch: tuple[Tensor, Tensor]) -> Step:
    """The same of PyTorch's parts."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh

    from course_lib.models import Transformer
    from course_lib.parallel.mesh import DataShare

    torch.manual_seed(0)
    device_mesh = init_device_mesh(me.device.type, mesh.shape, mesh_dim_names=mesh.axes)
    part, place = _own_part(mesh, me.rank, Transformer(config), device_mesh)
    module = _data_parallel(mesh, part.to(me.device), device_mesh)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    share = DataShare.of(mesh, me.rank)
    x, targets, _ = share.deal(*batch)
    x, targets = x.to(me.device), targets.to(me.device)
    there_and_back = _in_pipeline(me, mesh, module, place, device_mesh) if mesh.size("pp") > 1 else _on_its_own(module)
    counts = mesh.coordinates(me.rank).get("tp", 0) == 0  # of the ranks of tp, which all have the loss, the first

    def step() -> Tensor:
        optimizer.zero_grad()
        with _split_loss() if mesh.size("tp") > 1 else contextlib.nullcontext():
            loss = there_and_back(x, targets)
        optimizer.step()
        mean = torch.zeros((), dtype=torch.float64, device=me.device)
        if loss is not None and counts:
            mean += loss / share.count
        torch.distributed.all_reduce(mean)
        return mean

    return step


def _split_loss() -> contextlib.AbstractContextManager[None]:
    """Of logits cut by vocabulary, which stay cut."""
    from torch.distributed.tensor.parallel import loss_parallel

    return loss_parallel()


def _own_part(mesh: Mesh, rank: int, model: Transformer, device_mesh: DeviceMesh) -> tuple[nn.Module, int]:
    """The stage that is this rank's, its layers cut along ``tp``, and its number."""
    from course_lib.parallel.model import cut, parameter_costs, split_evenly

    costs = parameter_costs(model)  # before it is cut along tp
    if mesh.size("tp") > 1:
        _split_layers(model, device_mesh["tp"])
    if mesh.size("pp") == 1:
        return model, 0
    place = mesh.coordinates(rank)["pp"]
    return cut(model, split_evenly(costs, mesh.size("pp")))[place], place


def _split_layers(model: Transformer, device_mesh: DeviceMesh) -> None:
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        ParallelStyle,
        RowwiseParallel,
        parallelize_module,
    )

    for block in model.blocks:
        parallelize_module(block, device_mesh, block_plan())
    ends: dict[str, ParallelStyle] = {
        "stem.tokens": RowwiseParallel(input_layouts=Replicate()),
        "head.w_vocab": ColwiseParallel(use_local_output=False),
    }
    parallelize_module(model, device_mesh, ends)


def _data_parallel(mesh: Mesh, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    from course_lib.models import TransformerBlock

    if mesh.size("dp_shard") > 1:
        from torch.distributed.fsdp import fully_shard

        for block in [part for part in module.modules() if isinstance(part, TransformerBlock)]:
            fully_shard(block, mesh=device_mesh["dp_shard"])
        fully_shard(module, mesh=device_mesh["dp_shard"])
    elif mesh.size("dp_replicate") > 1:
        return DistributedDataParallel(module, process_group=device_mesh.get_group("dp_replicate"))
    return module


def _on_its_own(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor | None]:
    from course_lib.models import next_token_loss

    def there_and_back(x: Tensor, targets: Tensor) -> Tensor:
        loss = next_token_loss(module(x), targets)
        loss.backward()
        return _local(loss)

    return there_and_back


def _in_pipeline(
    me: Rank, mesh: Mesh, module: nn.Module, place: int, device_mesh: DeviceMesh
) -> Callable[[Tensor, Tensor], Tensor | None]:
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    from course_lib.models import next_token_loss

    num_stages = mesh.size("pp")
    stage = PipelineStage(module, place, num_stages, me.device, group=device_mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, n_microbatches=2 * num_stages, loss_fn=next_token_loss)

    def there_and_back(x: Tensor, targets: Tensor) -> Tensor | None:
        is_last = place == num_stages - 1
        losses: list[torch.Tensor] = []
        options: dict[str, Any] = {"target": targets, "losses": losses} if is_last else {}
        schedule.step(*((x,) if place == 0 else ()), return_outputs=False, **options)
        return torch.stack([_local(loss) for loss in losses]).mean() if is_last else None

    return there_and_back


def _local(loss: Tensor) -> Tensor:
    """A plain tensor, also of a DTensor that ``loss_parallel`` has left on all ranks."""
    detached: Any = loss.detach()
    return detached.to_local() if hasattr(detached, "to_local") else detached
