"""Wrong answers of lesson 04."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_04.tries import gradients_by_name


def gradient_vector(model: nn.Module) -> Tensor | str:
    """All gradients of what learns, one after the other; a sentence where one is missing."""
    found = gradients_by_name(model)
    missing = [name for name, gradient in found.items() if isinstance(gradient, str)]
    if missing:
        return f"{missing[0]} has no gradient"
    return torch.cat([gradient.flatten() for gradient in found.values() if isinstance(gradient, Tensor)])


def weights(model: nn.Module) -> Tensor:
    """All parameters, one after the other."""
    return torch.cat([parameter.detach().flatten().cpu() for parameter in model.parameters()])
