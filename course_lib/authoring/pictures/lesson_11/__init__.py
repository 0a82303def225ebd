"""The pictures of lesson 11: a file for each part.

In the order to read:

- ``explorer.py``: the picture above the plan explorer
- ``fits.py``: pictures of part a
- ``others.py``: pictures of part d
- ``sick.py``: pictures of evidence
- ``time.py``: pictures of part b
"""

from course_lib.authoring.pictures.lesson_11 import fits, others, sick, time
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
}
