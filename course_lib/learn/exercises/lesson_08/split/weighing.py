"""08.split: the largest tensor that is made in a step, and what lies in memory before, within and after one."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held
from course_lib.learn.exercises.lesson_08.split.cases import SITUATIONS, oracle, part_of

if TYPE_CHECKING:
    from course_lib.cluster.base.rank import Rank
    from course_lib.learn.exercises.lesson_08.split.cases import SplitSituation

__all__ = ["SplitTrial", "Widest", "enough_numbers", "weighed"]

_NUM_BYTES = 8
_LOOKS, _PAUSE_S = 100, 0.01
_FEW = 64  # numbers: a scalar or an index that is a tensor


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
    """While it is entered: ``numbers`` is how many the largest tensor had that an operation gave.

    ``is_narrow``: whether one was of a narrower floating dtype than ``dtype``.
    """

    numbers, is_narrow = 0, False

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = func(*args, **(kwargs or {}))
        for one in tree_leaves(given):
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.numel())
                is_many = one.numel() > 1 and one.is_floating_point()
                self.is_narrow |= is_many and one.dtype.itemsize < self.dtype.itemsize
        return given


def enough_numbers(label: str, place: int, count: int) -> dict[str, int]:
    """In numbers: the parts; what forward may keep, in tensors of the stream; and what may be left after a step."""
    situation = SITUATIONS[label]
    config, places = situation.config, situation.rows * situation.length
    parts = sum(part_of(name, whole, place, count).numel() for name, whole in oracle(label).begin.items())
    stream, layers = places * config.width, config.num_layers
    # With positions shared out, what was gathered for each region stays whole, and what stands between is shared.
    whole, shared = (2 * layers + 1, 10 * layers) if situation.sequence else (4 * layers + 3, 8 * layers)
    joined = 3 * layers * config.width**2 // count  # weights of q, k and v side by side, for one product of all three
    return {"held": parts + _FEW, "saved": whole * stream + shared * stream // count + joined, "left": _FEW}


def weighed(trial: SplitTrial) -> dict[str, Any]:
    """Another run of the same, in which nobody records calls, since what records them keeps what they gave.

    In numbers: what the learner's object holds once the model is gone; what is there between forward and backward
    beside that; and what is left after a step beside parts and gradients.
    """
    from course_lib.meter import MemoryLedger

    trial.models.clear()
    trial.kept = None
    ranks = trial.situation.members(trial.me.rank, trial.me.world_size)
    enough = enough_numbers(trial.label, ranks.index(trial.me.rank), len(ranks))
    with MemoryLedger(history=False) as ledger:

        def total() -> int:
            return ledger.now().total_bytes // _NUM_BYTES

        before = total()
        model = trial.situation.model().to(trial.me.device)
        split = trial.make(model)
        del model
        held = _least(total, before + enough["held"]) - before
        tokens, targets = trial.batch(0)
        start = total()
        loss = split.loss(tokens, targets)
        saved = _least(total, start + enough["saved"]) - start
        loss.backward()
        del loss
        gradients = {id(part): part.numel() for part in split.parts.values() if part.grad is not None}
        due = before + held + sum(gradients.values()) + tokens.numel() + targets.numel()
        left = _least(total, due + enough["left"]) - due
    hidden = numbers_held([split], but=[trial.me, trial.group, *split.parts.values()])
    return {"held": held + hidden, "saved": saved, "left": max(0, left)}


def _least(total: Callable[[], int], enough: int) -> int:
    """The least of a few looks: a thread of gloo may let go of a message a moment after the wait for it."""
    gc.collect()
    least = total()
    for _ in range(_LOOKS):
        if least <= enough:
            break
        time.sleep(_PAUSE_S)
        least = min(least, total())
    return least
