"""The pictures of lesson 10: a file for each part."""

from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {}
