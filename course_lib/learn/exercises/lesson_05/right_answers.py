"""Right answers of other styles than the reference: no learner sees them, and the judges have to accept them all."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_05.right_unit import UNITS

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {"05.unit": UNITS}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "05.unit": {
        "forward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
        "backward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
        "2: `dist.all_gather_into_tensor(weight, shard)` after `ctx.save_for_backward(x, shard)`": "What is saved is "
        "what came, and nothing writes to it.",
        "14: `grad_x = grad @ weight` after `rows = torch.empty_like(shard)`": "Neither line reads what the "
        "other makes.",
    },
}
