"""Models whose weights are awkward to cut, send or write to, by name: every strategy is tried with each of them.

``make("channels_last")`` is a fresh model, the same in every process, in float64 unless another dtype is asked for;
``batch(name, num_rows)`` its input, ``loss_of(model, x)`` a mean over rows. So the mean over ranks that have as many
rows each is the loss of one process with all rows. A strategy trains it as one process does, ``layout`` and all, or
refuses with a sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["ALIASED", "ODD", "STRIDED", "batch", "layout", "loss_of", "make"]


class Waves(nn.Module):
    """Each number of each parameter has a gradient of its own: out[row] = sum of sin(x[row] p + place of p).

    Input (rows, 1), output (rows,).
    """

    def __init__(self, *tensors: Tensor) -> None:
        super().__init__()
        for name, tensor in zip("abcdefgh", tensors, strict=False):
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, x: Tensor) -> Tensor:
        out = x.new_zeros(len(x))
        for p in self.parameters():
            place = torch.arange(p.numel(), dtype=x.dtype, device=x.device)
            out = out + torch.sin(x.to(p.dtype) * p.flatten() + place).abs().sum(1)
        return out


class Sparse(nn.Module):
    """An embedding whose gradient is sparse."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.rows = nn.Embedding(7, 3, sparse=True, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.rows((x[:, 0].abs() * 10).long() % 7).square().sum(1)


class GradientsOfOtherStrides(Waves):
    """The weight (5, 4) is contiguous, and its gradient comes column by column."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.a._backward_hooks:
            self.a.register_hook(lambda gradient: gradient.t().contiguous().t())
        return super().forward(x)


def _convolutions(dtype: torch.dtype) -> nn.Module:
    layers = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 4, 3))
    return layers.to(dtype).to(memory_format=torch.channels_last)


def _convolutions_3d(dtype: torch.dtype) -> nn.Module:
    layers = nn.Sequential(nn.Conv3d(2, 5, 2), nn.Tanh(), nn.Conv3d(5, 3, 2))
    return layers.to(dtype).to(memory_format=torch.channels_last_3d)


def _linear(dtype: torch.dtype) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5, dtype=dtype), nn.Tanh(), nn.Linear(5, 3, dtype=dtype))


def _transposed(dtype: torch.dtype) -> nn.Module:
    layers = _linear(dtype)
    layers[0].weight = nn.Parameter(torch.randn(4, 5, dtype=dtype).t())
    return layers


def _frozen(dtype: torch.dtype) -> nn.Module:
    layers = _linear(dtype)
    layers[0].bias.requires_grad_(False)
    return layers


def _tied(dtype: torch.dtype) -> nn.Module:
    layers = nn.Sequential(nn.Linear(4, 4, dtype=dtype), nn.Tanh(), nn.Linear(4, 4, dtype=dtype))
    layers[2].weight = layers[0].weight
    return layers


def _views_of_one(dtype: torch.dtype) -> nn.Module:
    """As a library leaves them that keeps all weights in one flat tensor: neighbours, and no number twice."""
    flat = torch.randn(29, dtype=dtype)
    return Waves(flat[:15].view(5, 3), flat[15:19], flat[19:29].view(5, 2).t())


def _interleaved(dtype: torch.dtype) -> nn.Module:
    both = torch.randn(5, 6, dtype=dtype)
    return Waves(both[:, 0::2], both[:, 1::2])


def _overlapping(dtype: torch.dtype) -> nn.Module:
    flat = torch.randn(12, dtype=dtype)
    return Waves(flat[:8].view(4, 2), flat[4:].view(4, 2))


def _same_memory(dtype: torch.dtype) -> nn.Module:
    """Two parameters tied by their data, and not by being one parameter."""
    one = torch.randn(4, 3, dtype=dtype)
    return Waves(one, one.view(3, 4))


def _complex(dtype: torch.dtype) -> nn.Module:
    kind = dtype.to_complex()
    return Waves(torch.randn(5, 3, dtype=kind), torch.randn(4, dtype=kind), torch.randn(3, 5, dtype=kind).t())


def _mixed_dtypes(dtype: torch.dtype) -> nn.Module:
    return Waves(torch.randn(5, 3, dtype=dtype), torch.randn(4), torch.randn(3, 2, dtype=dtype))


def _waves(*makers: Callable[[torch.dtype], Tensor]) -> Callable[[torch.dtype], nn.Module]:
    return lambda dtype: Waves(*(maker(dtype) for maker in makers))


def _numbers(*shape: int) -> Callable[[torch.dtype], Tensor]:
    return lambda dtype: torch.randn(shape, dtype=dtype)


# Other strides than a fresh tensor has; each number of a weight has memory of its own.
STRIDED: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "channels_last": _convolutions,
    "transposed": _transposed,
    "views_of_one": _views_of_one,
    "interleaved": _interleaved,
    "gradients_of_other_strides": lambda dtype: GradientsOfOtherStrides(torch.randn(5, 4, dtype=dtype)),
    "channels_last_3d": _convolutions_3d,
    "permuted": lambda dtype: Waves(torch.randn(2, 3, 5, dtype=dtype).permute(2, 0, 1)),
    "with_gaps": lambda dtype: Waves(torch.randn(5, 8, dtype=dtype)[:, ::2], torch.randn(9, dtype=dtype)[::2]),
}

# Odd by shape, dtype or use.
ODD: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "contiguous": _linear,
    "zero_rows": _waves(_numbers(0, 3), _numbers(5, 2)),
    "zero_columns": _waves(_numbers(3, 0), _numbers(5, 2)),
    "all_zero_size": _waves(_numbers(0, 3), _numbers(3, 0)),
    "one_row": _waves(_numbers(1, 6), _numbers(1)),
    "zero_dim": _waves(_numbers(), _numbers(5, 2)),
    "complex": _complex,
    "mixed_dtypes": _mixed_dtypes,
    "frozen": _frozen,
    "tied": _tied,
    "sparse": Sparse,
    "lazy": lambda dtype: nn.Sequential(nn.LazyLinear(3, dtype=dtype)),
}

# Several numbers in one place of memory: what an in-place step does depends on its order, or is an error.
ALIASED: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "expanded": lambda dtype: Waves(torch.randn(1, 4, dtype=dtype).expand(5, 4)),
    "overlaps_itself": lambda dtype: Waves(torch.randn(6, dtype=dtype).as_strided((5, 2), (1, 1))),
    "overlapping": _overlapping,
    "same_memory": _same_memory,
}

_SHAPES = {"channels_last": (3, 6, 5), "channels_last_3d": (2, 4, 3, 5)}
_FOUR_NUMBERS = ("contiguous", "transposed", "frozen", "tied", "lazy")


def make(name: str, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
    """The model of this name, fresh, with the weights that ``seed`` draws."""
    torch.manual_seed(seed)
    return {**STRIDED, **ODD, **ALIASED}[name](dtype)


def batch(name: str, num_rows: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """(num_rows, ...), an input for the model of this name."""
    shape = _SHAPES.get(name, (4,) if name in _FOUR_NUMBERS else (1,))
    return torch.randn(num_rows, *shape, dtype=dtype, generator=torch.Generator().manual_seed(3))


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    """A number: the mean over rows."""
    return model(x).square().mean()


def layout(model: nn.Module) -> dict[str, tuple[tuple[int, ...], tuple[int, ...], torch.dtype]]:
    """Shape, strides and dtype of each parameter by name: what a step must not change."""
    return {name: (tuple(p.shape), p.stride(), p.dtype) for name, p in model.named_parameters()}
