"""What the trials train: small, in float64 so that a difference is one of method, and the same in every run."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DistributedSampler, TensorDataset

from course_lib.cluster.base.rank import Rank

__all__ = ["ROUNDING", "batch", "distance", "distance_text", "gradients", "mlp", "share_of", "weights"]

ROUNDING = 1e-12  # float64 numbers of about 1 that are less apart have been rounded otherwise, and no more

_NUM_FEATURES, _NUM_CLASSES = 12, 4


def mlp(*, width: int = 16, batch_norm: bool = False, seed: int = 0) -> nn.Sequential:
    """Two linear layers, with BatchNorm between them where asked for; the same weights for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        between: list[nn.Module] = [nn.BatchNorm1d(width)] if batch_norm else []
        layers = [nn.Linear(_NUM_FEATURES, width), *between, nn.ReLU(), nn.Linear(width, _NUM_CLASSES)]
        return nn.Sequential(*layers).double()


def batch(num_samples: int, *, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (samples, features) and classes (samples,)."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(num_samples, _NUM_FEATURES, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(_NUM_CLASSES, (num_samples,), generator=generator)


def weights(model: nn.Module) -> torch.Tensor:
    """All parameters in one flat tensor."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def gradients(model: nn.Module) -> torch.Tensor:
    """All gradients in one flat tensor; zeros where there is none."""
    return torch.cat(
        [torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def distance(first: torch.Tensor, second: torch.Tensor) -> float:
    """The largest difference of two numbers in the same place."""
    return float((first - second).abs().max())


def distance_text(apart: float, *, rounding: float = ROUNDING) -> str:
    """A distance as trials tell it: without a digit where it is rounding alone, since processors round differently."""
    return "0 (rounding)" if apart < rounding else f"{apart:.1e}"


def share_of(me: Rank, num_samples: int, *, seed: int = 0) -> list[int]:
    """The samples that torch's DistributedSampler gives to this rank, in order."""
    dataset = TensorDataset(torch.arange(num_samples))
    sampler: DistributedSampler[int] = DistributedSampler(dataset, me.world_size, me.rank, seed=seed)
    return list(sampler)
