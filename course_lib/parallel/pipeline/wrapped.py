"""Stages within a wrapper, such as ``FullySharded``: gradients are sent once for a batch, not for each micro-batch.

A micro-batch's gradients are added to those before it on this rank alone. PyTorch's stages do the same with theirs
(``backward_maybe_with_nosync``). The price: between micro-batches a rank holds whole gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from torch import nn

from course_lib.parallel.model.cutting import tied_parameters
from course_lib.schedules.table import Schedule

__all__ = ["DefersReduction", "gradients_sent_once", "refuse_to_wrap"]


@runtime_checkable
class DefersReduction(Protocol):
    """A wrapper that can keep gradients on this rank, and send them when it is told to."""

    def no_sync(self) -> contextlib.AbstractContextManager[None]: ...

    def reduce_deferred(self) -> None: ...


@contextlib.contextmanager
def gradients_sent_once(stages: Iterable[nn.Module]) -> Iterator[None]:
    """In this block, stages that can hold gradients back do so; at its end they send them."""
    deferring = [stage for stage in stages if isinstance(stage, DefersReduction)]
    with contextlib.ExitStack() as block:
        for stage in deferring:
            block.enter_context(stage.no_sync())
        yield
    for stage in deferring:
        stage.reduce_deferred()


def refuse_to_wrap(stages: Sequence[nn.Module], schedule: Schedule, *, overlap: bool) -> None:
    """Raise ValueError where a wrapper could not see a whole backward, or would part what is tied."""
    if schedule.is_split or overlap:
        why = "overlap=True runs two at once" if overlap else f"{schedule.name!r} cuts them in two"
        raise ValueError(
            f"wrap= needs whole backwards, one at a time, and {why}. The nearest that works is a schedule such as "
            "'1f1b', without overlap."
        )
    if tied_parameters(stages):
        raise ValueError(
            "two stages of this rank share a parameter, and wrap= would make two copies that drift apart. Give the "
            f"rank one stage: {schedule.name!r} has {len(stages)} here, '1f1b' one."
        )
