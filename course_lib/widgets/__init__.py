"""Explorers to turn a formula by hand. Each works by keyboard, redraws in under 50 ms and says in words what
it shows.
"""

from .bucket_explorer import BucketExplorer
from .collective_explorer import CollectiveExplorer
from .matmul_explorer import MatmulExplorer
from .memory_explorer import MemoryExplorer
from .schedule_studio import Goal, ScheduleStudio, run_on_ranks

__all__ = [
    "BucketExplorer",
    "CollectiveExplorer",
    "Goal",
    "MatmulExplorer",
    "MemoryExplorer",
    "ScheduleStudio",
    "run_on_ranks",
]
