"""Explorers to turn a formula by hand. Each works by keyboard, redraws in under 50 ms and says in words what
it shows; the plan explorer, which works out hundreds of layouts, in under 80 ms.
"""

from course_lib.widgets.bucket_explorer import BucketExplorer
from course_lib.widgets.collective_explorer import CollectiveExplorer
from course_lib.widgets.context_choice import ContextChoice
from course_lib.widgets.context_explorer import ContextExplorer
from course_lib.widgets.matmul_explorer import MatmulExplorer
from course_lib.widgets.memory_explorer import MemoryExplorer
from course_lib.widgets.memory_missions import AddedMemory, LargestBatch
from course_lib.widgets.mesh_choice import Choice as MeshChoice
from course_lib.widgets.mesh_choice import every_choice as every_mesh_choice
from course_lib.widgets.mesh_explorer import MeshExplorer
from course_lib.widgets.plan_choice import OwnCut, PlanChoice
from course_lib.widgets.plan_explorer import PlanExplorer
from course_lib.widgets.schedule_studio import Goal, ScheduleStudio, run_on_ranks
from course_lib.widgets.sharded_choice import Choice as ShardedChoice
from course_lib.widgets.sharded_explorer import ShardedExplorer

__all__ = [
    "AddedMemory",
    "BucketExplorer",
    "CollectiveExplorer",
    "ContextChoice",
    "ContextExplorer",
    "Goal",
    "LargestBatch",
    "MatmulExplorer",
    "MemoryExplorer",
    "MeshChoice",
    "MeshExplorer",
    "OwnCut",
    "PlanChoice",
    "PlanExplorer",
    "ScheduleStudio",
    "ShardedChoice",
    "ShardedExplorer",
    "every_mesh_choice",
    "run_on_ranks",
]
