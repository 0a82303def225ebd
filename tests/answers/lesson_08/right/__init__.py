"""Right answers of other styles than the reference: no learner sees them, and the judges have to accept them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from answers.lesson_08.right import along, models
from answers.lesson_08.right.sums import by_future, by_halves, by_messages
from torch import Tensor, nn
from torch.autograd import Function

from course_lib.cluster.base.rank import Rank
from course_lib.parallel.tensor import Shard, all_gather_split, all_reduce_identity, identity_all_reduce

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]


# -- 08.gates ---------------------------------------------------------------------------------------------------------


class GateWithAFlagOfOne(Function):
    """The flag saved as a tensor, the sum waited for by its future."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, is_entrance: bool) -> Tensor:
        ctx.save_for_backward(torch.tensor(is_entrance))
        return x if is_entrance else by_future(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (is_entrance,) = ctx.saved_tensors
        return (by_future(grads[0]) if is_entrance.item() else grads[0].clone()), None


class GateSetUpApart(Function):
    """The newer form of a function, ``setup_context``, and sums in two halves."""

    @staticmethod
    def forward(x: Tensor, is_entrance: bool) -> Tensor:
        return x.clone() if is_entrance else by_halves(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
        ctx.back = by_halves if inputs[1] else nn.Identity()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.back(grads[0]), None


class GateOfHooks:
    """No function of autograd at all: a hook at the entrance, a constant that is added at the exit."""

    @staticmethod
    def apply(x: Tensor, is_entrance: bool) -> Tensor:
        if not is_entrance:
            return x + (by_messages(x) - x.detach())
        entered = x.view_as(x)
        entered.register_hook(by_messages)
        return entered


# -- 08.mlp -----------------------------------------------------------------------------------------------------------


def mlp_by_einsum(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    """Index notation, and gates of one's own."""
    entered = GateWithAFlagOfOne.apply(x, True)
    up = torch.einsum("nd,hd->nh", entered, w_up) + b_up
    hidden = 0.5 * up * (1 + torch.erf(up / 2**0.5))
    return GateWithAFlagOfOne.apply(torch.einsum("nh,dh->nd", hidden, w_down), False).add(b_down)


def mlpby_messages(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    """Matrix products, and sums that go around a ring message by message."""
    hidden = nn.GELU()(torch.addmm(b_up, GateOfHooks.apply(x, True), w_up.t()))
    return b_down + GateOfHooks.apply(hidden @ w_down.mT, False)


def mlp_in_one_function(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    """One function of autograd, its backward written by hand."""
    return _WholeMlp.apply(x, w_up, b_up, w_down, b_down)


class _WholeMlp(Function):
    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        x, w_up, b_up, w_down, b_down = given
        up = x @ w_up.T + b_up
        ctx.save_for_backward(x, w_up, up, w_down)
        return by_halves(F.gelu(up) @ w_down.T) + b_down

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        (grad,) = grads
        x, w_up, up, w_down = ctx.saved_tensors
        bell = torch.exp(-up.square() / 2) / (2 * torch.pi) ** 0.5
        of_up = (grad @ w_down) * (0.5 * (1 + torch.erf(up / 2**0.5)) + up * bell)
        return by_future(of_up @ w_up), of_up.T @ x, of_up.sum(0), grad.T @ F.gelu(up), grad.sum(0)


def mlp_summed_in_place(me: Rank, x: Tensor, w_up: Tensor, b_up: Tensor, w_down: Tensor, b_down: Tensor) -> Tensor:
    """A plain all-reduce of the partial products: autograd does not see it, and hands the gradient on as it is."""
    layers = [lambda h: F.linear(h, w_up, b_up), F.gelu, lambda h: F.linear(h, w_down)]
    y = identity_all_reduce(me, x)
    for layer in layers:
        y = layer(y)
    dist.all_reduce(y)
    return y + b_down


# -- 08.norm ----------------------------------------------------------------------------------------------------------


def norm_by_a_hook(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """The gradient is summed by a hook on what the norm gives."""
    h = nn.functional.layer_norm(x, [x.shape[1]], weight=norm_weight)
    h.register_hook(by_future)
    return all_reduce_identity(me, F.gelu(h @ w_up.T) @ w_down.T) + x


def norm_by_hand(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """The norm written out, the gate at the first place where a cut matrix is used."""
    centred = x - x.mean(dim=1, keepdim=True)
    h = norm_weight * centred * torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + 1e-5)
    inside = torch.einsum("nd,hd->nh", identity_all_reduce(me, h), w_up)
    return torch.add(x, all_reduce_identity(me, torch.einsum("nh,dh->nd", F.gelu(inside), w_down)))


def norm_in_a_module(me: Rank, x: Tensor, norm_weight: Tensor, w_up: Tensor, w_down: Tensor) -> Tensor:
    """A module of PyTorch for the norm, called with the weight that was given, and gates of one's own."""
    norm = nn.LayerNorm(x.size(-1), bias=False, dtype=x.dtype, device=x.device)
    h = GateSetUpApart.apply(torch.func.functional_call(norm, {"weight": norm_weight}, (x,)), True)
    return x + GateSetUpApart.apply(F.linear(F.gelu(F.linear(h, w_up)), w_down), False)


# -- 08.loss ----------------------------------------------------------------------------------------------------------


def loss_by_log_sums(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    """Each rank's log-sum and target's logit are gathered, so no largest logit is agreed on."""
    size = logits.size(1)
    here = torch.div(targets, size, rounding_mode="floor") == me.rank
    found = logits[torch.arange(len(targets)), targets % size]
    both = torch.stack([torch.logsumexp(logits, dim=1), torch.where(here, found, 0.0)])
    every = all_gather_split(me, both[None], dim=0)  # (n, 2, N)
    return (torch.logsumexp(every[:, 0], dim=0) - every[:, 1].sum(dim=0)).mean()


def loss_by_one_hot(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    """The target's logit by a product with ones and zeros; three messages of one number a position."""
    largest = logits.max(dim=1).values.detach().clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, async_op=True).wait()
    tokens = me.rank * logits.size(1) + torch.arange(logits.size(1))
    shifted = logits - largest.unsqueeze(1)
    target = all_reduce_identity(me, (shifted * (tokens == targets.unsqueeze(1))).sum(dim=1))
    total = all_reduce_identity(me, torch.exp(shifted).sum(dim=1))
    return -(target - torch.log(total)).sum() / len(targets)


def loss_in_one_function(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    """One function of autograd, whose backward is softmax less one-hot."""
    return _WholeLoss.apply(logits, targets, me.rank)


class _WholeLoss(Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        logits, targets, rank = given
        top = logits.amax(dim=1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
        columns = torch.arange(logits.size(1)) + rank * logits.size(1)
        is_target = columns == targets[:, None]
        sums = torch.stack([(logits - top[:, None]).exp().sum(1), logits.masked_fill(~is_target, 0).sum(1)], dim=1)
        dist.all_reduce(sums)
        ctx.save_for_backward((logits - (top + sums[:, 0].log())[:, None]).exp() - is_target.double())
        return (top + sums[:, 0].log() - sums[:, 1]).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (difference,) = ctx.saved_tensors
        return grads[0] * difference / len(difference), None, None


def loss_position_by_position(me: Rank, logits: Tensor, targets: Tensor) -> Tensor:
    """A loop over positions in plain Python, and one loss at the end with a dimension of its own."""
    first, size = me.rank * logits.shape[1], logits.shape[1]
    tops = torch.stack([row.max() for row in logits.detach()])
    dist.all_reduce(tops, op=dist.ReduceOp.MAX)
    sums, found = [], []
    for row, top, target in zip(logits, tops, targets.tolist(), strict=True):
        sums.append((row - top).exp().sum())
        found.append(row[target - first] - top if first <= target < first + size else row.new_zeros(()))
    total, target_logit = all_reduce_identity(me, torch.stack([*sums, *found])).chunk(2)
    return (torch.log(total) - target_logit).mean(dim=0, keepdim=True)


RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any] | Any, ...]] = {
    "08.between": (
        {"B": Shard(0), "A": Shard(1)},
        dict(zip("ab", ("s( 1 )", "s( 0 )"), strict=True)),
        {"A": "Shard(dim=1)", "B": "Shard(dim=0)"},
        {"A": "S(-1)", "B": "S(-2)"},
    ),
    "08.gates": (GateWithAFlagOfOne, GateSetUpApart, GateOfHooks),
    "08.mlp": (mlp_by_einsum, mlpby_messages, mlp_in_one_function, mlp_summed_in_place),
    "08.heads": models.HEADS,
    "08.embedding": models.EMBEDDINGS,
    "08.norm": (norm_by_a_hook, norm_by_hand, norm_in_a_module),
    "08.loss": (loss_by_log_sums, loss_by_one_hot, loss_in_one_function, loss_position_by_position),
    "08.along": along.GATES,
    "08.positions": along.NORMS,
    "08.logits": models.LOGITS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "08.gates": {
        "forward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
        "backward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
    },
    "08.along": {
        "forward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
        "backward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
    },
    "08.heads": {
        "1: `entered = enter(me, x)` after `own_heads = num_heads // me.world_size`": "Neither line reads what the "
        "other makes.",
        "4: `F.linear(entered, w).unflatten(-1, (own_heads, -1)).transpose(1, 2)` -> `F.linear(entered, w)."
        "unflatten(-1, (own_heads, -1)).transpose(2, 1)`": "To exchange two dims is the same in both orders.",
        "8: `mixed.transpose(1, 2)` -> `mixed.transpose(2, 1)`": "To exchange two dims is the same in both orders.",
    },
    "08.embedding": {
        "2: `is_here = (place >= 0) & (place < len(table))` after `vectors = F.embedding(place.clamp(0, len(table) - "
        "1), table)`": "Neither line reads what the other makes.",
    },
    "08.norm": {"3: `-1` -> `1`": "x is (N, D): its last dim is dim 1."},
    "08.loss": {
        "3: `shifted = logits - largest[:, None]` after `size = logits.size(1)`": "Neither line reads what the other "
        "makes.",
        "6: `is_here = (place >= 0) & (place < size)` after `found = shifted.gather(1, place.clamp(0, size - 1)[:, "
        "None])[:, 0]`": "Neither line reads what the other makes.",
        "7: `0` -> `-1`": "What is gathered has one column, so the first is the last.",
    },
}
