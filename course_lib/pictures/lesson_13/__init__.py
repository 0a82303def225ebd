"""The pictures of lesson 13: a file for each part."""

from course_lib.pictures.lesson_13 import disturbed, fair, twice, verdicts
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "verdicts": verdicts.verdicts,
    "twice": twice.twice,
    "disturbed": disturbed.disturbed,
    "fair": fair.fair,
}
