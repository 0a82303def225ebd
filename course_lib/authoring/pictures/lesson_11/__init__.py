"""The pictures of lesson 11: a file for each part.

In the order to read:

- ``explorer.py``: the picture above the plan explorer
- ``fits.py``: pictures of part a: three numbers and the room for them, which cut takes from which, and a device that
  was full
- ``others.py``: pictures of part d: how a run is replayed, what a bill counts, and NVLink domains of two sizes
- ``planner.py``: the picture of part e: a planner, what it is given, and what judges it
- ``sick.py``: pictures of evidence: how to read a timeline, spans of a rank that overlap, and the order in which to
  look
- ``time.py``: pictures of part b: where the time of a step goes, and the two nodes of the bet
"""

from course_lib.authoring.pictures.lesson_11 import fits, others, planner, sick, time
from course_lib.authoring.pictures.lesson_11.explorer import explorer
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "three": fits.three,
    "cuts": fits.cuts,
    "full": fits.full,
    "parts": time.parts,
    "bet": time.bet,
    "timeline": sick.timeline,
    "spans": sick.spans,
    "looks": sick.looks,
    "replay": others.replay,
    "bill": others.bill,
    "domains": others.domains,
    "explorer": explorer,
    "planner": planner.planner,
}
