"""What the pictures of lessons 06 and 07 share, a model cut by its layers: colours of its parts, boxes and arrows."""

from __future__ import annotations

from functools import partial

from course_lib.authoring.pictures import sketch
from course_lib.plot import OKABE_ITO

__all__ = ["GREEN", "LEFT", "LOOKS", "PURPLE", "RIGHT", "WHITE", "arrow", "box"]

LEFT, RIGHT, GREEN, PURPLE = (OKABE_ITO[name] for name in ("sky blue", "orange", "green", "purple"))
# Of a schedule's actions.
LOOKS = {"F": (LEFT, ""), "B": (RIGHT, "//"), "I": (PURPLE, "//"), "W": (GREEN, "\\\\")}
# The ground of a word that stands on something.
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}

box = partial(sketch.box, size=9.5, ink=sketch.INK, drop=0.0)
arrow = partial(sketch.arrow, head=14)
