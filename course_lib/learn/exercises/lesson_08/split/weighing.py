"""08.split: the largest tensor that is made in a step, and what lies in memory before, within and after one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held

if TYPE_CHECKING:
    from course_lib.cluster.base.rank import Rank
    from course_lib.learn.exercises.lesson_08.split.cases import SplitSituation

__all__ = ["SplitTrial", "Widest", "weighed"]

_NUM_BYTES = 8
_LOOKS, _PAUSE_S = 20, 0.01


class SplitTrial(Protocol):
    """What is tried on a rank, and on which model: what ``trial.py`` has."""

    me: Rank
    label: str
    situation: SplitSituation
    group: Any
    models: list[Any]
    kept: Any

    def make(self, model: Any) -> Any: ...

    def batch(self, step: int, number: int = 0) -> tuple[Tensor, Tensor]: ...


class Widest(TorchDispatchMode):
    """While it is entered: ``numbers`` is how many the largest tensor had that an operation gave."""

    numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = func(*args, **(kwargs or {}))
        for one in tree_leaves(given):
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.numel())
        return given


def weighed(trial: SplitTrial) -> dict[str, Any]:
    """Another run of the same, in which nobody records calls, since what records them keeps what they gave.

    In numbers: what the learner's object holds once the model is gone; what is there between forward and backward
    beside that; and what is left after a step beside parts and gradients.
    """
    from course_lib.meter import MemoryLedger

    trial.models.clear()
    trial.kept = None
    with MemoryLedger(history=False) as ledger:

        def total() -> int:
            return ledger.now().total_bytes // _NUM_BYTES

        before = total()
        model = trial.situation.model().to(trial.me.device)
        split = trial.make(model)
        del model
        held = _least(total) - before
        tokens, targets = trial.batch(0)
        start = total()
        loss = split.loss(tokens, targets)
        saved = _least(total) - start
        loss.backward()
        del loss
        end = _least(total) - tokens.numel() - targets.numel()
    hidden = numbers_held([split], but=[trial.me, trial.group, *split.parts.values()])
    gradients = {id(part): part.numel() for part in split.parts.values() if part.grad is not None}
    left = end - before - held - sum(gradients.values())
    return {"held": held + hidden, "saved": saved, "left": max(0, left)}


def _least(total: Callable[[], int]) -> int:
    """The least of a few looks: a thread of gloo may let go of a message a moment after the wait for it."""
    gc.collect()
    least, same = total(), 0
    for _ in range(_LOOKS):
        now = total()
        least, same = min(least, now), same + 1 if now >= least else 0
        if same >= 2:
            break
        time.sleep(_PAUSE_S)
    return least
