"""How 01.accumulate is tried: one step of a small model, and all that it did on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_01.small_models import Watched, batches, small_model
from course_lib.learn.exercises.lesson_01.tries import BESIDES, first_of
from course_lib.learn.kept import Kept

__all__ = ["CHANGE", "KEPT", "step_over", "step_result"]

CHANGE, KEPT = "the change of the weights", "kept for backward"
_LEARNING_RATE = 0.1


def step_over(answer: Callable[..., Any], sizes: Sequence[int], kind: str, stale: bool) -> dict[str, Any]:
    """Let ``answer(model, optimizer, pieces)`` take a step; what it did to the weights, and what it kept meanwhile."""
    model, optimizer = _prepared(kind, stale)
    pieces = batches(sizes)
    before, modes = _weights(model), model.modes_now()
    settings = _settings(optimizer)
    handed = Kept(ignore=("weights", "gradients"), model=model)
    given = Kept(pieces=pieces)
    steps: list[None] = []
    hook = optimizer.register_step_post_hook(lambda *_: steps.append(None))
    answer(model, optimizer, pieces)
    hook.remove()
    if torch.equal(before, _weights(model)):
        return {CHANGE: "none", KEPT: "nothing to tell", BESIDES: ""}
    besides = first_of(
        _other_modes(modes, model),
        _in_words(handed.changes() or given.changes()),
        _other_runs(model.runs, sizes),
        ""
        if len(steps) == 1
        else f"`optimizer.step()` was called {_times(len(steps))}; the step is one call",
        "" if settings == _settings(optimizer) else "the settings of the optimizer are others afterwards",
        _still_held(model),
    )
    several = model.activations.most > 0 or max(model.runs, default=0) > max(sizes)
    return {
        CHANGE: _weights(model) - before,
        KEPT: "several pieces at once" if several else "one piece at a time",
        BESIDES: besides,
    }


def step_result(sizes: Sequence[int], kind: str, stale: bool) -> dict[str, Any]:
    """What is right: the step that the whole batch takes at once."""
    model, optimizer = _prepared(kind, stale=False)
    before = _weights(model)
    x, y = (torch.cat(parts) for parts in zip(*batches(sizes), strict=True))
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    return {CHANGE: _weights(model) - before, KEPT: "one piece at a time", BESIDES: ""}


def _prepared(kind: str, stale: bool) -> tuple[Watched, torch.optim.Optimizer]:
    """A model whose BatchNorm is not to follow this training, and an optimizer that has taken a step before."""
    model = small_model()
    model.norm.eval()
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer: torch.optim.Optimizer
    if kind == "AdamW":
        optimizer = torch.optim.AdamW(learning, lr=_LEARNING_RATE)
    else:
        optimizer = torch.optim.SGD(learning, lr=_LEARNING_RATE, momentum=0.9, weight_decay=0.01)
    for parameter in learning:
        parameter.grad = 0.1 * torch.ones_like(parameter)
    optimizer.step()
    if not stale:  # else they are left over, as after a step that nobody has cleared behind
        optimizer.zero_grad()
    return model, optimizer


def _weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]


def _other_modes(modes: dict[str, bool], model: Watched) -> str:
    for now in model.modes:
        for name, was in modes.items():
            if now[name] != was:
                which = f"`{name}` of the model" if name else "the model"
                return f"{which} ran in {_mode(now[name])} mode, and it was handed over in {_mode(was)} mode"
    return ""


def _mode(training: bool) -> str:
    return "training" if training else "evaluation"


def _other_runs(runs: Sequence[int], sizes: Sequence[int]) -> str:
    if Counter(runs) == Counter(sizes) or len(runs) < 2 <= len(sizes):  # too few runs show in what was kept
        return ""
    return f"the model ran {_times(len(runs))}, on {_list(runs)} examples; the pieces have {_list(sizes)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _list(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers) if numbers else ("no",)
    return f"{', '.join(first)} and {last}" if first else last


def _still_held(model: Watched) -> str:
    if model.activations.for_good():
        return "when the step is over, activations still wait for a backward pass: a graph is held somewhere"
    if num_outputs := model.outputs.for_good():
        return f"when the step is over, {num_outputs} of the model's outputs are still held somewhere"
    return ""


def _in_words(change: str) -> str:
    return f"your code changed what it was given: {change}" if change else ""
