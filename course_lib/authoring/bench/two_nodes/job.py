"""The job of ``course bench nodes``: all-reduces of one process group, timed, by ranks of the course or of torchrun.

By ``torchrun ... -m course_lib.authoring.bench.two_nodes.job ROUNDS SIZE ...`` rank 0 prints what it found, as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from course_lib.base.clock import now_s

__all__ = ["begun_and_timed"]


def begun_and_timed(rounds: int, sizes_bytes: Sequence[int]) -> dict[str, Any]:
    """On a rank that has met the others: when the first all-reduce was there, and how long more of them took.

    ``begun_s`` is on the machine's clock. ``times_s``: by size in bytes, ``rounds`` times of the slowest rank.
    """
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
    begun_s, times_s = now_s(), {}
    for size_bytes in sizes_bytes:
        buffer = torch.zeros(size_bytes // 4)
        times_s[str(size_bytes)] = [_one_s(buffer) for _ in range(1 + rounds)][1:]
    return {"begun_s": begun_s, "times_s": times_s}


def _one_s(buffer: Any) -> float:
    import torch
    import torch.distributed as dist

    dist.barrier()
    start_s = now_s()
    dist.all_reduce(buffer)
    longest = torch.tensor(now_s() - start_s, dtype=torch.float64)
    dist.all_reduce(longest, dist.ReduceOp.MAX)
    return longest.item()


def main(words: Sequence[str]) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rounds, *sizes_bytes = map(int, words)
    found = begun_and_timed(rounds, sizes_bytes)
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
