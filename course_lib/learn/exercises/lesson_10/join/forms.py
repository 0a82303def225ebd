"""10.join: pairs in another dtype and layout, gradients through the answer, and a third side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case
from course_lib.learn.exercises.lesson_10.join.cases import found
from course_lib.learn.exercises.lesson_10.join.labels import OtherForm
from course_lib.learn.judging.call_io import in_words, remembered
from course_lib.learn.judging.compare import difference, short
from course_lib.learn.judging.judge import by_cases

__all__ = ["FORMS", "SeenInstead", "compare", "with_a_third", "with_gradients"]

Found = tuple[Tensor, Tensor]
_NAMES = ("out", "lse")
_GRADIENTS = tuple(f"the gradient of {side}'s {name}" for side in ("first", "second") for name in _NAMES)


class SeenInstead(str):
    """What was seen, where there is nothing to compare."""


def _sides(num_sides: int, num_queries: int = 3) -> tuple[list[Found], Found]:
    """What queries find at three keys each, and at all of them: (2, 2, Q, 4) and (2, 2, Q)."""
    random = torch.Generator().manual_seed(10)
    scores = torch.randn(2, 2, num_queries, 3 * num_sides, generator=random, dtype=torch.float64)
    v = torch.randn(2, 2, 3 * num_sides, 4, generator=random, dtype=torch.float64)
    sides = zip(scores.split(3, -1), v.split(3, -2), strict=True)
    return [found(*side) for side in sides], found(scores, v)


def _case(label: str, form: Callable[[Tensor], Tensor], num_queries: int = 3) -> Case:
    sides, both = _sides(2, num_queries)
    return Case(label, tuple(tuple(map(form, side)) for side in sides), tuple(map(form, both)))


FORMS = (
    _case(OtherForm.FLOAT32, Tensor.float),
    _case(OtherForm.BY_QUERY, lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)),
    _case(OtherForm.NO_QUERY, Tensor.clone, num_queries=0),
)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _are_tensors(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, Tensor) for one in value)


def compare(expected: Any, got: Any) -> str:
    if isinstance(got, SeenInstead):
        return str(got)
    if not (_are_tensors(expected) and len(expected) in (2, 6)):
        return difference(expected, got)  # of two wrong answers
    if len(expected) == 2 and not _is_pair(got):
        return difference(expected, got) if got is None else f"expected a pair, (out, lse), got {short(got)}"
    names = (*_NAMES, *_GRADIENTS)[: len(expected)]
    for name, want, have in zip(names, expected, got, strict=True):
        relative, absolute = (1e-5, 1e-5) if want.dtype == torch.float32 else (1e-9, 1e-11)
        if said := difference(want, have, relative=relative, absolute=absolute):
            return f"{name}: {said}"
    return ""


# -- gradients ----------------------------------------------------------------------------------------------------


def _followed() -> tuple[Found, Found]:
    """Two sides whose gradients are asked for."""
    (out1, lse1), (out2, lse2) = ([one.clone().requires_grad_() for one in side] for side in _sides(2)[0])
    return (out1, lse1), (out2, lse2)


def _with_gradients(answer: Callable[..., Any], first: Found, second: Found) -> Any:
    """The pair, and what comes to each of the four tensors of a loss of it; or what is in the way."""
    kept = remembered(answer, (first, second))
    pair = answer(first, second)
    if not (_is_pair(pair) and _are_tensors(pair)):
        return pair
    if changed := in_words(kept.changes()):
        return SeenInstead(changed)
    given = (*first, *second)
    reaches = [one for one in pair if one.requires_grad]
    if not reaches:
        return SeenInstead("the numbers are right, but no gradient can be taken: neither out nor lse has a graph")
    loss = torch.stack([(one * _weights(one)).sum() for one in reaches]).sum()
    gradients = torch.autograd.grad(loss, given, allow_unused=True)
    none = [name for name, gradient in zip(_GRADIENTS, gradients, strict=True) if gradient is None]
    if none:
        return SeenInstead(f"the numbers are right, and {none[0]} is None: the loss does not reach it")
    return tuple(one.detach() for one in (*pair, *gradients))


def _weights(like: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.5, like.numel(), dtype=like.dtype).view(like.shape)


def _right_gradients(first: Found, second: Found) -> tuple[Tensor, ...]:
    """By a softmax over the two sides."""

    def joined(first: Found, second: Found) -> Found:
        lse = torch.stack([first[1], second[1]])
        out = (lse.softmax(0).unsqueeze(-1) * torch.stack([first[0], second[0]])).sum(0)
        return out, lse.logsumexp(0)

    return _with_gradients(joined, first, second)


with_gradients = by_cases(
    [Case(OtherForm.GRADIENTS, _followed, _right_gradients)], call=_with_gradients, compare=compare
)


# -- a third side -------------------------------------------------------------------------------------------------


def _with_a_third(answer: Callable[..., Any], first: Found, second: Found, third: Found) -> Any:
    """Three sides in two calls; what the first call gave is looked at once more after the second."""
    both = answer(first, second)
    if not (_is_pair(both) and _are_tensors(both)):
        return both
    before = [one.clone() for one in both]
    three = answer(both, third)
    for name, was, now in zip(_NAMES, before, both, strict=True):
        if not torch.equal(was, now):
            return SeenInstead(f"the second call changed the {name} that the first one had given")
    return three


_THREE, _AT_ALL = _sides(3)
with_a_third = by_cases([Case(OtherForm.THIRD, tuple(_THREE), _AT_ALL)], call=_with_a_third, compare=compare)
