"""The pictures of lesson 14: a file for each part.

In the order to read:

- ``defend.py``: pictures of part b: an order of axes, stages of one model, and the whole course on a sheet
- ``job.py``: pictures of part a: a job with what is given for it, and what is looked at when it has run
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
