"""BatchNorm over the batch of all ranks: sums go round, so that every rank normalises by the same mean and variance.

With data parallelism each rank sees a part of the batch, and ``nn.BatchNorm2d`` normalises by that part alone: the
model then computes something else than one process on the whole batch would. Here the ranks add up how many
values a channel has, their sum and the sum of their squares, one all-reduce in each forward pass; and two more sums
in each backward pass, for every output of every rank depends on every input through mean and variance.

PyTorch's ``nn.SyncBatchNorm`` does the same on GPUs, where it belongs in production; it refuses CPU tensors.
Ioffe and Szegedy, "Batch Normalization", 2015, https://arxiv.org/abs/1502.03167 (backward: section 3).

Shapes: N this rank's items (they may differ in number, even be 0), C channels, * any further dims; in
comments n is the number of values a channel has on all ranks together, (sum of N) x the sizes in *.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from course_lib.cluster.base.rank import Rank

__all__ = ["SyncBatchNorm"]


class SyncBatchNorm(_BatchNorm):
    """``nn.BatchNorm1d/2d/3d`` whose mean and variance are those of all ranks' items together.

    (N, C, *) -> (N, C, *). Parameters, buffers and ``state_dict`` are those of ``nn.BatchNorm2d``. In training
    each call is one all-reduce of 2 C + 1 float64 numbers forward and one of 2 C numbers backward, so all ranks
    have to call alike. In evaluation nothing is sent.

    Gradients: that of the input is complete. Those of weight and bias are this rank's part, as for every
    other layer: their sum over ranks is the gradient on the whole batch, and data parallelism adds them up.

    Raises ``ValueError`` for an input without channels, and for a single value per channel, which has no variance
    (found out on CPUs only: to read the count would keep a GPU waiting).
    """

    def __init__(self, me: Rank, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
                 affine: bool = True, track_running_stats: bool = True, **factory: Any) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **factory)
        self.me = me

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x)
        self._check_input_dim(x)
        n, mean, variance = _statistics_of_all_ranks(x)
        self._follow(n, mean, variance)
        return _Normalize.apply(x, self.weight, self.bias, n, mean, variance, self.eps)

    @torch.no_grad()
    def _follow(self, n: Tensor, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics towards those of this batch: the same numbers on every rank."""
        if self.num_batches_tracked is None or self.running_mean is None or self.running_var is None:
            return  # made without them
        self.num_batches_tracked.add_(1)
        # Without a momentum: the plain average over all batches so far.
        share = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((variance * n / (n - 1)).to(self.running_var.dtype), share)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise ValueError(
                f"an input of shape {tuple(input.shape)} does not fit: SyncBatchNorm takes "
                f"(N, {self.num_features}, ...), with its {self.num_features} channels in dim 1"
            )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, world_size={self.me.world_size}"

    @classmethod
    def convert(cls, me: Rank, module: nn.Module) -> nn.Module:
        """Put a ``SyncBatchNorm`` in the place of every BatchNorm in ``module``; use what is returned.

        Parameters and buffers are the same objects as before under the same names, so an optimizer made
        earlier and checkpoints of either form go on working.
        """
        norms = {old: cls._in_place_of(old, me) for old in module.modules() if isinstance(old, _BatchNorm)}
        for parent in list(module.modules()):
            for name, child in list(parent._modules.items()):
                if isinstance(child, _BatchNorm):
                    setattr(parent, name, norms[child])
        return norms[module] if isinstance(module, _BatchNorm) else module

    @classmethod
    def _in_place_of(cls, old: _BatchNorm, me: Rank) -> SyncBatchNorm:
        settings = (old.num_features, old.eps, old.momentum, old.affine, old.track_running_stats)
        new = cls(me, *settings, device="meta")  # takes no memory: each of its tensors is replaced
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(new, name, getattr(old, name))
        return new.train(old.training)


@torch.no_grad()
def _statistics_of_all_ranks(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How many values each channel has on all ranks, their mean (C,) and their variance (C,), in float64.

    Sums of squares lose digits where the mean is far from 0. So each rank first takes the squares around its own
    mean, in full precision, and only C numbers a rank are moved back to 0, in float64.
    """
    count = x.numel() // x.shape[1]  # N x the sizes in *
    dims = [dim for dim in range(x.dim()) if dim != 1]
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    own_mean = x.sum(dims) / max(count, 1)  # a rank without items adds zeros
    own_squares = (x - _per_channel(own_mean, x)).square().sum(dims)
    own_mean = own_mean.double()

    sums = torch.cat([own_mean.new_tensor([count]), count * own_mean, own_squares + count * own_mean.square()])
    dist.all_reduce(sums)  # (2 C + 1,)

    n, total, squares = sums[0], *sums[1:].chunk(2)
    if n.device.type == "cpu" and n <= 1:
        raise ValueError(
            f"the batch of all ranks has {n:.0f} values per channel, and BatchNorm needs at least 2 to train: give "
            "more items, or call eval()"
        )
    mean = total / n
    return n, mean, (squares / n - mean.square()).clamp(min=0)


class _Normalize(torch.autograd.Function):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance depend on x of all ranks."""

    @staticmethod
    def forward(ctx, x, weight, bias, n, mean, variance, eps):
        scale = (variance + eps).rsqrt()
        ctx.save_for_backward(x, weight, n, mean, scale)
        y = _normalized(x, mean, scale)
        if weight is not None:
            y = y * _per_channel(weight, x) + _per_channel(bias, x)
        return y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        x, weight, n, mean, scale = ctx.saved_tensors
        dims = [dim for dim in range(x.dim()) if dim != 1]
        x_hat = _normalized(x, mean, scale)
        grad_y = grad_y.to(x_hat.dtype)
        sums = torch.cat([grad_y.sum(dims), (grad_y * x_hat).sum(dims)])  # (2 C,), of this rank's items
        grad_bias, grad_weight = (None, None) if weight is None else sums.clone().chunk(2)

        grad_x = None
        if ctx.needs_input_grad[0]:
            # x moves its y directly, and every y of every rank through mean and variance: sums over all of them.
            dist.all_reduce(sums)
            through_mean, through_variance = (_per_channel(part, x) for part in (sums / n).to(sums.dtype).chunk(2))
            grad_x_hat = grad_y - through_mean - x_hat * through_variance
            factor = scale if weight is None else scale * weight
            grad_x = (grad_x_hat * _per_channel(factor.to(sums.dtype), x)).to(x.dtype)
        return grad_x, grad_weight, grad_bias, None, None, None, None


def _normalized(x: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """(x - mean) * scale, in float32 or better."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return (x.to(dtype) - _per_channel(mean.to(dtype), x)) * _per_channel(scale.to(dtype), x)


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    """(C,) -> (1, C, 1, ...), to be spread over ``x``."""
    return values.view(1, -1, *[1] * (x.dim() - 2))
