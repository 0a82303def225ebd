"""What came of the first seeds of each level: ``levels.anew`` takes seconds, since it plays every mesh that fits.

``tests/capstone`` draws some of them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["DRAWN", "Kept"]


class Kept(NamedTuple):
    """Of a level and a seed: how many draws were refused, the limits, the planner's best mesh, the expected best."""

    tries: int
    memory_bytes: int
    budget_s: float
    planned: str
    best: str


DRAWN: Mapping[tuple[int, int], Kept] = MappingProxyType(
    {
        (1, 0): Kept(3, 4393424, 0.38, "pp=4", "pp=4"),
        (1, 1): Kept(1, 2403330, 0.27, "dp_shard=4", "dp_shard=4"),
        (1, 2): Kept(0, 3084071, 0.3, "dp_shard=4", "dp_shard=4"),
        (1, 3): Kept(2, 4344272, 0.37, "pp=4", "pp=4"),
        (1, 4): Kept(5, 3263504, 0.47, "pp=4", "pp=4"),
        (1, 5): Kept(4, 4496520, 0.4, "pp=4", "pp=4"),
        (1, 6): Kept(13, 3063440, 0.39, "pp=4", "pp=4"),
        (1, 7): Kept(1, 3189776, 0.39, "pp=4", "pp=4"),
        (1, 8): Kept(0, 4280456, 0.37, "dp_shard=4", "dp_shard=4"),
        (1, 9): Kept(0, 3084071, 0.3, "dp_shard=4", "dp_shard=4"),
        (2, 0): Kept(0, 4057610, 0.43, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 1): Kept(1, 7458879, 0.37, "pp=4", "pp=2 dp_shard=2"),
        (2, 2): Kept(0, 7458879, 0.6, "pp=4", "pp=2 dp_shard=2"),
        (2, 3): Kept(0, 7458879, 0.55, "pp=4", "pp=2 dp_shard=2"),
        (2, 4): Kept(0, 4227938, 0.46, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 5): Kept(0, 7458879, 0.57, "pp=4", "pp=2 dp_shard=2"),
        (2, 6): Kept(3, 7458879, 0.51, "pp=2 dp_shard=2", "pp=2 dp_shard=2"),
        (2, 7): Kept(0, 3415293, 0.3, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 8): Kept(0, 5404791, 0.45, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 9): Kept(0, 5145005, 0.38, "dp_replicate=2 dp_shard=2", "dp_replicate=2 dp_shard=2"),
        (3, 0): Kept(4, 1872208, 0.35, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 1): Kept(1, 1872208, 0.31, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 2): Kept(1, 3617379, 0.34, "pp=4 dp_replicate=2", "pp=2 dp_replicate=4"),
        (3, 3): Kept(0, 2960796, 0.46, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 4): Kept(0, 3617379, 0.39, "pp=4 dp_replicate=2", "pp=2 dp_replicate=4"),
        (3, 5): Kept(0, 3208547, 0.47, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 6): Kept(4, 3208547, 0.3, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 7): Kept(2, 2293328, 0.6, "pp=4 dp_replicate=2", "pp=2 dp_replicate=2 tp=2"),
        (3, 8): Kept(0, 2215712, 0.59, "pp=4 dp_replicate=2", "pp=2 dp_replicate=2 tp=2"),
        (3, 9): Kept(0, 2293328, 0.52, "pp=4 dp_replicate=2", "pp=2 dp_replicate=2 tp=2"),
    }
)
