"""The pictures of lesson 12: a file for each part.

In the order to read:

- ``faults.py``: pictures of faults: steps done twice, what a checkpoint of a job holds, and agents on their way to a
  store
- ``nodes.py``: pictures of part a: who meets before ranks start, a ring over two nodes, and an all-reduce in two
  storeys
- ``outliving.py``: the picture of part f: a job whose ranks die while they save
- ``take_along.py``: pictures of part d: who starts whom under Slurm, what is looked at before a job, and four ways to
  tell ranks what to do
- ``thousands.py``: pictures of part c: what a failure throws away, a checkpoint written beside training, and who is
  waited for
- ``wrong_numbers.py``: a picture of part e: where in a step a rank can be wrong
"""

from course_lib.authoring.pictures.lesson_12 import faults, nodes, outliving, take_along, thousands, wrong_numbers
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
    "wrong": wrong_numbers.wrong,
    "outlives": outliving.outlives,
}
