"""What came of the first seeds of each level: ``levels.anew`` takes seconds, since it plays every mesh that fits.

``tests/capstone`` draws some of them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["DRAWN", "PrecomputedLevel"]


class PrecomputedLevel(NamedTuple):
    """Of a level and a seed: how many draws were refused, the limits, the planner's best mesh, the expected best."""

    tries: int
    memory_bytes: int
    budget_s: float
    planned: str
    best: str


DRAWN: Mapping[tuple[int, int], PrecomputedLevel] = MappingProxyType(
    {
        (1, 0): PrecomputedLevel(3, 4393424, 0.27, "pp=4", "pp=4"),
        (1, 1): PrecomputedLevel(1, 2403330, 0.185, "dp_shard=4", "dp_shard=4"),
        (1, 2): PrecomputedLevel(0, 3084071, 0.198, "dp_shard=4", "dp_shard=4"),
        (1, 3): PrecomputedLevel(2, 4344272, 0.258, "pp=4", "pp=4"),
        (1, 4): PrecomputedLevel(5, 3263504, 0.334, "pp=4", "pp=4"),
        (1, 5): PrecomputedLevel(4, 4496520, 0.281, "pp=4", "pp=4"),
        (1, 6): PrecomputedLevel(13, 3063440, 0.278, "pp=4", "pp=4"),
        (1, 7): PrecomputedLevel(1, 3189776, 0.277, "pp=4", "pp=4"),
        (1, 8): PrecomputedLevel(0, 4280456, 0.264, "dp_shard=4", "dp_shard=4"),
        (1, 9): PrecomputedLevel(0, 3084071, 0.206, "dp_shard=4", "dp_shard=4"),
        (2, 0): PrecomputedLevel(0, 4057610, 0.304, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 1): PrecomputedLevel(1, 7458879, 0.268, "pp=4", "pp=2 dp_shard=2"),
        (2, 2): PrecomputedLevel(0, 7458879, 0.437, "pp=4", "pp=2 dp_shard=2"),
        (2, 3): PrecomputedLevel(0, 7458879, 0.402, "pp=4", "pp=2 dp_shard=2"),
        (2, 4): PrecomputedLevel(0, 4227938, 0.325, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 5): PrecomputedLevel(0, 7458879, 0.417, "pp=4", "pp=2 dp_shard=2"),
        (2, 6): PrecomputedLevel(3, 7458879, 0.361, "pp=2 dp_shard=2", "pp=2 dp_shard=2"),
        (2, 7): PrecomputedLevel(0, 3415293, 0.211, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 8): PrecomputedLevel(0, 5404791, 0.327, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (2, 9): PrecomputedLevel(0, 5145005, 0.264, "dp_replicate=2 dp_shard=2", "dp_replicate=2 dp_shard=2"),
        (3, 0): PrecomputedLevel(4, 1872208, 0.242, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 1): PrecomputedLevel(1, 1872208, 0.21, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 2): PrecomputedLevel(1, 3617379, 0.236, "pp=4 dp_replicate=2", "pp=2 dp_replicate=4"),
        (3, 3): PrecomputedLevel(0, 2960796, 0.33, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 4): PrecomputedLevel(0, 3617379, 0.274, "pp=4 dp_replicate=2", "pp=2 dp_replicate=4"),
        (3, 5): PrecomputedLevel(0, 3208547, 0.337, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 6): PrecomputedLevel(4, 3208547, 0.204, "pp=4 dp_replicate=2", "pp=2 dp_shard=4"),
        (3, 7): PrecomputedLevel(2, 2293328, 0.444, "pp=4 dp_replicate=2", "pp=2 dp_replicate=2 tp=2"),
        (3, 8): PrecomputedLevel(0, 2215712, 0.436, "pp=4 dp_replicate=2", "pp=2 dp_replicate=2 tp=2"),
        (3, 9): PrecomputedLevel(0, 2293328, 0.373, "pp=4 dp_replicate=2", "pp=2 dp_replicate=2 tp=2"),
        (4, 0): PrecomputedLevel(0, 4020176, 0.283, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 1): PrecomputedLevel(0, 3787492, 0.275, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 2): PrecomputedLevel(0, 3507052, 0.311, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 3): PrecomputedLevel(2, 3971024, 0.29, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 4): PrecomputedLevel(0, 3739728, 0.32, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 5): PrecomputedLevel(0, 4227938, 0.285, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 6): PrecomputedLevel(0, 4057610, 0.292, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 7): PrecomputedLevel(2, 4057610, 0.352, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 8): PrecomputedLevel(0, 3934308, 0.318, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
        (4, 9): PrecomputedLevel(0, 3690571, 0.334, "pp=2 dp_replicate=2", "pp=2 dp_replicate=2"),
    }
)
