"""08.split: what is looked at in each step of the build. A step's report has the facts of the steps before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.judging.compare import close_to, difference, no_more
from course_lib.learn.judging.report import NOTHING, RankReport, fact

__all__ = [
    "AGREE",
    "A_SPLIT_MODEL",
    "FINE",
    "OWN",
    "SplitAwkwardReport",
    "SplitMemoryReport",
    "SplitMessagesReport",
    "SplitSeedsReport",
    "SplitSequenceReport",
    "SplitValuesReport",
    "SplitVocabularyReport",
]

A_SPLIT_MODEL, FINE, AGREE, OWN = "an object with `parts` and `loss`", "fine", "equal", "other ones"
Ways = Mapping[str, Sequence[Tensor]]  # by name, what a rank may hold, or have as a gradient


def _parts_alike(want: Ways, have: Mapping[str, Any]) -> str:
    """The first part that is none of those that a rank may hold."""
    if missing := [name for name in want if name not in have]:
        return f"`parts` has no {missing[0]!r}"
    if more := [name for name in have if name not in want]:
        return f"`parts` has {more[0]!r}, and the model has no parameter of that name"
    for name, ways in want.items():
        if found := _none_of(ways, have[name]):
            return f"`parts[{name!r}]`: {found}"
    return ""


def _none_of(ways: Sequence[Tensor], came: Any, floor: float = 0.0) -> str:
    """How it differs from what it may be; ``floor``: the largest gradient, whose rounding others show as well."""
    if not isinstance(came, Tensor):
        return f"a tensor is expected, and it is {came}"
    same = [one for one in ways if one.shape == came.shape] or list(ways)
    if same[0].shape != came.shape:
        return f"this rank's part has shape {tuple(same[0].shape)}, and yours {tuple(came.shape)}"
    eps = torch.finfo(same[0].dtype).eps
    scale = float(same[0].abs().max()) if same[0].numel() else 0.0
    return difference(same[0], came, relative=64 * eps, absolute=eps * (2048 * scale + 16 * floor) + 1e-15)


class Losses(list[float]):
    """Of each step, and in it of each model; ``is_coarse``: they were computed in float32."""

    is_coarse, num_models = False, 1

    def of_first_step(self) -> Losses:
        """Those of step 1 alone."""
        first = Losses(self[: self.num_models])
        first.is_coarse, first.num_models = self.is_coarse, self.num_models
        return first


def _losses_alike(want: Losses, have: Any) -> str:
    for at, (due, came) in enumerate(zip(want, have, strict=True)):
        step, number = divmod(at, want.num_models)
        where = f"in step {step + 1}" + (f", of model {number + 1}" if want.num_models > 1 else "")
        if not isinstance(came, float):
            return f"{where}, `loss` is to give a tensor of one number, and gave {came}"
        if found := close_to(2e-5 if want.is_coarse else 1e-9, 1e-9)(due, came):
            return f"{where}: {found}"
    return ""


def _first_losses_alike(want: Losses, have: Any) -> str:
    return _losses_alike(want.of_first_step(), have[: want.num_models])


def _gradients_alike(want: Sequence[Ways], have: Sequence[Mapping[str, Any]]) -> str:
    for step, (due, came) in enumerate(zip(want, have, strict=True), start=1):
        floor = max((float(one.abs().max()) for ways in due.values() for one in ways), default=0.0)
        for name, ways in due.items():
            if name not in came:
                return f"in step {step}, `{name}` has none"
            if found := _none_of(ways, came[name], floor):
                return f"in step {step}, `{name}`: {found}"
        if more := sorted(came.keys() - due.keys()):
            return f"in step {step}, `{more[0]}` has one, and it does not learn"
    return ""


@dataclass(frozen=True, kw_only=True)
class SplitValuesReport(RankReport):
    """Step 1: the values of the parts, the loss and the gradients."""

    asked_for = "the facts of a few steps"
    made: str = fact("an object with `parts` and `loss` is expected, and yours is {got}", right=A_SPLIT_MODEL)
    refused: Any = fact(lambda want, have, _: have, by=lambda want, have: "" if have == want else "otherwise")
    begin: Any = fact("{difference}", by=_parts_alike)
    losses: Any = fact("the loss: {difference}", by=_first_losses_alike)
    gradients: Any = fact("gradients: {difference}", by=_gradients_alike)
    later_losses: Any = fact("the loss: {difference}", by=_losses_alike)
    kept: str = fact("the values are right, and your code changed what was to stay: {got}", right=NOTHING)
    operations: tuple[str, ...] = ()  # called in the first step; for recognisers
    num_forward: int = 0
    is_narrow: bool = False  # whether a tensor of a narrower dtype than the model's was made in the first step


def _wide(want: Any, have: Any, _: str) -> str:
    return (
        f"the values are right. On this rank a tensor of {have[0]:,} numbers was made, and all logits are "
        f"{want[0]:,}. Up to {have[1]:,} numbers were gathered from other ranks at once"
    )


def _is_wide(want: Sequence[int], have: Sequence[int]) -> str:
    return "wide" if max(have) >= want[0] else ""


@dataclass(frozen=True, kw_only=True)
class SplitVocabularyReport(SplitValuesReport):
    """Step 2: both matrices of the vocabulary are cut, and no tensor is as large as all logits."""

    widest: Any = fact(_wide, by=_is_wide)


def _calls(way: str) -> Any:
    def tell(want: Any, have: Any, _: str) -> str:
        return (
            f"the values are right. {way.capitalize()} this rank makes {have[0]} calls and sends {have[1]:,} bytes, "
            f"counted as rings send them; {want[0]} calls and {want[1]:,} bytes will do"
        )

    return tell


def _sent_no_more(want: Any, have: Any) -> str:
    return "more" if have[0] > want[0] or have[1] > want[1] else ""


@dataclass(frozen=True, kw_only=True)
class SplitMessagesReport(SplitVocabularyReport):
    """Step 3: how many calls, and how many bytes."""

    besides: Any = fact("the values are right, but a step makes calls that it does not need: {got}")
    forward: Any = fact(_calls("forward"), by=_sent_no_more)  # calls, bytes
    backward: Any = fact(_calls("backward"), by=_sent_no_more)


def _holds(when: str, due: str) -> Any:
    return lambda want, have, _: (
        f"values and messages are right. {when} this rank holds {have:,} numbers; {due.format(f'{want:,}')}"
    )


@dataclass(frozen=True, kw_only=True)
class SplitMemoryReport(SplitMessagesReport):
    """Step 4: what lies in memory, in numbers, beside what the trial itself holds."""

    held: Any = fact(_holds("Once the whole model is gone,", "{} will do"), by=no_more)
    saved: Any = fact(_holds("Between forward and backward, beside its parts,", "{} will do"), by=no_more)
    left: Any = fact(_holds("After a step, beside parts and gradients,", "{} will do"), by=no_more)


@dataclass(frozen=True, kw_only=True)
class SplitSequenceReport(SplitMemoryReport):
    """Step 5: the same with positions shared out."""


@dataclass(frozen=True, kw_only=True)
class SplitSeedsReport(SplitSequenceReport):
    """Step 6: masks of dropout."""

    agree: Any = fact("without dropout all is right. With it, {got} on the ranks, and they have to agree")
    heads: Any = fact(
        "without dropout all is right. Heads that are alike on two ranks have the same gradients, as if their masks "
        "were {got}"
    )
    places: Any = fact(
        "without dropout all is right. Positions that are alike on two ranks have the same gradients, as if their "
        "masks were {got}"
    )
    in_a_step: Any = fact("without dropout all is right. In one step {got}")
    again: Any = fact("without dropout all is right. In two steps on one batch the masks are {got}")
    generators: Any = fact("without dropout all is right. After a step the ranks' random numbers are {got}")


@dataclass(frozen=True, kw_only=True)
class SplitAwkwardReport(SplitSeedsReport):
    """Step 7: the same of models, batches and groups that are not plain."""
