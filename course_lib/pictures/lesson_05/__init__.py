"""The pictures of lesson 05: a file for each part, ``states.py``, ``units.py``, ``links.py``, ``model.py``."""

from course_lib.pictures.lesson_05 import links, units
from course_lib.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "quarters": units.quarters,
    "borrow": units.borrow,
    "units": units.units,
    "sent": links.sent,
    "room": links.room,
    "hybrid": links.hybrid,
}
