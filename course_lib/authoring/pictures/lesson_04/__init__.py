"""The pictures of lesson 04: a file for each part. Curves and bars are computed by the cost model.

In the order to read:

- ``gradients.py``: the pictures of part a: four models, one mean, buckets that leave early
- ``batches.py``: the pictures of part b: pieces of a batch, who reads what, and how steps shrink
- ``building.py``: the picture of part d: a wrapper, and what is not known yet of its messages
- ``faults.py``: the pictures of part c: a replica that leaves the others, and a file that is cut short
- ``trace.py``: the picture of part e: the rows of a trace
"""

from course_lib.authoring.pictures.lesson_04 import batches, building, faults, gradients, trace
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "apart": gradients.apart,
    "step": gradients.step,
    "buckets": gradients.buckets,
    "overlap": gradients.overlap,
    "bucket_size": gradients.bucket_size,
    "explorer": gradients.explorer,
    "build": building.build,
    "accumulate": batches.accumulate,
    "sampler": batches.sampler,
    "batch": batches.batch,
    "batch_norm": batches.batch_norm,
    "scaling": batches.scaling,
    "drift": faults.drift,
    "checkpoint": faults.checkpoint,
    "memory": batches.memory,
    "rows": trace.rows,
}
