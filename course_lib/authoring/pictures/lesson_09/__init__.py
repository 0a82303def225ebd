"""The pictures of lesson 09: a file for each part.

In the order to read:

- ``assembled.py``: pictures of part d
- ``explorer.py``: the picture above the mesh explorer
- ``norm.py``: pictures of part c
- ``pieces.py``: pictures of part b
- ``places.py``: pictures of part a
"""

from course_lib.authoring.pictures.lesson_09 import assembled, norm, pieces, places
from course_lib.authoring.pictures.lesson_09.explorer import explorer
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "places": places.places,
    "nodes": places.nodes,
    "pieces": pieces.pieces,
    "explorer": explorer,
    "windows": pieces.windows,
    "counted": norm.counted,
    "folder": norm.folder,
    "turned": norm.turned,
    "first_cut": assembled.first_cut,
    "assembled": assembled.assembled,
    "strips": assembled.strips,
}
