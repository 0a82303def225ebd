"""What a trace tells of the replicas of a run: whose memory they use, what was copied, how they ran, in which modes."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from course_lib.learn.exercises.lesson_03.data_parallel.run import MODE_NAMES, ReplicaRun
from course_lib.learn.exercises.lesson_03.data_parallel.trace import Trace, bytes_of_tensors, place_of

__all__ = ["copied", "first_is_copied", "memory_of_replicas", "met", "odd", "pieces"]

_BESIDE_BYTES = 2048  # numbers of rows, flags


def memory_of_replicas(trace: Trace, inputs: Any) -> str:
    """Whether every replica but one has memory that neither the module nor another replica uses."""
    calls = sorted(trace.calls, key=lambda call: call.first_row)
    taken = dict.fromkeys(trace.own_places.values(), "the module")
    for number, call in enumerate(calls):
        for name, place in call.places.items():
            owner = taken.get(place, f"replica {number}")
            if owner != f"replica {number}" and number > 0:
                return f"replica {number} shares {name} with {owner}"
        taken |= {place: f"replica {number}" for place in call.places.values() if place not in taken}
    batch_places = {place_of(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)}
    for number, call in enumerate(calls[1:], start=1):
        if batch_places & {*call.input_places}:
            return f"replica {number} shares the batch with the caller"
    return "each has its own"


def first_is_copied(trace: Trace) -> bool:
    first = min(trace.calls, key=lambda call: call.first_row, default=None)
    learned = [name for name, _ in trace.original.named_parameters()]
    return first is not None and any(first.places[name] != trace.own_places[name] for name in learned)


def copied(trace: Trace, run: ReplicaRun, inputs: Any, out: Any, more: int = 0) -> str:
    """Whether what was copied for replicas, and of batch and outputs, is no more than is needed.

    ``more``: models that may be made besides, to be sent in one go.
    """
    if not run.metered:
        return "enough"
    others = run.num_parts - 1 + more
    needed = others * bytes_of_tensors(trace.original)
    beside = bytes_of_tensors(inputs) + 2 * bytes_of_tensors(out) + _BESIDE_BYTES
    if trace.made_bytes <= needed + beside:
        return "enough"
    return f"{trace.made_bytes:,} bytes, where {needed + beside - _BESIDE_BYTES:,} will do"


def pieces(trace: Trace, run: ReplicaRun) -> str:
    """Whether a replica's tensors came in one piece of each kind: learned, frozen, and buffers by their dtype."""
    others, kinds = run.num_parts - 1, 4
    enough = kinds * (1 + others) + others + run.num_parts + 1  # flat, sent; parts of the batch; outputs
    return "few" if not run.metered or trace.num_made <= enough else f"{trace.num_made}, where {enough} will do"


def met(trace: Trace) -> str:
    too_few = trace.rendezvous is not None and len(trace.calls) < trace.rendezvous.count  # ``rows`` tells of that
    if trace.met or too_few:
        return "at the same time"
    return "one after another" if trace.most_at_once < 2 else f"{trace.most_at_once} at a time"


def odd(trace: Trace, right: tuple[bool, bool, bool, str]) -> str:
    """The first mode of a replica that is not the caller's."""
    for call in trace.calls:
        for name, have, want in zip(MODE_NAMES, call.modes, right, strict=True):
            if have != want:
                return f"{name} was {_shown(have)}, and the caller's is {_shown(want)}"
    return "the caller's"


def _shown(mode: bool | str) -> str:
    return mode if isinstance(mode, str) else "on" if mode else "off"
