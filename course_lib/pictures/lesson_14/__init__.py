"""The pictures of lesson 14: a file for each part."""

from course_lib.pictures.lesson_14 import defend, job
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "job": job.job,
    "scored": job.scored,
    "order": defend.order,
    "stages": defend.stages,
    "cuts": defend.cuts,
}
