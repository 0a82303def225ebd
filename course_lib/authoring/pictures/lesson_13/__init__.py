"""The pictures of lesson 13: a file for each part.

In the order to read:

- ``disturbed.py``: picture of part c
- ``fair.py``: picture of part d
- ``twice.py``: picture of part b
- ``verdicts.py``: picture of part a
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
