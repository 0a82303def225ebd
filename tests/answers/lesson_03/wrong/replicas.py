"""03.replicas: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from torch import nn

from course_lib.learn.exercises.lesson_03.replicas import _giving

EXERCISE = "03.replicas"
EXAMPLES: dict[str, Any] = {
    "cut-off": _giving(weight=lambda p: p.detach().clone()),
    "nothing-copied": _giving(weight=lambda p: p.view_as(p)),
    "new-parameters": _giving(weight=lambda p: nn.Parameter(p.detach().clone(), requires_grad=p.requires_grad)),
    "one-copy-for-all": _giving(same=True),
    "buffers-left-out": _giving(buffers=False),
    "buffers-shared": _giving(own_buffers=lambda replica: False),
}
