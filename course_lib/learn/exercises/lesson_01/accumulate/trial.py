"""How 01.accumulate is tried: one step of a small model, and all that it did on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.learn.exercises.lesson_01.small_models import Watched, batches, small_model
from course_lib.learn.exercises.lesson_01.tries import BESIDES, first_of
from course_lib.learn.judging.compare import close_to
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["CHANGE", "GRADIENT", "KEPT", "NO_STEP", "alike", "step_difference", "step_over", "step_result"]

CHANGE, KEPT = "the change of the weights", "kept for backward"
GRADIENT = "the gradient at the step"
NO_STEP = "no step"
_LEARNING_RATE = 0.1
_TOLERANCE = {torch.float64: (1e-6, 1e-9), torch.float32: (1e-3, 1e-5)}  # relative, and absolute
_ALIKE = {dtype: close_to(*tolerance) for dtype, tolerance in _TOLERANCE.items()}
_NEARLY = 0.02  # of the gradient's length


def step_over(
    answer: Callable[..., Any],
    sizes: Sequence[int],
    kind: str,
    stale: bool,
    dtype: torch.dtype = torch.float64,
    turned: bool = False,
) -> dict[str, Any]:
    """Let ``answer(model, optimizer, pieces)`` take a step; what it did to the weights, and what it kept meanwhile."""
    model, optimizer = _prepared(kind, stale, dtype)
    pieces = _pieces(sizes, dtype, turned)
    before, modes = _weights(model), model.modes_now()
    settings = _settings(optimizer)
    handed = Kept(ignore=("weights", "gradients"), model=model, optimizer=optimizer)
    given = Kept(pieces=pieces, frozen=model.frozen)
    steps, answer_is_done = _gradients_at_steps(model, optimizer)
    traces = Traces((pieces,))
    answer(model, optimizer, pieces)
    answer_is_done()
    if torch.equal(before, _weights(model)):
        at_step = steps[0] if steps else NO_STEP
        return {GRADIENT: at_step, CHANGE: "none", KEPT: "nothing to tell", BESIDES: ""}
    besides = first_of(
        _other_modes(modes, model),
        _in_words(handed.changes() or given.changes()),
        _other_runs(model.runs, sizes),
        "" if len(steps) == 1 else f"`optimizer.step()` was called {_times(len(steps))}; the step is one call",
        "" if settings == _settings(optimizer) else "the settings of the optimizer are others afterwards",
        _still_held(model),
        _outputs_meanwhile(model),
        _in_trace(traces.found(None)),
    )
    several = model.activations.most > 0 or max(model.runs, default=0) > max(sizes)
    return {
        GRADIENT: steps[-1] if steps else NO_STEP,
        CHANGE: _weights(model) - before,
        KEPT: "several pieces at once" if several else "one piece at a time",
        BESIDES: besides,
    }


def _gradients_at_steps(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[list[Tensor], Callable[[], None]]:
    """A list that gets the gradient with each step, and what ends that.

    A closure is called within the step, after every hook; one that the answer gives runs first.
    """
    steps: list[Tensor] = []

    def with_closure(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        own = kwargs.get("closure", args[1] if len(args) > 1 else None)

        def closure() -> Any:
            loss = None if own is None else own()
            steps.append(_gradient(model))
            return loss

        return args[:1], {**kwargs, "closure": closure}

    return steps, optimizer.register_step_pre_hook(with_closure).remove


def step_result(
    sizes: Sequence[int], kind: str, stale: bool, dtype: torch.dtype = torch.float64, turned: bool = False
) -> dict[str, Any]:
    """What is right: the step that the whole batch takes at once."""
    model, optimizer = _prepared(kind, False, dtype)
    before = _weights(model)
    x, y = (torch.cat(parts) for parts in zip(*_pieces(sizes, dtype, turned), strict=True))
    F.cross_entropy(model(x), y).backward()
    gradient = _gradient(model)
    optimizer.step()
    return {
        GRADIENT: gradient,
        CHANGE: _weights(model) - before,
        KEPT: "one piece at a time",
        BESIDES: "",
    }


def step_difference(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """What it did besides comes first, since numbers follow from it; then the gradient, against the right one."""
    if got[BESIDES]:
        return str(got[BESIDES])
    right, came = expected[GRADIENT], got[GRADIENT]
    if not isinstance(came, Tensor) or not bool(_close(right, came)):
        return _of_gradients(right, came)
    return _ALIKE[right.dtype](expected, got)


def alike(expected: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """The first difference of two reports, to the digits of their type; "" when there is none."""
    gradient = expected[GRADIENT]
    return _ALIKE[gradient.dtype if isinstance(gradient, Tensor) else torch.float64](expected, got)


def _of_gradients(right: Tensor, came: Any) -> str:
    if not isinstance(came, Tensor):
        return "`optimizer.step()` was never called"
    if not bool(came.any()):
        return "at the step there is no gradient, or it is 0 everywhere"
    times = float(came @ right / (right @ right))
    if _close(right * times, came):
        return f"at the step the gradient is {times:.4g} times that of the mean over all examples"
    off = float((came - right).norm() / right.norm())
    if off < _NEARLY:
        return (
            f"at the step the gradient is nearly right: it is off by {off:.2g} of its length, and {right.dtype} rounds "
            "by far less. Usually something was computed in a shorter type"
        )
    cosine = float(came @ right / (came.norm() * right.norm()))
    return (
        f"at the step the gradient is {float(came.norm() / right.norm()):.3g} times as long as that of the mean over "
        f"all examples, and points another way (cosine {cosine:.3g})"
    )


def _close(one: Tensor, other: Tensor) -> bool:
    relative, absolute = _TOLERANCE[one.dtype]
    return one.dtype == other.dtype and bool(torch.allclose(one, other, rtol=relative, atol=absolute))


def _gradient(model: nn.Module) -> Tensor:
    """All gradients, one after the other; zeros where there is none."""
    return torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).detach().flatten() for p in model.parameters()]
    )


def _pieces(sizes: Sequence[int], dtype: torch.dtype, turned: bool) -> list[tuple[Tensor, Tensor]]:
    """The pieces; ``turned``: other labels, and inputs that lie transposed in memory."""
    pieces = [(x.to(dtype), y) for x, y in batches(sizes)]
    return [(x.mT.contiguous().mT, y.flip(0)) for x, y in pieces] if turned else pieces


def _prepared(kind: str, stale: bool, dtype: torch.dtype) -> tuple[Watched, torch.optim.Optimizer]:
    """A model whose BatchNorm is not to follow this training, and an optimizer that has taken a step before."""
    model = small_model().to(dtype)
    model.norm.eval()
    if dtype != torch.float64:
        model.dropout.eval()  # it drops by the number, and a rounded number may be another one
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
    if Counter(runs) == Counter(sizes):
        return ""
    if len(runs) == 1 and sum(runs) == sum(sizes):  # all at once: what was kept will tell
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


def _outputs_meanwhile(model: Watched) -> str:
    """A name of the loop may still stand for the outputs of the piece before, and for no more."""
    if model.outputs.most <= 1:
        return ""
    return (
        f"while the model ran, its outputs of {model.outputs.most} pieces before were still held: memory climbs from "
        "piece to piece"
    )


def _in_trace(found: str) -> str:
    return f"your code {found}" if found else ""


def _in_words(change: str) -> str:
    return f"your code changed what it was given: {change}" if change else ""
