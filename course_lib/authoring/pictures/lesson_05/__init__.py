"""The pictures of lesson 05: a file for each part, ``states.py``, ``units.py``, ``links.py``, ``model.py``.

In the order to read:

- ``explorer.py``: the picture above the sharded explorer
- ``links.py``: pictures of part d: what travels in a step, how many units may be whole, and two links
- ``model.py``: pictures of part e: a gradient on two ranks, files and the ranks that read them, a weight in two units
- ``states.py``: pictures of the state of a model on several ranks
- ``building.py``: pictures of parts f and g: what is to be built, and a row whose memory comes and goes
- ``units.py``: pictures of part b: who keeps which rows, a weight that is whole for a moment, and what a unit may be
"""

from course_lib.authoring.pictures.lesson_05 import building, links, model, states, units
from course_lib.authoring.pictures.lesson_05.explorer import explorer
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "four_times": states.four_times,
    "half_each": states.half_each,
    "early": states.early,
    "quarters": units.quarters,
    "borrow": units.borrow,
    "units": units.units,
    "explorer": explorer,
    "sent": links.sent,
    "room": links.room,
    "hybrid": links.hybrid,
    "clip": model.clip,
    "files": model.files,
    "tied": model.tied,
    "optimizer": building.optimizer,
    "wrapper": building.wrapper,
    "emptied": building.emptied,
}
