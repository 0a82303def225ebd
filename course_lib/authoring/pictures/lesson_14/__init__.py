"""The pictures of lesson 14: a file for each part.

In the order to read:

- ``defend.py``: pictures of part b
- ``job.py``: pictures of part a
"""

from course_lib.authoring.pictures.lesson_14 import defend, job
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "job": job.job,
    "scored": job.scored,
    "order": defend.order,
    "stages": defend.stages,
    "cuts": defend.cuts,
}
