"""The pictures of lesson 05: a file for each part, ``states.py``, ``units.py``, ``links.py``, ``model.py``."""

from course_lib.pictures.lesson_05 import model
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "clip": model.clip,
    "files": model.files,
    "tied": model.tied,
}
