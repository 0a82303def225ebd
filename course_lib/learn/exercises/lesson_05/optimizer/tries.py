"""What 05.optimizer counts: what a rank sends, as rings send it, and the numbers of all tensors that are alive."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from torch import Tensor

from course_lib.meter import Call
from course_lib.meter.communication.wire_bytes import traffic
from course_lib.meter.memory.storages import storages_of
from course_lib.parallel.sharded.at_rest import StandIn

__all__ = ["numbers_alive", "sent_by_rings", "settled_numbers"]

_PAUSES_S = (0.01, 0.05, 0.15, 0.3)


def sent_by_rings(calls: Sequence[Call]) -> float:
    """Bytes that a rank puts on the wire, each operation by the ring that NCCL makes of it.

    gloo's reduce-scatter is a whole all-reduce inside, which nobody can see from outside; here it counts as one.
    """
    return float(sum(map(_sent_bytes, calls)))


def _sent_bytes(call: Call) -> int:
    if call.operation not in ("reduce_scatter", "broadcast", "reduce"):
        return sum(call.sent_bytes.values())  # gloo sends these as NCCL does
    root = 0 if call.root is None else call.group.index(call.root)
    by_ring = traffic(
        call.operation,
        rank=call.group.index(call.rank),
        num_ranks=len(call.group),
        size_bytes=call.size_bytes,
        root=root,
        backend="nccl",
    )
    return sum(by_ring.sent_bytes.values())


def numbers_alive() -> int:
    """In all storages under tensors of this process that Python knows of, whatever bytes a number takes there."""
    gc.collect()
    found: dict[int, int] = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor) and not issubclass(type(thing), StandIn):
            gradient = thing.grad if thing.is_leaf else None
            for tensor in [thing.detach(), *([] if gradient is None else [gradient.detach()])]:
                for storage in storages_of(tensor):
                    in_this_type = storage.nbytes() // tensor.itemsize
                    found[storage._cdata] = min(found.get(storage._cdata, in_this_type), in_this_type)
    return sum(found.values())


def settled_numbers(enough: float) -> int:
    """The same, once it is no more than ``enough``, or the least that was seen within a moment.

    A thread of gloo may let go of a collective's tensors a moment after the wait for it.
    """
    least = numbers_alive()
    for pause_s in _PAUSES_S:
        if least <= enough:
            break
        time.sleep(pause_s)
        least = min(least, numbers_alive())
    return least
