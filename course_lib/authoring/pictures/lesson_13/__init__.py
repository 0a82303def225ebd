"""The pictures of lesson 13: a file for each part.

In the order to read:

- ``disturbed.py``: picture of part c: a trial on a quiet machine and on a busy one, and pairs side by side
- ``fair.py``: picture of part d: the stations of a fair trial, and its three ways out
- ``twice.py``: picture of part b: two devices, each with all that is kept
- ``verdicts.py``: picture of part a: four verdicts, which of them let one rely on a sentence, and the answer that is
  none
"""

from course_lib.authoring.pictures.lesson_13 import disturbed, fair, twice, verdicts
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "verdicts": verdicts.verdicts,
    "twice": twice.twice,
    "disturbed": disturbed.disturbed,
    "fair": fair.fair,
}
