"""01.ledger: the bytes of a model's state, to the byte."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_01.ledger.cases import (
    of_three_kinds,
    state_really_held,
    tensors,
    tied,
    tied_and_frozen,
    without_numbers,
)
from course_lib.learn.judging.compare import Difference, difference, short
from course_lib.learn.judging.judge import by_cases

__all__ = ["LEDGER"]

_FRACTION = "fraction"  # a kind of difference


def _counting(
    *,
    size: Callable[[Any], int] = lambda p: p.nbytes,
    copies: int = 2,
    step_bytes: int = 4,
    frozen_too: bool = False,
    twice: bool = False,
) -> Callable[[list], dict[str, int]]:
    """A way to count, right but for what the arguments change."""

    def count(parameters: list) -> dict[str, int]:
        all_of_them = parameters if twice else list({id(p): p for p in parameters}.values())
        trainable = all_of_them if frozen_too else [p for p in all_of_them if p.requires_grad]
        gradients = sum(map(size, trainable))
        return {
            "parameter": sum(map(size, all_of_them)),
            "gradient": gradients,
            "optimizer state": copies * gradients + step_bytes * len(trainable),
        }

    return count


_PLAIN, _TIED = "two float32 tensors", "a tensor that is used in two places"


def _plain_state(*optimizer_state: int) -> Callable[[Evidence], bool]:
    """Whether the plain case is right but for an optimizer state of one of these; later cases may be wrong as well."""

    def recognise(seen: Evidence) -> bool:
        right = {"parameter": 88, "gradient": 88}
        return any(seen.got(_PLAIN) == {**right, "optimizer state": size} for size in optimizer_state)

    return recognise


def _bytes_difference(expected: dict[str, int], got: Any) -> str:
    found = difference(expected, got, relative=0.0, absolute=0.0)
    if found or not isinstance(got, Mapping):
        return found
    for name, value in got.items():
        number = value.item() if hasattr(value, "item") else value
        if not isinstance(number, int):
            return Difference(f"under {name!r}: a count of bytes is a whole number, and {short(value)} came", _FRACTION)
    return ""


def _counts_what_learns(parameters: list) -> dict[str, int]:
    return _counting()([p for p in parameters if p.requires_grad])


def _with_steps(num_counts: Callable[[list], int]) -> Callable[[list], dict[str, int]]:
    def count(parameters: list) -> dict[str, int]:
        counted = _counting(step_bytes=0)(parameters)
        return {**counted, "optimizer state": counted["optimizer state"] + 4 * num_counts(parameters)}

    return count


def _counts_by_shape(parameters: list) -> dict[str, int]:
    return _counting()(list({(p.shape, p.dtype): p for p in parameters}.values()))


def _compared_tensors(seen: Evidence) -> bool:
    """Whether a line that asks for equality failed in the way of tensors that are compared by their numbers."""
    error = seen.error
    if error is None or not re.search(r"\bin\b|==|!=|\.index\(|\.count\(|\.remove\(", error.source):
        return False
    return "Boolean value of Tensor" in error.message or "size of tensor a" in error.message


def _counts_by(identity: Callable[[Any], Any]) -> Callable[[list], dict[str, int]]:
    """Counts as one tensor what is alike under ``identity``."""
    return lambda parameters: _counting()(list({identity(p): p for p in parameters}.values()))


def _leaves_out_the_empty(parameters: list) -> dict[str, int]:
    return _counting()([p for p in parameters if p.numel()])


LEDGER: Exercise = Exercise(
    name="01.ledger",
    title="The bytes of a model's state under AdamW",
    judge=by_cases(
        [
            Case(_PLAIN, lambda: (tensors((3, 5), (7,)),), state_really_held),
            Case(
                "a bfloat16 model",
                lambda: (tensors((8, 2), (2,), dtype=torch.bfloat16),),
                state_really_held,
            ),
            Case("a frozen tensor", lambda: (tensors((3, 5), (5, 2), (2,), frozen=(0,)),), state_really_held),
            Case("another one frozen", lambda: (tensors((3, 5), (5, 2), (2,), frozen=(1,)),), state_really_held),
            Case(_TIED, tied, state_really_held),
            Case(
                "two tensors of the same shape and the same numbers",
                lambda: (tensors((3, 5), (3, 5), (5,)),),
                state_really_held,
            ),
            Case("tensors of three kinds of number", of_three_kinds, state_really_held),
            Case("frozen and tied tensors", tied_and_frozen, state_really_held),
            Case("nothing that learns", lambda: (tensors((3, 5), (2,), frozen=(0, 1)),), state_really_held),
            Case("tensors without numbers among others", without_numbers, state_really_held),
            Case("a tensor of 250,001 numbers", lambda: (tensors((250_001,), (7,)),), state_really_held),
        ],
        compare=_bytes_difference,
    ),
    mistakes=(
        Mistake(
            "numbers-for-bytes",
            "You counted numbers, and a number takes several bytes: 4 in float32, 2 in bfloat16. "
            "`p.nbytes` is the size of a tensor in bytes.",
            recognise=lambda seen: int(seen.got(_PLAIN)["parameter"]) == 22,  # 3 x 5 and 7 numbers
        ),
        Mistake(
            "always-four-bytes",
            "You took 4 bytes for every number. That holds for float32; a bfloat16 tensor has 2. Ask the tensor: "
            "`p.nbytes`, or `p.numel() * p.element_size()`.",
            _counting(size=lambda p: 4 * p.numel()),
        ),
        Mistake(
            "one-moment",
            "You gave AdamW one tensor for each parameter. It keeps two: a running mean of the gradient and one of "
            "its square.",
            recognise=_plain_state(88, 96),
        ),
        Mistake(
            "no-optimizer",
            "Your optimizer state is empty or nearly so. AdamW remembers a running mean of each gradient and one of "
            "its square: two tensors as large as the parameter. This is what learners forget most.",
            recognise=_plain_state(0, 8),
        ),
        Mistake(
            "no-step-count",
            "Nearly to the byte: AdamW also counts its steps, for each tensor that learns in a tensor of one "
            "float32 number.",
            recognise=_plain_state(176),
        ),
        Mistake(
            "steps-counted-once",
            "You gave AdamW one count of its steps for the whole model. It keeps one for each tensor that learns, 4 "
            "bytes each.",
            recognise=_plain_state(180),
        ),
        Mistake(
            "steps-of-frozen",
            "Right but for the counts of the steps: AdamW keeps one for each tensor that *learns*, and you counted one "
            "for the frozen tensors too.",
            _with_steps(lambda parameters: len({id(p) for p in parameters})),
        ),
        Mistake(
            "frozen-not-there",
            "You left the frozen tensors out of the parameters. A frozen tensor has no gradient and no optimizer "
            "state, but it lies in memory all the same.",
            _counts_what_learns,
        ),
        Mistake(
            "no-gradient-yet",
            "Your gradients take 0 bytes. Before the first backward pass `.grad` is None everywhere. You are to "
            "count what the training *will* hold: `requires_grad` says whether a tensor will have a gradient.",
            recognise=lambda seen: seen.got(_PLAIN)["parameter"] == 88 and seen.got(_PLAIN)["gradient"] == 0,
        ),
        Mistake(
            "frozen-learns",
            "You gave frozen parameters a gradient. Where `requires_grad` is False there is no gradient, and so "
            "nothing for the optimizer to remember.",
            _counting(frozen_too=True),
        ),
        Mistake(
            "tied-twice",
            "You counted a tensor twice because two layers use it. It lies in memory once: count different tensors, "
            "not entries of the list.",
            _counting(twice=True),
        ),
        Mistake(
            "same-shape-for-same",
            "Two tensors of one shape and one type are still two tensors, each with memory of its own. Whether two "
            "entries are the same tensor is a question of identity: `a is b`, or `id(a) == id(b)`.",
            _counts_by_shape,
        ),
        Mistake(
            "same-address-for-same",
            "Right where each tensor begins at an address of its own. Tensors without numbers have none: "
            "`data_ptr()` is 0 for all of them, and several are counted as one. Whether two entries are the same "
            "tensor is a question of identity: `a is b`, or `id(a) == id(b)`.",
            _counts_by(lambda p: p.data_ptr()),
        ),
        Mistake(
            "empty-left-out",
            "Right but for tensors without numbers. These take no bytes, and AdamW keeps a count of the steps for each "
            "of them all the same, 4 bytes.",
            _leaves_out_the_empty,
        ),
        Mistake(
            "fractions-of-bytes",
            "The counts are right, and they are not whole numbers. Nothing holds a part of a byte, and beyond 9 PB a "
            "float no longer tells one byte from the next. Stay with `int`, and divide by `//`.",
            recognise=lambda seen: all(one.right or one.kind_of_difference == _FRACTION for one in seen.outcomes),
        ),
        Mistake(
            "compared-by-value",
            "`in` and `==` compare tensors by their numbers, element by element, and cannot say yes or no. You want to "
            "know whether two names mean the same tensor: compare `id(p)`, or keep them in a `dict` or a `set`.",
            recognise=_compared_tensors,
        ),
    ),
    hints=(
        "Begin with the parameters alone: which tensors in the list are different ones, and how many bytes has each?",
        "A gradient is as large as its parameter, and only a parameter that learns has one. AdamW keeps two such "
        "tensors for each parameter that learns, and a step count of one float32.",
        "`unique = {id(p): p for p in parameters}.values()`, then `trainable = [p for p in unique if "
        "p.requires_grad]`; "
        "the optimizer state is twice the gradients, and 4 bytes for each of `trainable`.",
    ),
    forbidden=(
        "course_lib.cost.model_state",
        "course_lib.meter.ledger",
        "course_lib.meter.MemoryLedger",
        "torch.optim.AdamW",
    ),
    passed="Your count is, to the byte, what torch's own AdamW holds, for bfloat16, frozen and shared tensors too.",
)
