"""Every kind of form that a learner meets, a cell of code for each, to be run one after the other in one kernel."""

from __future__ import annotations

__all__ = ["FORMS", "NUM_PICTURES"]

FORMS = {
    "a number": 'from course_lib import ask\nask("00.sum")',
    "a choice": 'ask("00.shared")',
    "an order": "from course_lib.learn.predictions.predict import Predict\n"
    'Predict("of.three", "In which order?", order=("one", "two", "three"))',
    "a quiz": 'from course_lib import quiz\nquiz("00")',
    "problems": 'from course_lib import problems\nproblems("04")',
    "a bet": 'from course_lib import bet\nbet("A8")',
    "a report that is folded": "from course_lib.learn.display.verdict import Verdict\n"
    'Verdict("00.share", "raised", "An error.", details="what happened", printed="what was printed")',
    "memory": "from functools import partial\nfrom course_lib import cost\n"
    "from course_lib.models import TransformerConfig\nfrom course_lib.widgets import MemoryExplorer\n"
    "small = TransformerConfig(context_length=32, num_layers=2, width=64, num_heads=4)\n"
    "MemoryExplorer(partial(cost.transformer_memory, small))",
    "a collective": "from course_lib import shared_cluster\n"
    "from course_lib.parallel.collectives import record\nfrom course_lib.widgets import CollectiveExplorer\n"
    "two = shared_cluster(2)\n"
    'CollectiveExplorer([record(two, "all_reduce, ring"), record(two, "broadcast")])',
    "buckets": "from course_lib.widgets import BucketExplorer\nBucketExplorer(two)",
    "shards": "from course_lib.widgets import ShardedExplorer\nShardedExplorer(two)",
    "a matmul": "from course_lib.widgets import MatmulExplorer\nMatmulExplorer(shared_cluster)",
    "the studio": "from course_lib.widgets import ScheduleStudio, run_on_ranks\nScheduleStudio(run_on_ranks)",
    "a mesh": "from course_lib.widgets import MeshExplorer\nMeshExplorer(two)",
    "a context": "from course_lib.widgets import ContextExplorer\nContextExplorer(two)",
    "a placement": "from course_lib import start\nstart(placement=True)",
    "plans": "from course_lib.widgets import PlanExplorer\nPlanExplorer()",
}
NUM_PICTURES = 9  # of the explorers and the studio
