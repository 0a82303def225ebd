"""07.loss: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor


def _each_sample(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output, target, reduction="none") / num_samples


def _number(output: Tensor, target: Tensor, num_samples: int) -> float:
    return F.cross_entropy(output, target, reduction="sum").item() / num_samples


def _detached(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    return F.cross_entropy(output.detach(), target, reduction="sum") / num_samples


def _without_maximum(output: Tensor, target: Tensor, num_samples: int) -> Tensor:
    shares = output.exp() / output.exp().sum(dim=1, keepdim=True)
    return -shares[range(len(target)), target].log().sum() / num_samples


EXERCISE = "07.loss"
EXAMPLES: dict[str, Any] = {
    "a-number-each": _each_sample,
    "no-tensor": _number,
    "detached": _detached,
    "overflows": _without_maximum,
}
