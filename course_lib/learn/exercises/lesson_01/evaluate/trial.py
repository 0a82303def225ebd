"""How 01.evaluate is tried: an evaluation of a small model, what it kept, and how it left the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.exercises.lesson_01.small_models import Watched, batches, small_model
from course_lib.learn.exercises.lesson_01.tries import BESIDES, first_of
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["KEPT", "MEAN", "evaluated", "try_evaluation"]

KEPT, MEAN = "kept for backward", "the mean loss"


def try_evaluation(
    answer: Callable[..., Any], sizes: Sequence[int], training: bool, dtype: torch.dtype = torch.float64
) -> dict[str, Any]:
    """Call ``answer(model, batches)``; its number, and what it kept for a backward pass that never comes."""
    model, parts = _prepared(training, dtype), _batches(sizes, dtype)
    grads = [parameter.grad for parameter in model.parameters()]
    modes = model.modes_now()
    kept = Kept(ignore=("modes", "buffers"), model=model, batches=parts)
    buffers = Kept(ignore=("modes", "flags", "weights", "gradients", "hooks"), model=model)
    traces = Traces((parts,))
    with torch.enable_grad():
        mean = answer(model, parts)
        recorded = torch.is_grad_enabled()
    besides = first_of(
        _ran_in_training(model),
        _left_in(modes, model),
        _in_words(kept.changes() or buffers.changes()),
        "" if recorded else "gradients are left switched off, for whatever runs next; a `with` block puts that back",
        _other_runs(model.runs, sizes),
        _held(model),
        "" if _has_grads(model, grads) else "the `.grad` of a parameter is another tensor than before",
        "the model ran under autocast, which makes another mean of a model in float32" if model.autocast else "",
    )
    kept_for_backward = _amount(model, sizes)
    if not besides and not model.recorded:  # a graph holds inputs too, and is told by another name
        besides = _in_trace(traces.found(None))
    return {KEPT: kept_for_backward, MEAN: _number(mean), BESIDES: besides}


def evaluated(sizes: Sequence[int], training: bool, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """What is right: the mean over all examples, with nothing kept."""
    model = _prepared(training, dtype).eval()
    x, y = (torch.cat(parts) for parts in zip(*_batches(sizes, dtype), strict=True))
    with torch.no_grad():
        return {KEPT: "nothing", MEAN: F.cross_entropy(model(x), y).item(), BESIDES: ""}


def _batches(sizes: Sequence[int], dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    return [(x.to(dtype), y) for x, y in batches(sizes)]


def _has_grads(model: Watched, grads: Sequence[Tensor | None]) -> bool:
    return all(parameter.grad is grad for parameter, grad in zip(model.parameters(), grads, strict=True))


def _prepared(training: bool, dtype: torch.dtype) -> Watched:
    """As training leaves it, with the gradients of the last step; or in evaluation mode already."""
    model = small_model().to(dtype).train(training)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)
    return model


def _amount(model: Watched, sizes: Sequence[int]) -> str:
    if not model.recorded:
        return "nothing"
    # one from before, because the name `loss` still holds the last batch's graph while the next one is made
    few = model.activations.most <= 1 and len(model.runs) >= len(sizes)
    return "a batch or two at a time" if few else "every batch to the end"


def _number(mean: Any) -> Any:
    return mean.item() if isinstance(mean, Tensor) and mean.ndim == 0 else mean


def _ran_in_training(model: Watched) -> str:
    layers = [name for modes in model.modes for name, training in modes.items() if training and name]
    if not layers:
        return ""
    names = " and ".join(f"`{name}`" for name in ("norm", "dropout") if name in layers) or f"`{layers[0]}`"
    return (
        f"{names} of the model ran in training mode: dropout drops values there, and BatchNorm normalises by the "
        "batch that it is given"
    )


def _left_in(modes: dict[str, bool], model: Watched) -> str:
    """An evaluation may leave the model in evaluation mode, or as it came."""
    now = model.modes_now()
    if not any(now.values()) or now == modes:
        return ""
    for name in now:
        which = f"`{name}` of the model" if name else "the model"
        if now[name] and not modes[name]:
            return f"{which} is left in training mode; it came in evaluation mode"
    return "some parts of the model are left in training mode and some in evaluation mode; it came otherwise"


def _other_runs(runs: Sequence[int], sizes: Sequence[int]) -> str:
    if Counter(runs) == Counter(sizes):
        return ""
    if not runs:
        return "the model that was handed over never ran; what a copy of it does is not looked at"
    if len(runs) < len(sizes) and not Counter(runs) - Counter(sizes):
        return (
            f"the model ran on {len(runs)} of {len(sizes)} batches; a `return` inside the loop ends it, and so does a "
            "`break`"
        )
    return (
        f"the model ran on batches of {_list(runs)} examples, where the batches have {_list(sizes)}: one run for each "
        "is enough, and memory for one"
    )


def _list(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last


def _held(model: Watched) -> str:
    if model.outputs.most > 1:
        return (
            f"while the model ran, its outputs of {model.outputs.most} batches before were still held: memory climbs "
            "from batch to batch"
        )
    num_held = model.outputs.for_good()
    return f"afterwards {num_held} of the model's outputs are still held somewhere" if num_held else ""


def _in_trace(found: str) -> str:
    return f"your code {found}" if found else ""


def _in_words(change: str) -> str:
    return f"your code changed what it was given: {change}" if change else ""
