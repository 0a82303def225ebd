"""The pictures of lesson 09: a file for each part."""

from course_lib.pictures.lesson_09 import norm
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "counted": norm.counted,
    "folder": norm.folder,
    "turned": norm.turned,
}
