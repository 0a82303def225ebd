"""Layers cut among ranks against the unsplit ones: values, gradients, bytes, order, dropout, and bad sizes."""

from __future__ import annotations

import pytest
import torch
from split_cases import differ, drawn, mine
from torch import nn
from torch._C._distributed_c10d import Work
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.cluster import Rank, RankFailed
from course_lib.meter import metered
from course_lib.models import Transformer, TransformerConfig
from course_lib.models.transformer import Attention
from course_lib.parallel.tensor import (
    ColumnParallelLinear,
    HeadParallelAttention,
    Region,
    RowParallelLinear,
    SequenceParallelNorm,
    VocabParallelEmbedding,
    split_transformer,
    vocab_parallel_cross_entropy,
)

B, T, D = 2, 8, 12


# -- columns and rows -----------------------------------------------------------------------------------------


def columns_and_rows(me: Rank, hidden: int, sequence_parallel: bool, regather: bool) -> list[int]:
    """relu(x U + b) V + c, cut by columns and then by rows, against the unsplit layers."""
    torch.manual_seed(0)
    up, down = nn.Linear(D, hidden).double(), nn.Linear(hidden, D).double()
    options = {"sequence_parallel": sequence_parallel}
    first = ColumnParallelLinear(me, up, **options, regather=regather)
    second = RowParallelLinear(me, down, **options)
    x, weight = drawn(B, T, D).requires_grad_(), drawn(B, T, D, seed=2)
    wanted = down(torch.relu(up(x)))
    (wanted * weight).sum().backward()

    own = (lambda t: mine(me, t, 1)) if sequence_parallel else (lambda t: t)
    part = own(x.detach()).clone().requires_grad_()
    got = second(torch.relu(first(part)))
    (got * own(weight)).sum().backward()
    return differ(
        (got, own(wanted)),
        (part.grad, own(x.grad)),
        (first.weight, mine(me, up.weight, 0)),  # initialised as the unsplit layer
        (first.weight.grad, mine(me, up.weight.grad, 0)),
        (first.bias.grad, mine(me, up.bias.grad, 0)),
        (second.weight, mine(me, down.weight, 1)),
        (second.weight.grad, mine(me, down.weight.grad, 1)),
        (second.bias.grad, down.bias.grad),
    )


@pytest.mark.parametrize("hidden", [16, 13, 6])  # 13 and 6 do not divide by 4
@pytest.mark.parametrize(("sequence_parallel", "regather"), [(False, False), (True, False), (True, True)])
def test_columns_then_rows_equal_the_unsplit_layers(cluster2, cluster4, hidden, sequence_parallel, regather):
    for cluster in (cluster2, cluster4):
        wrong = cluster.call(columns_and_rows, (hidden, sequence_parallel, regather))
        assert list(wrong) == [[]] * cluster.world_size


def whole_at_both_ends(me: Rank) -> list[int]:
    torch.manual_seed(0)
    whole = nn.Linear(D, 8).double()
    x, weight = drawn(B, T, D).requires_grad_(), drawn(B, T, 8, seed=2)
    wanted = whole(x)
    (wanted * weight).sum().backward()
    pairs = []
    for layer in (
        ColumnParallelLinear(me, whole, gather_output=True),
        RowParallelLinear(me, whole, splits_input=True),
    ):
        again = x.detach().clone().requires_grad_()
        got = layer(again)
        (got * weight).sum().backward()
        dim = 0 if isinstance(layer, ColumnParallelLinear) else 1
        pairs += [(got, wanted), (again.grad, x.grad), (layer.weight.grad, mine(me, whole.weight.grad, dim))]
    return differ(*pairs)


def test_layers_may_be_whole_at_both_ends(cluster4):
    assert list(cluster4.call(whole_at_both_ends)) == [[]] * 4


def frozen_and_first(me: Rank) -> tuple:
    """A frozen weight gets no gradient, and stays frozen; an input without gradient sends none."""
    from course_lib.meter.communication.recorder import Recorder

    whole = nn.Linear(D, 8)
    whole.weight.requires_grad_(False)
    layer = ColumnParallelLinear(me, whole)
    with Recorder(me.rank) as recorder:
        layer(torch.ones(B, T, D)).sum().backward()
    return layer.weight.requires_grad, layer.weight.grad, layer.bias.grad is None, len(recorder.calls)


def test_frozen_weights_and_first_layers_cost_nothing(cluster2):
    assert list(cluster2.call(frozen_and_first)) == [(False, None, False, 0)] * 2


class Order(TorchDispatchMode):
    """The names of the matmuls, the collectives, and the waits for them, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __enter__(self):
        self.plain_wait = Work.wait
        Work.wait = lambda work, *args: self.names.append("wait") or self.plain_wait(work, *args)
        return super().__enter__()

    def __exit__(self, *error):
        Work.wait = self.plain_wait
        return super().__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        library, name = str(function).split(".")[:2]
        if library == "c10d" or name in ("mm", "addmm"):
            self.names.append(name.strip("_"))
        return function(*args, **(kwargs or {}))


def backward_order(me: Rank, sequence_parallel: bool, regather: bool) -> list[str]:
    whole = nn.Linear(D, 8)
    layer = ColumnParallelLinear(me, whole, sequence_parallel=sequence_parallel, regather=regather)
    y = layer(torch.ones(B, 4, D, requires_grad=True))
    with Order() as order:
        y.sum().backward()
    return order.names


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((False, False), "mm allreduce mm wait"),  # the input's gradient, on its way, the weight's, arrived
        ((True, False), "mm reduce_scatter_base mm wait"),
        ((True, True), "allgather_base mm reduce_scatter_base wait mm wait"),
    ],
)
def test_the_weights_gradient_is_computed_while_the_inputs_travels(cluster2, options, wanted):
    assert list(cluster2.call(backward_order, options)) == [wanted.split()] * 2


# -- attention ------------------------------------------------------------------------------------------------


def attended(me: Rank, num_kv_heads: int, sequence_parallel: bool) -> list[int]:
    torch.manual_seed(0)
    config = TransformerConfig(width=16, num_heads=8, num_kv_heads=num_kv_heads, bias=True)
    whole = Attention(config).double()
    for bias in (whole.w_q.bias, whole.w_k.bias, whole.w_v.bias, whole.w_out.bias):
        nn.init.normal_(bias)
    layer = HeadParallelAttention(me, whole, sequence_parallel=sequence_parallel)
    x, weight = drawn(B, T, 16).requires_grad_(), drawn(B, T, 16, seed=2)
    wanted = whole(x)
    (wanted * weight).sum().backward()
    own = (lambda t: mine(me, t, 1)) if sequence_parallel else (lambda t: t)
    part = own(x.detach()).clone().requires_grad_()
    got = layer(part)
    (got * own(weight)).sum().backward()
    grads = [
        (getattr(layer, name).weight.grad, mine(me, getattr(whole, name).weight.grad, dim))
        for name, dim in (("w_q", 0), ("w_k", 0), ("w_v", 0), ("w_out", 1))
    ]
    return differ((got, own(wanted)), (part.grad, own(x.grad)), *grads)


@pytest.mark.parametrize("num_kv_heads", [8, 4])  # 4: two query heads share one key/value head
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_attention_by_heads_equals_the_unsplit_one(cluster2, cluster4, num_kv_heads, sequence_parallel):
    for cluster in (cluster2, cluster4):
        wrong = cluster.call(attended, (num_kv_heads, sequence_parallel))
        assert list(wrong) == [[]] * cluster.world_size


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda me: HeadParallelAttention(me, Attention(TransformerConfig(width=9, num_heads=3))),
            "3 query heads do not divide among 2 ranks.*Take 1 rank, or a model with 4 query heads",
        ),
        (
            lambda me: HeadParallelAttention(me, Attention(TransformerConfig(width=8, num_heads=4, num_kv_heads=1))),
            "1 key/value heads do not divide among 2 ranks.*with 2 key/value heads",
        ),
        (
            lambda me: ColumnParallelLinear(me, nn.Linear(4, 7), gather_output=True),
            "out_features=7 does not divide among 2 ranks.*gather_output=True.*is 8",
        ),
        (
            lambda me: RowParallelLinear(me, nn.Linear(5, 4), splits_input=True),
            "in_features=5 does not divide among 2 ranks.*splits_input=True.*is 6",
        ),
        (lambda me: ColumnParallelLinear(me, nn.Linear(4, 1)), "dim 0 has size 1.*2 ranks.*at least 2"),
        (lambda me: Region(me, regather=True), "regather=True needs sequence_parallel=True"),
        (
            lambda me: ColumnParallelLinear(me, nn.Identity()),
            r"linear=Identity\(\) does not work: linear is a Linear",
        ),
        (lambda me: RowParallelLinear(me, nn.Embedding(4, 4)), "whole is a Linear"),
        (lambda me: SequenceParallelNorm(me, nn.BatchNorm1d(4)), "whole is a LayerNorm"),
        (lambda me: VocabParallelEmbedding(me, nn.Linear(4, 4)), "whole is an Embedding"),
        (lambda me: HeadParallelAttention(me, nn.Linear(4, 4)), "whole is an Attention"),
        (lambda me: split_transformer(me, nn.Linear(4, 4)), "model is a Transformer"),
    ],
)
def test_bad_input_gets_a_sentence(cluster2, call, message):
    with pytest.raises(RankFailed, match=f"(?s)(ValueError|WrongKind).*{message}"):
        cluster2.call(call)


# -- norms ----------------------------------------------------------------------------------------------------


def norm_of_own_positions(me: Rank, options: dict) -> tuple[list[int], int]:
    """A norm on this rank's positions against the whole one, and how many parameters it has."""
    torch.manual_seed(0)
    whole = nn.LayerNorm(D, **options).double()
    for parameter in whole.parameters():
        nn.init.normal_(parameter)
    norm = SequenceParallelNorm(me, whole)
    x, weight = drawn(B, T, D).requires_grad_(), drawn(B, T, D, seed=2)
    wanted = whole(x)
    (wanted * weight).sum().backward()
    part = mine(me, x.detach(), 1).clone().requires_grad_()
    got = norm(part)
    (got * mine(me, weight, 1)).sum().backward()
    gradients = zip(norm.parameters(), whole.parameters(), strict=True)
    pairs = [(one.grad, other.grad) for one, other in gradients]
    return differ((got, mine(me, wanted, 1)), (part.grad, mine(me, x.grad, 1)), *pairs), len(pairs)


@pytest.mark.parametrize(("options", "count"), [({}, 2), ({"bias": False}, 1), ({"elementwise_affine": False}, 0)])
def test_a_norm_has_the_parameters_of_the_whole_one(cluster4, options, count):
    run = metered(cluster4, norm_of_own_positions, options)
    assert list(run) == [([], count)] * 4
    assert len(run.communication.of(0).calls) == (1 if count else 0)  # one message for both gradients


# -- nothing to compute ---------------------------------------------------------------------------------------


def nothing(me: Rank, shape: tuple, way: dict) -> list:
    """A batch of nothing, or one vector, through columns and rows, and attention: shapes, and gradients of zero."""
    torch.manual_seed(0)
    up, down = nn.Linear(D, 8).double(), nn.Linear(8, D).double()
    first = ColumnParallelLinear(me, up, **way)
    second = RowParallelLinear(me, down, sequence_parallel="sequence_parallel" in way)
    x = torch.zeros(shape, dtype=torch.float64).requires_grad_()
    y = second(torch.relu(first(x)))
    if len(shape) == 3:
        whole = Attention(TransformerConfig(width=D, num_heads=4)).double()
        y = HeadParallelAttention(me, whole, **way)(y)
    y.sum().backward()
    return [tuple(y.shape), tuple(x.grad.shape), float(first.weight.grad.abs().max())]


@pytest.mark.parametrize("way", [{}, {"sequence_parallel": True}, {"sequence_parallel": True, "regather": True}])
def test_an_empty_batch_passes_and_leaves_gradients_of_zero(cluster2, way):
    shapes = [(0, T // 2, D), (B, 0, D), (0, D)] if way else [(0, T, D), (B, 0, D), (0, D), (D,)]
    for shape in shapes:
        assert list(cluster2.call(nothing, (shape, way))) == [[shape, shape, 0.0]] * 2


def no_tokens(me: Rank, way: dict) -> list:
    model = Transformer(TransformerConfig(vocab_size=13, context_length=T, width=D, num_heads=4, num_layers=1))
    model = split_transformer(me, model, **way)
    tokens = torch.empty(0, T, dtype=torch.int64)
    loss = vocab_parallel_cross_entropy(me, model(tokens), tokens, vocab_size=13, reduction="sum")
    loss.backward()
    return [loss.item(), all(float(p.grad.abs().sum()) == 0 for p in model.parameters())]


@pytest.mark.parametrize("way", [{}, {"sequence_parallel": True}])
def test_a_split_transformer_takes_an_empty_batch(cluster2, way):
    assert list(cluster2.call(no_tokens, (way,))) == [[0.0, True]] * 2
