"""What NCCL itself was asked for, from the log that it writes with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL.

Each call is a line such as "NCCL INFO AllReduce: opCount 1a sendbuff 0x.. recvbuff 0x.. count 64 datatype 7 op 0 root 0
comm 0x.. [nranks=2] stream 0x..", where ``count`` is what the C function was given: of an all-gather the part sent, of
a reduce-scatter the part received (``ncclEnqueueCheck`` in NCCL's enqueue.cc; datatypes in nccl.h).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from course_lib.meter.communication.call import Call

__all__ = ["asked_of_nccl", "seen_by_meter", "settings"]

_LINE = re.compile(
    r"NCCL INFO (?P<name>\w+): opCount \w+ sendbuff \S+ recvbuff \S+ count (?P<count>\d+) "
    r"datatype (?P<datatype>\d+) .*\[nranks=(?P<ranks>\d+)\]"
)
_ITEM_BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 1, 11: 1}  # by datatype
_NAMES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "Send": "send",
    "Recv": "recv",
}

Counts = Counter[tuple[str, int]]
"""How often each (operation, bytes of the rank's buffer) was called."""


def settings(folder: Path) -> dict[str, str]:
    """The variables by which every rank writes its log into a file of its own in ``folder``."""
    return {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "COLL",
        "NCCL_DEBUG_FILE": str(folder / "nccl.%p.log"),
    }


def asked_of_nccl(lines: Iterable[str], *, least_bytes: int) -> Counts:
    """The calls in a log; smaller ones are left out, since barriers and the course's own are among them."""
    found: Counts = Counter()
    for line in lines:
        if call := _LINE.search(line):
            size_bytes = int(call["count"]) * _ITEM_BYTES[int(call["datatype"])]
            if call["name"] == "ReduceScatter":
                size_bytes *= int(call["ranks"])  # the meter counts what goes in
            name = _NAMES.get(call["name"], call["name"])
            if size_bytes >= least_bytes:
                found[name, size_bytes] += 1
    return found


def seen_by_meter(calls: Iterable[Call], *, least_bytes: int) -> Counts:
    """The same of the meter's calls."""
    return Counter((call.operation, call.size_bytes) for call in calls if call.size_bytes >= least_bytes)
