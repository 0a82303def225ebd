"""The pictures of lesson 12: a file for each part.

In the order to read:

- ``faults.py``: pictures of faults
- ``nodes.py``: pictures of part a
- ``take_along.py``: pictures of part d
- ``thousands.py``: pictures of part c
"""

from course_lib.authoring.pictures.lesson_12 import faults, nodes, take_along, thousands
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "meet": nodes.meet,
    "ring": nodes.ring,
    "storeys": nodes.storeys,
    "redone": faults.redone,
    "state": faults.state,
    "meeting": faults.meeting,
    "failure": thousands.failure,
    "hidden": thousands.hidden,
    "slowest": thousands.slowest,
    "slurm": take_along.slurm,
    "looked_at": take_along.looked_at,
    "family": take_along.family,
}
