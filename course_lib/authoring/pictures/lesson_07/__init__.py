"""The pictures of lesson 07.

Boxes of schedules stand where the simulator puts them; the picture of the studio is of a run on four ranks.
``parts.py`` draws what is cut, ``actions.py`` what a schedule decides, ``timetables.py`` schedules in time, and
``clinic.py`` the bugs; ``building.py`` has the pictures of part d. The one of part e is among the timetables.
"""

from course_lib.authoring.pictures.lesson_07 import actions, building, clinic, parts, timetables
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "staircase": timetables.staircase,
    "pieces": parts.pieces,
    "formula": timetables.formula,
    "table": actions.table,
    "pile": actions.pile,
    "choice": actions.choice,
    "train": parts.train,
    "wrong": timetables.wrong,
    "virtual_stages": parts.virtual_stages,
    "halves": actions.halves,
    "studio": timetables.studio,
    "grid": parts.grid,
    "clinic_bytes": clinic.clinic_bytes,
    "clinic_loss": clinic.clinic_loss,
    "clinic_send": clinic.clinic_send,
    "production": actions.production,
    "arrival": building.arrival,
    "runtime": building.runtime,
    "held": timetables.held,
}
