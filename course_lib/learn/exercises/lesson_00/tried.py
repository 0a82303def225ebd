"""How the rank answers of lesson 00 are tried: what came back, what was sent for it, and how the rank was left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from course_lib.learn.compare import Compare, difference
from course_lib.learn.exercise import Evidence, Outcome
from course_lib.learn.exercises.lesson_00.works import Works

__all__ = ["Tried", "place_of", "told_by", "trial", "tried", "value_of", "with_label"]


@dataclass(frozen=True)
class Tried:
    """What an answer gave on one rank. ``remarks`` are sentences on what it did besides; none when all is well."""

    value: Any
    num_calls: int = 0  # of torch.distributed
    given_bytes: int = 0  # to those calls, by this rank
    remarks: tuple[str, ...] = field(default=())


def tried(
    answer: Callable[..., Any],
    me: Any,
    tensor: torch.Tensor,
    *,
    most_bytes: int | None = None,
    keep: str = "",
) -> Tried:
    """Runs on each rank: ``answer(me, tensor)``. ``keep`` is the learner's name of a tensor that is to stay as it is.

    ``most_bytes`` is how much a rank may give to its collectives.
    """
    from course_lib.meter.recorder import Recorder

    before, needed_grad, world = tensor.clone(), tensor.requires_grad, dist.group.WORLD
    recorded, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    groups = _num_groups()
    with Recorder(me.rank) as recorder, Works() as works:
        value = answer(me, tensor)
    given_bytes = sum(call.size_bytes for call in recorder.calls)
    remarks = []
    same_kind = (tensor.shape, tensor.dtype) == (before.shape, before.dtype)
    if keep and not (same_kind and torch.equal(tensor, before)):
        remarks.append(f"the result is right, and `{keep}` changed on the way; they belong to the caller")
    if tensor.requires_grad != needed_grad:
        remarks.append(f"the result is right, and afterwards `{keep or 'loss'}` has another `requires_grad`")
    if not dist.is_initialized() or dist.group.WORLD is not world:
        remarks.append(
            "the result is right, and afterwards the process group is gone; the next call needs it"
        )
    elif _num_groups() != groups:
        remarks.append("the result is right, and process groups that you made are left behind")
    if works.never_waited_for:
        names = " and ".join(f"`{name}`" for name in dict.fromkeys(works.never_waited_for))
        remarks.append(f"the result is right, and {names} was started and never waited for")
    if (torch.is_grad_enabled(), torch.get_default_dtype()) != (recorded, dtype):
        remarks.append(
            "the result is right, and a switch of PyTorch (gradients, default dtype) is left changed"
        )
    if most_bytes is not None and given_bytes > most_bytes:
        remarks.append(
            f"the result is right, and for it this rank gave {given_bytes:,} bytes to its collectives; "
            "a few numbers are enough, whatever a rank holds"
        )
    return Tried(value, works.num_started, given_bytes, tuple(remarks))


def told_by(compare: Compare = difference) -> Compare:
    """A comparison of a plain value with a :class:`Tried`, or of two of these: first the value, then the remarks."""

    def told(expected: Any, got: Any) -> str:
        found = compare(value_of(expected), value_of(got))
        if found or not isinstance(got, Tried) or not got.remarks:
            return found
        return "" if isinstance(expected, Tried) and expected.remarks == got.remarks else got.remarks[0]

    return told


def trial(**how: Any) -> Callable[..., Tried]:
    """``tried`` with these settings, as a trial for ``by_trial``."""
    return partial(tried, **how)


def value_of(got: Any) -> Any:
    return got.value if isinstance(got, Tried) else got


def place_of(outcome: Outcome) -> tuple[int, int]:
    """Rank and world size of the case "label, rank 1 of 4"."""
    rank, _, world_size = outcome.case.rpartition(", rank ")[2].partition(" of ")
    return int(rank), int(world_size)


def with_label(seen: Evidence, label: str) -> list[Outcome]:
    """The outcomes of ranks that came to an end in the cases of this label."""
    return [one for one in seen.outcomes if one.error is None and one.case.startswith(f"{label}, rank ")]


def _num_groups() -> int:
    from course_lib.cluster.begun import groups_here

    return len(list(groups_here()))
