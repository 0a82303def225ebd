"""The pictures of lesson 09: a file for each part.

In the order to read:

- ``assembled.py``: pictures of part d: which cut first, eight ranks with a batch, and a matrix in strips
- ``one_step.py``: the picture of part e: a step on four ranks, and what it asks
- ``explorer.py``: the picture above the mesh explorer
- ``norm.py``: pictures of part c: who holds what of two gradients, a folder for all meshes, and a mesh that was turned
  around
- ``pieces.py``: pictures of part b: a matrix that goes to four ranks, and a batch that goes to eight
- ``places.py``: pictures of part a: the places of eight ranks, and two orders of axes on two nodes
"""

from course_lib.authoring.pictures.lesson_09 import assembled, norm, pieces, places
from course_lib.authoring.pictures.lesson_09.explorer import explorer
from course_lib.authoring.pictures.lesson_09.one_step import one_step
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
    "one_step": one_step,
}
