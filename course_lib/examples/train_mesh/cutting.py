"""From a model that is shapes alone to this rank's part of it: three of PyTorch's cuts, one after another.

The order matters: first between blocks (the pipeline's stage, ``mesh.py``), then within products of matrices
(tensor parallelism, DTensor), then what is left of each parameter (FSDP). The whole model is never on any rank.
"""

from __future__ import annotations

import argparse
import zlib

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from .mesh import Place
from .transformer import Transformer

__all__ = ["DTYPES", "cut_between_ranks", "cut_products", "fill", "make_model", "make_optimizer"]

_SEQUENCE = Shard(1)  # of a stream (B, T, C): each rank along tp has T / tp bytes of every sequence
# In which weights are kept.
DTYPES = {"float32": torch.float32, "bf16": torch.float32, "float64": torch.float64}


def make_model(place: Place, args: argparse.Namespace) -> Transformer:
    """This rank's part of the model, with its first values.

    On the meta device a tensor has a shape and no memory, so a model of any size can be made, and cut, on a laptop.
    ``to_empty`` gives memory to this rank's parts alone.
    """
    with torch.device("meta"):
        model = Transformer(
            args.layers, args.width, args.heads, args.context, blocks=place.blocks(args.layers),
            recompute=args.recompute,
        ).to(DTYPES[args.precision])  # fmt: skip
    if place.axes.tp > 1:
        cut_products(model, place.mesh["tp"])
    cut_between_ranks(model, place, bf16=args.precision == "bf16")
    model.to_empty(device=place.me.device)
    fill(model, args.seed)
    return model


def cut_products(model: Transformer, mesh: DeviceMesh) -> None:
    """Share out the heads, the channels within an MLP, and the bytes' values, among ranks that see the same samples.

    After Shoeybi et al., "Megatron-LM" (2019): of two products one after another the first is cut by columns, the
    second by rows, and one sum over the ranks comes after both. Between such pairs the stream is cut along the sequence
    (Korthikanti et al., "Reducing Activation Recomputation", 2022). Every parameter becomes a DTensor, those of the
    norms too, which all ranks keep whole: so each says along which axes it is cut and along which it is copied, and
    norms and checkpoints come out right.
    """
    whole = PrepareModuleInput(input_layouts=_SEQUENCE, desired_input_layouts=Replicate())
    in_block: dict[str, ParallelStyle] = {
        "attention_norm": SequenceParallel(),
        "attention": whole,  # gathers the sequence once for the three products
        "attention.query": ColwiseParallel(),
        "attention.key": ColwiseParallel(),
        "attention.value": ColwiseParallel(),
        "attention.out": RowwiseParallel(output_layouts=_SEQUENCE),
        "mlp_norm": SequenceParallel(),
        "mlp": whole,
        "mlp.wide": ColwiseParallel(),
        "mlp.out": RowwiseParallel(output_layouts=_SEQUENCE),
    }
    for block in model.blocks.values():
        parallelize_module(block, mesh, in_block)
    at_the_ends: dict[str, ParallelStyle] = {}
    if model.is_first:
        look_up = RowwiseParallel(input_layouts=Replicate(), output_layouts=_SEQUENCE)
        at_the_ends |= {"embedding": look_up, "positions": look_up}
    if model.is_last:
        head = ColwiseParallel(input_layouts=_SEQUENCE, output_layouts=Replicate())
        at_the_ends |= {"norm": SequenceParallel(), "head": head}
    parallelize_module(model, mesh, at_the_ends)


def cut_between_ranks(model: Transformer, place: Place, *, bf16: bool) -> None:
    """Cut every parameter along ``shard``, copy it along ``dp``, and let gradients be the mean over both (HSDP).

    Each block is a unit: its parameters are gathered together when it begins to compute. Without a pipeline they are
    let go after its forward; in one they stay until the step's last backward, or every micro-batch would gather them
    again. With ``bf16`` they travel and compute as bfloat16; gradients are added up in float32, and what each rank
    keeps and the optimizer changes stays float32.
    """
    mesh, lets_go = place.of_parameters, place.axes.pp == 1
    policy = root = MixedPrecisionPolicy()
    if bf16:
        policy = root = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        if model.is_last:  # the loss needs more than bfloat16's 8 bits of logits
            root = MixedPrecisionPolicy(torch.bfloat16, torch.float32, output_dtype=torch.float32)
    for block in model.blocks.values():  # from the inside out: the root takes what no block has taken
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=lets_go)
    fully_shard(model, mesh=mesh, mp_policy=root, reshard_after_forward=lets_go)


@torch.no_grad()
def fill(model: Transformer, seed: int) -> None:
    """Give every parameter its first values: the same for any mesh, and for a model that is not cut.

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
