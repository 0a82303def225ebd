"""Lesson 05: right answers of other styles than the lesson's own. Not for learners: the tests hand them in."""

from __future__ import annotations

from typing import Any

from course_lib.learn.exercises.lesson_05 import right_optimizer

__all__ = ["RIGHT_ANSWERS", "SAME_FUNCTION"]

RIGHT_ANSWERS: dict[str, tuple[Any, ...]] = {
    "05.optimizer": right_optimizer.ANSWERS,
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "05.optimizer": {
        "13: `gradients = packed([parameter.grad for parameter in self.parameters], self.me.world_size)` after "
        "`self.own.grad = torch.empty_like(self.own)`": "Neither line reads what the other makes.",
        "16: `self.own.grad /= self.me.world_size` -> a new name for a new value": "AdamW reads `self.own.grad`; a new "
        "tensor there is as good as the old one.",
        "17: `self.adamw.step()` after `weights = torch.empty_like(gradients)`": "AdamW changes neither size "
        "nor type of what is read there.",
        "19: `self.own.detach()` -> `self.own`": "Under `no_grad` an all-gather reads the same numbers of both.",
        "step: gradients switched off": "`@torch.no_grad()` turns them off as well, and puts the switch back itself.",
    },
}
