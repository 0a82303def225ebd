"""How much a step of a layer leaves in memory: when its forward is over, and when its backward is.

Nobody records calls meanwhile, since what records them keeps what they gave.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from course_lib.learn.exercises.lesson_05.held_numbers import numbers_held
from course_lib.meter.memory.storages import StorageBook, StorageRecord, StorageWatch, storages_of

__all__ = ["NOT_WHOLE", "Left", "left_in_memory"]

NOT_WHOLE = "less than a weight"
_SHARE = 0.75  # of a whole weight; rows and batch, if somebody keeps copies of both, are less
_LOOKS, _PAUSE_S = 40, 0.0125


class Left(NamedTuple):
    """What is left, in words: between forward and backward, and after it."""

    between: str = NOT_WHOLE
    after: str = NOT_WHOLE


def left_in_memory(
    use: Callable[..., list[Tensor]],
    apply: Callable[[Tensor, Tensor], Tensor],
    leaves: Mapping[str, Tensor],
    handed: Mapping[str, Tensor],
    loss_of: Callable[[Tensor], Tensor],
    whole_bytes: Mapping[str, int],
    *,
    keepers: Sequence[Any] = (),
) -> Left:
    """Run ``use(through, handed)`` and go back from its outputs; ``through`` calls ``apply(x, shard)``.

    ``whole_bytes``: of the weight to which a shard of this name belongs. Outputs are kept till the end, as a training
    loop keeps its last loss, and with it the way back. ``keepers`` may keep numbers outside of tensors.
    """
    known = [*leaves.values(), *handed.values()]
    size_bytes = {id(handed[name]): count for name, count in whole_bytes.items()}
    between: list[str] = []
    used_bytes: list[int] = []
    with _Made(known) as made:

        def through(x: Tensor, shard: Tensor) -> Tensor:
            before = made.so_far()
            y = apply(x, shard)
            known.append(y)
            used_bytes.append(size_bytes[id(shard)])
            if not between:
                kept_bytes = _both(partial(made.kept_bytes, before, known), [*keepers, y.grad_fn], leaves)
                between.extend(_more_than(used_bytes[-1], kept_bytes, "its output", "a whole weight has"))
            return y

        for output in use(through, handed):
            if output.requires_grad:
                loss_of(output).backward()
        if between:
            return Left(between=between[0])
        return Left(after=_after(made, leaves, known, sum(used_bytes)))


def _both(in_tensors: Callable[[], int], roots: list[Any], leaves: Mapping[str, Tensor]) -> Callable[[], int]:
    """Bytes in tensors, and those of numbers that the answer or its `ctx` keeps outside of tensors."""
    itemsize = next(iter(leaves.values())).itemsize
    return lambda: in_tensors() + itemsize * numbers_held(roots)


def _after(made: _Made, leaves: Mapping[str, Tensor], known: list[Tensor], used_bytes: int) -> str:
    gradients = [one.grad for one in leaves.values() if one.grad is not None]
    views = [one for one in gradients if one.untyped_storage().nbytes() > one.nbytes]
    of_their_own = [one for one in gradients if one.untyped_storage().nbytes() == one.nbytes]
    kept_bytes = partial(made.kept_bytes, frozenset(), [*known, *of_their_own])
    found = _more_than(used_bytes, kept_bytes, "outputs and gradients", "all weights that it used have")
    if found and views:
        size = views[0].untyped_storage().nbytes()
        return f"a gradient that came is a view of a tensor of {size} bytes, and all of them stay"
    return found[0] if found else NOT_WHOLE


def _more_than(whole_bytes: int, kept_bytes: Callable[[], int], beside: str, whole: str) -> list[str]:
    """What is to be said where about a whole weight is kept. A back end's thread may hold a tensor a moment longer.

    Looks are counted, and not seconds: on a busy machine each takes longer, and that thread does too.
    """
    for look in range(_LOOKS):
        if kept_bytes() < _SHARE * whole_bytes:
            return []
        if look % 20 == 0:
            gc.collect()
        time.sleep(_PAUSE_S)
    return [f"{kept_bytes()} bytes that it made are still there beside {beside}, and {whole} {whole_bytes}"]


class _Made:
    """While it is entered, sees what every operation makes. What has been emptied counts no more than what has gone."""

    def __init__(self, known: Iterable[Tensor]) -> None:
        self._book = StorageBook(keep_events=False)
        self._book.claim("input", "known", list(known))
        self._watch = StorageWatch(self._book, [])

    def __enter__(self) -> _Made:
        self._watch.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._watch.__exit__(*exception)

    def so_far(self) -> frozenset[StorageRecord]:
        """All that is known by now, to be left out later."""
        return frozenset(self._book.live.values())

    def kept_bytes(self, before: frozenset[StorageRecord], but: Iterable[Tensor]) -> int:
        """Bytes in memory that were not there ``before`` and do not belong to these tensors."""
        left_out = {storage._cdata for tensor in but for storage in storages_of(tensor)}
        total = 0
        for key, record in list(self._book.live.items()):
            storage = record.handle() if record.handle is not None else None
            if storage is not None and record not in before and key not in left_out:
                total += storage.nbytes()
        return total
