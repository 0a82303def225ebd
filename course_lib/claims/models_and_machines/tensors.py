"""Trials of what is said about cutting a layer: which cut gives what, what it sends, and whether it is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor import Shard as DTensorShard

from course_lib.claims.court.evidence import Evidence, Ranks, tries
from course_lib.claims.court.workloads import ROUNDING, distance, distance_text
from course_lib.cluster.api.cluster import Cluster
from course_lib.cluster.base.rank import Rank
from course_lib.meter import Communication, metered
from course_lib.models import Transformer, TransformerBlock, TransformerConfig
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    Placement,
    Replicate,
    RowParallelLinear,
    Shard,
    gradient_placement,
    local_part,
    matmul_plan,
    run_matmul,
    split_block,
    split_transformer,
)

__all__: list[str] = []

_N, _K, _M = 16, 1024, 32  # X is (N, K), A is (K, M)
_R, _ROWS, _COLUMNS = Replicate(), Shard(0), Shard(1)


def _operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, a = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((_N, _K), (_K, _M)))
    return x.to(dtype), a.to(dtype)


def _plainly(me: Rank) -> int:
    """A linear layer, forward and backward, in a process group; returns the weights that this rank holds."""
    layer = nn.Linear(_K, _M)
    layer(torch.ones(_N, _K)).sum().backward()
    return layer.weight.numel()


def _as_dtensors(me: Rank) -> int:
    """The same product by the same operator, of operands that say how they are cut."""
    mesh = init_device_mesh(me.device.type, (me.world_size,))
    x, a = _operands(torch.float32)
    x_cut = distribute_tensor(x.to(me.device), mesh, [DTensorShard(1)])
    a_cut = distribute_tensor(a.to(me.device), mesh, [DTensorShard(0)])
    product = x_cut @ a_cut
    assert isinstance(product, DTensor)  # its placement is partial sums, which somebody has to add up
    product.full_tensor()
    return a_cut.to_local().numel()


@tries("B3")
def tensor_parallelism_is_built_into_standard_operations(ranks: Ranks) -> Evidence:
    """A product on two ranks: of plain tensors, and of DTensors, which carry their placement."""
    plain, placed = (metered(ranks(2), function) for function in (_plainly, _as_dtensors))
    sums = {name: run.communication.of(operation="all_reduce").calls for name, run in (("plain", plain), ("D", placed))}
    cuts_plain, cuts_placed = plain[0] < _K * _M, placed[0] < _K * _M and bool(sums["D"])
    return Evidence(
        "holds" if cuts_plain else "misleading" if cuts_placed else "false",
        {
            "weights of the layer": _K * _M,
            "weights on a rank, plain tensors": plain[0],
            "collectives of plain tensors": len(plain.communication.calls),
            "weights on a rank, DTensors": placed[0],
            "all-reduces of DTensors, by rank": len(sums["D"]) // 2,
        },
        because="the operators can cut a DTensor, which carries its placement. A plain tensor is whole on every rank "
        "until the program cuts it",
        turns_if="the claim spoke of operations on DTensors: these cut, and add up, by themselves",
    )


def _products(me: Rank, a: Placement, dtype: torch.dtype) -> torch.Tensor:
    """X A on every rank, A cut as said and X cut to match."""
    plan = matmul_plan(_COLUMNS if a == _ROWS else _R, a, _R)
    x_whole, a_whole = _operands(dtype)
    parts = [local_part(me, x_whole, plan.x), local_part(me, a_whole, plan.a)]
    grad_y = local_part(me, torch.ones(_N, _M, dtype=dtype), gradient_placement(plan.y))
    return run_matmul(me, plan, *(part.to(me.device) for part in parts), grad_y.to(me.device))[0].cpu()


@tries("B4")
def a_product_cut_in_smaller_ones_has_the_same_result(ranks: Ranks) -> Evidence:
    """By columns and by rows on four ranks, in float64, and in float32 against the exact product."""
    x, a = _operands(torch.float64)
    size = float((x @ a).abs().mean())
    off, errors, bits = {}, {}, {}
    x32, a32 = _operands(torch.float32)
    exact, whole32 = x32.double() @ a32.double(), x32 @ a32
    for name, cut in (("columns", _COLUMNS), ("rows", _ROWS)):
        off[name] = distance(ranks(4).run(_products, cut, torch.float64)[0], x @ a) / size
        found = ranks(4).run(_products, cut, torch.float32)[0]
        errors[name] = distance(found.double(), exact) / size
        bits[name] = bool(torch.equal(found, whole32))
    errors["uncut"] = distance(whole32.double(), exact) / size
    same = max(off.values()) < ROUNDING and max(errors.values()) < 1e-4
    return Evidence(
        "holds" if same else "false",
        {
            "float64, largest difference": distance_text(max(off.values())),
            "float32, by rows: every bit the same": bits["rows"],
            "float32, all errors below 1e-4": max(errors.values()) < 1e-4,
        },
        timings={"float32, by columns: every bit the same": bits["columns"]}
        | {f"float32 error, {name}": f"{error:.1e}" for name, error in errors.items()},
        because="the algebra is the same. Sums in another order have other rounding errors, and neither order is exact",
        turns_if="every bit of the result had to be that of the uncut product (then it is false)",
    )


def _column_parts(me: Rank) -> torch.Tensor:
    x, a = _operands(torch.float64)
    return x @ local_part(me, a, _COLUMNS)


@tries("E9")
def columns_of_a_give_columns_of_y(ranks: Ranks) -> Evidence:
    """Two ranks multiply X by half of the columns of A each; what do the halves give side by side?"""
    run = metered(ranks(2), _column_parts)
    x, a = _operands(torch.float64)
    side_by_side = torch.cat(list(run), dim=1)
    apart = distance(side_by_side, x @ a) / float((x @ a).abs().mean())
    return Evidence(
        "holds" if apart < ROUNDING else "false",
        {
            "shapes of X A1 and X A2": ", ".join(str(tuple(part.shape)) for part in run),
            "largest difference to X A": distance_text(apart),
            "collectives": len(run.communication.calls),
        },
        because="a column of Y is X times one column of A, and does not depend on the others",
        turns_if="A was split by rows: the products of the parts are then added up, and not concatenated",
    )


def _one_layer(me: Rank, cut: str, out: str) -> None:
    """Forward through one cut linear layer; its output is wanted whole, or may stay cut."""
    layer, x = nn.Linear(8, 8), torch.ones(4, 8)
    if cut == "column":
        ColumnParallelLinear(me, layer, gather_output=out == "whole")(x)
    else:
        RowParallelLinear(me, layer, splits_input=True, sequence_parallel=out == "cut")(x)


def _operations(communication: Communication) -> str:
    return ", ".join(communication.by_operation()) or "nothing"


@tries("E10")
def columns_need_an_all_gather_and_rows_a_reduce_scatter(ranks: Ranks) -> Evidence:
    """A layer cut by columns and one cut by rows, whose output is wanted whole, and may stay cut: what is called?"""
    found = {
        (cut, out): _operations(metered(ranks(2), _one_layer, cut, out).communication)
        for cut in ("column", "row")
        for out in ("whole", "cut")
    }
    wanted = {"column": "all_gather", "row": "reduce_scatter"}
    right = [found[cut, out] == wanted[cut] for cut, out in found]
    verdict = "holds" if all(right) else "holds with conditions" if any(right) else "false"
    return Evidence(
        verdict,
        {f"{cut} cut, output {'stays cut' if out == 'cut' else 'whole'}": name for (cut, out), name in found.items()},
        because="it depends on where the output is needed. A column cut whose output stays cut needs nothing. A row "
        "cut whose output every rank needs takes an all-reduce: a reduce-scatter and an all-gather",
        turns_if="a column cut's output was always needed whole, and a row cut's always stayed cut (then it holds)",
    )


_CONFIG = TransformerConfig(vocab_size=8, context_length=8, width=16, num_heads=4)


def _block_forward(me: Rank) -> None:
    split_block(me, TransformerBlock(_CONFIG))(torch.ones(1, 8, 16))


def _block_both(me: Rank) -> None:
    split_block(me, TransformerBlock(_CONFIG))(torch.ones(1, 8, 16, requires_grad=True)).sum().backward()


def _model_forward(me: Rank, num_layers: int) -> None:
    split_transformer(me, Transformer(replace(_CONFIG, num_layers=num_layers)))(torch.zeros(1, 8, dtype=torch.int64))


def _calls(cluster: Cluster, function: Callable[..., None], *args: int) -> int:
    return len(metered(cluster, function, *args).communication.of(0).calls)


@tries("E11")
def tensor_parallelism_communicates_within_every_layer(ranks: Ranks) -> Evidence:
    """Calls of a rank in a block, forward and backward, and in models of one to three blocks."""
    cluster = ranks(2)
    forward, both = _calls(cluster, _block_forward), _calls(cluster, _block_both)
    by_layers = [_calls(cluster, _model_forward, number) for number in (1, 2, 3)]
    more = [after - before for before, after in pairwise(by_layers)]
    every = forward > 0 and both > forward and all(extra == forward for extra in more)
    return Evidence(
        "holds" if every else "false",
        {
            "calls of a block, forward": forward,
            "calls of a block, backward": both - forward,
            "calls forward, models of 1, 2 and 3 blocks": ", ".join(map(str, by_layers)),
        },
        because="a block has two split regions, attention and MLP, and each ends with an all-reduce. Between the two "
        "matrices of a region nothing is sent",
        turns_if='"layer" meant a single matrix: between the two matrices of a region nothing is sent',
    )
