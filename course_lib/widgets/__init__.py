"""Explorers to turn a formula by hand. Each works by keyboard, redraws in under 50 ms and says in words what
it shows.
"""

from .bucket_explorer import BucketExplorer
from .collective_explorer import CollectiveExplorer
from .memory_explorer import MemoryExplorer

__all__ = ["BucketExplorer", "CollectiveExplorer", "MemoryExplorer"]
