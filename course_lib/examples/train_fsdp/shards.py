"""From a model that is shapes alone to one that each rank holds a part of: the whole is never on any rank."""

from __future__ import annotations

import argparse
import zlib

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from .start import Rank
from .transformer import Transformer

__all__ = ["fill", "make_model", "make_optimizer", "shard"]


def make_model(me: Rank, args: argparse.Namespace) -> Transformer:
    """The model in parts, one a rank, with its first values.

    On the meta device a tensor has a shape and no memory, so a model of any size can be made, and cut, on a laptop.
    ``to_empty`` gives memory to this rank's parts alone.
    """
    with torch.device("meta"):
        model = Transformer(args.layers, args.width, args.heads, args.context, recompute=args.recompute)
    shard(me, model, bf16=args.bf16)
    model.to_empty(device=me.device)
    fill(model, args.seed)
    return model


def shard(me: Rank, model: Transformer, *, bf16: bool) -> None:
    """Cut every parameter into as many parts as there are ranks, along its first dim.

    Each block is a unit: its parameters are gathered together when it begins to compute, and let go when it has. The
    root takes what is left. With ``bf16`` they travel and compute as bfloat16; gradients are added up in float32, and
    what each rank keeps and the optimizer changes stays as it was made.
    """
    mesh = init_device_mesh(me.device.type, (me.world_size,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    # The loss needs more than bfloat16's 8 bits of logits.
    root = MixedPrecisionPolicy(torch.bfloat16, torch.float32, output_dtype=torch.float32)
    for block in model.blocks:  # from the inside out: the root takes what no block has taken
        fully_shard(block, mesh=mesh, mp_policy=policy if bf16 else MixedPrecisionPolicy())
    fully_shard(model, mesh=mesh, mp_policy=root if bf16 else MixedPrecisionPolicy())


@torch.no_grad()
def fill(model: Transformer, seed: int) -> None:
    """Give every parameter its first values: the same for any number of ranks, and for a model that is not cut.

    Each parameter has a generator of its own, whose seed follows from its name. Every rank draws the whole parameter,
    keeps its part, and lets the rest go: no message is sent, and memory is needed for one parameter at a time.
    CPUs and GPUs draw other values from a seed.
    """
    for name, parameter in model.named_parameters():
        whole = _draw(model, name, parameter, seed)
        if isinstance(parameter, DTensor):  # src_data_rank=None: all have the values, so nobody sends them
            whole = distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
        parameter.copy_(whole)


def _draw(model: Transformer, name: str, parameter: Tensor, seed: int) -> Tensor:
    """The whole parameter's first values, on its device."""
    whole = torch.ones(parameter.shape, dtype=parameter.dtype, device=parameter.device)
    if (std := model.first_std(name)) is not None:
        # hash() of a string differs from process to process; a checksum does not.
        generator = torch.Generator(parameter.device).manual_seed(zlib.crc32(f"{seed} {name}".encode()))
        whole.normal_(std=std, generator=generator)
    return whole


def make_optimizer(model: nn.Module, args: argparse.Namespace) -> torch.optim.AdamW:
    """AdamW over this rank's parts: its two moments are cut as the parameters are. Norms are not pulled towards 0."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": args.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))
