"""The pictures of lesson 09: a file for each part."""

from course_lib.pictures.lesson_09 import pieces
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "pieces": pieces.pieces,
    "windows": pieces.windows,
}
