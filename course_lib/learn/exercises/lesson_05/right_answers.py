"""Right answers of other styles, which the judges of this lesson accept, and mutants that nobody could refuse."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_05 import right_orders, right_unit

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {"05.unit": right_unit.UNITS, "05.order": right_orders.ALL}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "05.unit": {
        "forward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
        "backward: gradients switched off": "Autograd turns gradients off for it, and puts the switch back itself.",
        "2: `dist.all_gather(list(weight.chunk(dist.get_world_size())), shard)` after "
        "`ctx.save_for_backward(x, shard)`": "What is saved is what came, and nothing writes to it.",
        "14: `grad_x = grad @ weight` after `rows = torch.empty_like(shard)`": "Neither line reads what the "
        "other makes.",
    },
    "05.order": right_orders.SAME,
}
