"""The pictures of lesson 09: a file for each part."""

from course_lib.pictures.lesson_09 import assembled
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "first_cut": assembled.first_cut,
    "assembled": assembled.assembled,
    "strips": assembled.strips,
}
