"""Awkward weights and inputs in what cuts a model: tensor, stages, experts, context, a mesh. As one process has it.

Those of data parallelism and of sharding are tried in ``data`` and ``sharded``; the weights by name are there too.
"""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.layouts.mesh import Mesh
from course_lib.layouts.sequence_cut import SequenceCut
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.context import all_to_all_attention, ring_attention
from course_lib.parallel.context.positions import own_positions
from course_lib.parallel.experts import ExpertParallel, MixtureOfExperts
from course_lib.parallel.mesh import OnMesh
from course_lib.parallel.model import ModelParallel
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.tensor import ColumnParallelLinear, RowParallelLinear
from course_lib.parallel.tensor.placements import Replicate, Shard, matmul_plan
from course_lib.parallel.tensor.redistribution import local_part, run_matmul
from course_lib.schedules import one_f_one_b

pytestmark = pytest.mark.xdist_group("parallel_awkward")

N = 2
TOLERANCES = {torch.float64: 1e-10, torch.complex128: 1e-10, torch.float16: 0.03, torch.bfloat16: 0.1}
LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2) if t.dim() > 1 else t,
    "with_gaps": lambda t: torch.stack([t, 7 * t], -1)[..., 0],
}


def laid_out(module: nn.Module, layout: str) -> nn.Module:
    """The module, its parameters with these strides."""
    for part in module.modules():
        for name, p in list(part._parameters.items()):
            if p is not None:
                setattr(part, name, nn.Parameter(LAYOUTS[layout](p.detach())))
    return module


def far(*pairs: tuple[Tensor, Tensor]) -> float:
    """The largest difference, by the largest number of what is right."""
    return max(((got - wanted).abs().max() / (wanted.abs().max() + 1e-30)).item() for got, wanted in pairs)


def size_of(y: Tensor) -> Tensor:
    return y.abs().square().sum()


def columns_then_rows(me, dtype: torch.dtype, layout: str, sequence_parallel: bool = False) -> float:
    torch.manual_seed(0)
    up, down = (laid_out(nn.Linear(*sizes, dtype=dtype), layout) for sizes in ((4, 6), (6, 4)))
    plain_up, plain_down = copy.deepcopy(up), copy.deepcopy(down)
    x = LAYOUTS[layout](torch.randn(2, 4, 4, dtype=dtype)).detach().requires_grad_()
    size_of(plain_down(torch.tanh(plain_up(x)))).backward()

    def own(t: Tensor) -> Tensor:
        return t.chunk(N, 1)[me.rank] if sequence_parallel else t

    first, second = (
        kind(me, whole, sequence_parallel=sequence_parallel)
        for kind, whole in ((ColumnParallelLinear, up), (RowParallelLinear, down))
    )
    part = own(x.detach()).requires_grad_()
    size_of(second(torch.tanh(first(part)))).backward()
    return far(
        (first.weight.grad, plain_up.weight.grad.chunk(N)[me.rank]),
        (first.bias.grad, plain_up.bias.grad.chunk(N)[me.rank]),
        (second.weight.grad, plain_down.weight.grad.chunk(N, 1)[me.rank]),
        (second.bias.grad, plain_down.bias.grad),
        (part.grad, own(x.grad)),
    )


def sequence_cut_too(me, dtype, layout):
    return columns_then_rows(me, dtype, layout, sequence_parallel=True)


def a_plans_product(me, dtype: torch.dtype, layout: str) -> float:
    x, a, grad_y = (LAYOUTS[layout](torch.randn(4, 4, dtype=dtype)).detach() for _ in range(3))
    x.requires_grad_(), a.requires_grad_()
    (x @ a).backward(grad_y)
    plan = matmul_plan(Replicate(), Shard(1), Shard(1))
    parts = (local_part(me, t.detach(), p) for t, p in ((x, plan.x), (a, plan.a), (grad_y, plan.y)))
    _, grad_x, grad_a = run_matmul(me, plan, *parts)
    return far((grad_x, x.grad), (grad_a, a.grad.chunk(N, 1)[me.rank]))


class Leaving(nn.Module):
    """A linear layer whose output has other strides."""

    def __init__(self, dtype: torch.dtype, layout: str) -> None:
        super().__init__()
        self.linear, self.layout = laid_out(nn.Linear(4, 4, dtype=dtype), layout), layout

    def forward(self, x: Tensor) -> Tensor:
        return LAYOUTS[self.layout](self.linear(x))


def stages(me, dtype: torch.dtype, layout: str) -> float:
    def loss_of(y: Tensor, target: Tensor) -> Tensor:
        return (y - target).square().mean()

    torch.manual_seed(0)
    parts, x, target = [Leaving(dtype, layout) for _ in range(N)], *torch.randn(2, 4, 4).to(dtype)
    plain, in_turn, piped = (copy.deepcopy(parts) for _ in range(3))
    loss_of(nn.Sequential(*plain)(x), target).backward()
    model = ModelParallel(me, in_turn)
    model.loss(loss_of, model(x), target).backward()
    Pipeline(me, piped, one_f_one_b(N, 2), loss_of).step(x, target)
    wanted = [p.grad for p in plain[me.rank].parameters()]
    got = [[p.grad for p in each[me.rank].parameters()] for each in (in_turn, piped)]
    return max(far(*zip(each, wanted, strict=True)) for each in got)


def experts(me, dtype: torch.dtype, layout: str) -> float:
    torch.manual_seed(0)
    whole = laid_out(MixtureOfExperts(6, hidden=8, num_experts=2 * N), layout).to(dtype)
    plain, x = copy.deepcopy(whole), LAYOUTS[layout](torch.randn(4 * N, 6, dtype=dtype))
    size_of(plain(x)).backward()
    layer = ExpertParallel(me, whole)
    size_of(layer(x.chunk(N)[me.rank])).backward()
    names = ("w_up", "w_down")
    wanted = [getattr(plain.experts, name).grad.chunk(N)[me.rank] for name in names]
    return far(*zip((getattr(layer.experts, name).grad for name in names), wanted, strict=True))


def context(me, dtype: torch.dtype, layout: str) -> float:
    torch.manual_seed(0)
    cut, found = SequenceCut(8, N), []
    whole = [LAYOUTS[layout](torch.randn(2, 4, 8, 6, dtype=dtype)).detach().requires_grad_() for _ in "qkv"]
    out = F.scaled_dot_product_attention(*whole, is_causal=True)
    size_of(out).backward()
    for attention in (ring_attention, all_to_all_attention):
        mine = [own_positions(cut, me.rank, t.detach(), dim=2).requires_grad_() for t in whole]
        got = attention(me, *mine, cut)
        size_of(got).backward()
        wanted = [own_positions(cut, me.rank, t, dim=2) for t in (out, *(w.grad for w in whole))]
        found.append(far(*zip((got, *(m.grad for m in mine)), wanted, strict=True)))
    return max(found)


def on_a_mesh(me, dtype: torch.dtype, layout: str) -> float:
    config = TransformerConfig(vocab_size=13, context_length=8, num_layers=2, width=8, num_heads=2)
    tokens = torch.arange(4 * 9).view(4, 9) % 13
    found = []
    x, targets = tokens[:, :-1], tokens[:, 1:]
    for axis in ("tp", "pp", "dp_shard", "dp_replicate"):
        torch.manual_seed(0)
        model = laid_out(Transformer(config), layout).to(dtype)
        plain = copy.deepcopy(model)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            wanted = next_token_loss(plain(x), targets)
            wanted.backward()
            optimizer.step()
        parts = OnMesh(me, Mesh.of(**{axis: N}), model)
        optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            got = parts.step(*parts.data.deal(x, targets))
            optimizer.step()
        parts.close()
        found.append(far((got, wanted.detach().double())))
    return max(found)


# Others refuse them, or cannot have any.
OF_COMPLEX_NUMBERS = [columns_then_rows, sequence_cut_too, a_plans_product]
STRATEGIES = [*OF_COMPLEX_NUMBERS, stages, experts, context, on_a_mesh]
ALL = [
    (strategy, dtype, layout)
    for strategy, dtype, layout in itertools.product(STRATEGIES, TOLERANCES, LAYOUTS)
    if strategy in OF_COMPLEX_NUMBERS or not dtype.is_complex
]
FEW = [
    *((strategy, torch.complex128, "transposed") for strategy in OF_COMPLEX_NUMBERS),
    *((strategy, torch.float64, "with_gaps") for strategy in STRATEGIES[:-1]),
]


def tried(me, cases) -> dict[str, float]:
    """For each case how far it is from one process, by what rounding may do."""
    return {
        f"{strategy.__name__} {dtype} {layout}": strategy(me, dtype, layout) / TOLERANCES[dtype]
        for strategy, dtype, layout in cases
    }


@pytest.mark.parametrize("cases", [FEW, pytest.param(ALL, marks=pytest.mark.long)], ids=["few", "all"])
def test_awkward_weights_and_inputs_are_those_of_one_process(clusters, cases):
    for found in clusters(N).call(tried, (cases,), show=False):
        assert len(found) == len(cases)
        assert {name: far for name, far in found.items() if not far <= 1.0} == {}
