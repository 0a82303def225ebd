"""Pictures of what was measured and predicted: one style, each with a text that says the same in words.

Every function returns a ``Picture``: a PNG in a notebook, and its alt text wherever no picture can be shown.
"""

from course_lib.plot.bars import memory_bars
from course_lib.plot.curve import memory_curve
from course_lib.plot.gantt import gantt
from course_lib.plot.lines import lines
from course_lib.plot.memory_board import MemoryBoard
from course_lib.plot.mesh_tiles import who_holds
from course_lib.plot.pipeline_gantt import pipeline_gantt
from course_lib.plot.style import OKABE_ITO, Picture, png
from course_lib.plot.tiles import tiles

__all__ = [
    "OKABE_ITO",
    "MemoryBoard",
    "Picture",
    "gantt",
    "lines",
    "memory_bars",
    "memory_curve",
    "pipeline_gantt",
    "png",
    "tiles",
    "who_holds",
]
