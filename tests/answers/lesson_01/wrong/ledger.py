"""01.ledger: wrong answers, by the name of the mistake that each makes."""

from __future__ import annotations

from typing import Any

from course_lib.cost.single_device.model_state import model_state
from course_lib.learn.exercises.lesson_01.ledger import _counting, _with_steps


def _with_fractions(parameters: list) -> dict[str, float]:
    return {name: float(size) for name, size in _counting()(parameters).items()}


def _counts_by_value(parameters: list) -> dict[str, int]:
    different: list = []
    for parameter in parameters:
        if parameter not in different:
            different.append(parameter)
    return _counting()(different)


def _by_the_library(parameters: list) -> dict[str, int]:
    unique = list({id(p): p for p in parameters}.values())
    trainable = [p for p in unique if p.requires_grad]
    state = model_state(
        sum(p.numel() for p in unique),
        dtype=str(unique[0].dtype).removeprefix("torch."),
        num_trainable=sum(p.numel() for p in trainable),
        num_tensors=len(trainable),
    )
    return {"parameter": state.parameters, "gradient": state.gradients, "optimizer state": state.optimizer}


EXERCISE = "01.ledger"
EXAMPLES: dict[str, Any] = {
    "numbers-for-bytes": _counting(size=lambda p: p.numel()),
    "one-moment": _counting(copies=1),
    "no-optimizer": _counting(copies=0),
    "no-step-count": _counting(step_bytes=0),
    "steps-counted-once": _with_steps(lambda parameters: 1),
    "no-gradient-yet": lambda parameters: {**_counting()(parameters), "gradient": 0, "optimizer state": 0},
    "fractions-of-bytes": _with_fractions,
    "compared-by-value": _counts_by_value,
}


FORBIDDEN = _by_the_library
