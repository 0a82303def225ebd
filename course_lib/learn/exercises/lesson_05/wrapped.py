"""05.wrapped: units of a model in which one matrix has two places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from course_lib.learn.catalogue.exercise import AnswerOutcome, Case, Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept
from course_lib.models import Transformer, TransformerConfig

__all__ = ["WRAPPED"]


_TIED = TransformerConfig(vocab_size=16, context_length=8, num_layers=3, width=8, num_heads=2, tied=True)
_MODELS = {  # blocks have more numbers than what stands around them, as in any large model
    "a model of 3 blocks": (_TIED, torch.float32),
    "a model of 5 blocks, in float64": (replace(_TIED, num_layers=5, width=16), torch.float64),
    "another model of 3 blocks": (_TIED, torch.float32),
}

_UNTIED = "the model was changed: stem and head have a matrix each"


@dataclass(frozen=True)
class Wrapped:
    """What comes of units, with one more for what no unit has."""

    largest: int = 0  # numbers that are whole together, at most
    total: int = 0
    num_homes: int = 1  # of the tied matrix: units that have a module with it
    blocks: int = 0  # numbers of all blocks, of the right answer alone
    problem: str = ""  # what came where units were to come


def _right(config: TransformerConfig, dtype: torch.dtype) -> Wrapped:
    model = Transformer(config)
    total, block = (sum(p.numel() for p in one.parameters()) for one in (model, model.blocks[0]))
    blocks = block * config.num_layers
    return Wrapped(max(total - blocks, block), total, blocks=blocks)


def _try(answer: Any, config: TransformerConfig, dtype: torch.dtype) -> Any:
    model = Transformer(config).to(dtype)
    kept, traces = Kept(model=model), Traces()
    units = answer(model)
    if units is ...:
        return ...
    if model.head.w_vocab.weight is not model.stem.tokens.weight:
        return Wrapped(problem=_UNTIED)
    if changed := kept.changes():
        return Wrapped(problem=f"the model was changed: {changed}")
    if seeded := traces.found(None):
        return Wrapped(problem=f"your code {seeded}")
    return _seen(model, units)


def _seen(model: Transformer, units: Any) -> Wrapped:
    """As both libraries do it: a unit takes the modules below it that no unit has yet, and the rest is one more."""
    if isinstance(units, nn.Module | str) or not hasattr(units, "__iter__"):
        return Wrapped(problem=f"a list of units is to come, and what came is {short(units)}")
    owner: dict[nn.Module, int] = {}
    modules = set(model.modules())
    for place, unit in enumerate(units):
        group = [unit] if isinstance(unit, nn.Module) else unit
        if not isinstance(group, Sequence) or not group or not all(isinstance(one, nn.Module) for one in group):
            return Wrapped(problem=f"a unit is a module or a list of modules, and one of yours is {short(unit)}")
        if not all(one in modules for one in group):
            return Wrapped(problem="a unit has a module that is no part of the model")
        below = [module for one in group for module in one.modules() if module not in owner]
        if any(one in owner for one in group) or len(set(group)) < len(group):
            return Wrapped(problem="one module is named twice, or lies in a unit that stands before it")
        owner |= dict.fromkeys(below, place)
    sizes: dict[int, int] = {}
    homes: set[int] = set()
    counted: set[nn.Parameter] = set()
    for module in model.modules():
        place = owner.get(module, -1)
        for parameter in module.parameters(recurse=False):
            homes |= {place} if parameter is model.stem.tokens.weight else set()
            sizes[place] = sizes.get(place, 0) + (parameter.numel() if parameter not in counted else 0)
            counted.add(parameter)
    return Wrapped(max(sizes.values()), sum(sizes.values()), len(homes))


def _compare(right: Any, got: Any) -> str:
    if not isinstance(got, Wrapped):
        return f"a list of units is to come, and what came is {short(got)}"
    if got.problem:
        return got.problem
    if got.num_homes != right.num_homes:
        return f"{got.num_homes} units have a module with the tied matrix, and each would gather it"
    if got.largest > right.largest:
        return f"the largest unit has {got.largest} of the model's {got.total} numbers; {right.largest} is enough"
    return ""


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _all(check: Any) -> Any:
    """Whether it is so of what came for every model."""

    def recognise(evidence: Evidence) -> bool:
        outcomes: tuple[AnswerOutcome, ...] = evidence.outcomes
        return all(isinstance(o.got, Wrapped) and check(o.got, o.expected) for o in outcomes)

    return recognise


WRAPPED = Exercise(
    name="05.wrapped",
    title="One matrix, two places, one unit",
    judge=by_cases([Case(label, made, _right) for label, made in _MODELS.items()], call=_try, compare=_compare),
    mistakes=(
        Mistake(
            "two-homes",
            "The tied matrix belongs to two units, for two modules of the model have it and they are in units of their "
            "own. What no unit has is a unit as well: the one around the whole model.",
            recognise=_all(lambda got, right: not got.problem and got.num_homes > 1),
        ),
        Mistake(
            "all-in-one",
            "All numbers of the model are whole together, from the first layer to the last. The tied matrix is in one "
            "unit now, and so is everything else. At the fullest moment a rank holds nearly what it holds under DDP.",
            recognise=_all(lambda got, right: not got.problem and got.num_homes == 1 and got.largest == got.total),
        ),
        Mistake(
            "blocks-in-one",
            "The tied matrix is in one unit, and so are all blocks. Then all blocks are whole while the first one "
            "computes. Nothing ties one block to another.",
            recognise=_all(lambda got, right: not got.problem and got.num_homes == 1 and got.largest == right.blocks),
        ),
        Mistake(
            "tied-no-more",
            "You have changed the model: stem and head have a matrix each, and those two go their own ways, as in the "
            "symptom. Only the units were to change.",
            recognise=_all(lambda got, right: got.problem == _UNTIED),
        ),
    ),
    hints=(
        "Which modules have the tied matrix? A unit gathers its weights for all of its modules, and one gradient comes "
        "of that.",
        "Both libraries take a list of modules as one unit. Everything that nothing ties together stays apart.",
        "In place of `model.stem, model.head` one list with both of them, and the blocks as they were.",
    ),
    passed="The tied matrix is in one unit, and no unit is larger than it has to be.",
)
