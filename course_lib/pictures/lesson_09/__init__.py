"""The pictures of lesson 09: a file for each part."""

from course_lib.pictures.lesson_09.explorer import explorer
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "explorer": explorer,
}
