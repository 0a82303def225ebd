"""Pictures of what was measured and predicted: one style, each with a text that says the same in words.

Every function returns a ``Picture``: a PNG in a notebook, and its alt text wherever no picture can be shown.
"""

from .bars import MemoryBoard, memory_bars
from .curve import memory_curve
from .gantt import gantt
from .lines import lines
from .pipeline_gantt import pipeline_gantt
from .style import OKABE_ITO, Picture, png
from .tiles import tiles

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
]
