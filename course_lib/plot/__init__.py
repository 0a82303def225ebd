"""Pictures of what was measured and predicted: one style, each with a text that says the same in words.

Every function returns a ``Picture``: a PNG in a notebook, and its alt text wherever no picture can be shown.

In the order to read:

- ``bundle.py``: A picture as a notebook's page takes it
- ``dark.py``: pictures in a dark theme
- ``style.py``: the one look of the course's pictures
- ``bars.py``: where the memory goes, as stacked bars
- ``step_bars.py``: what a device holds, and where its time goes, side by side
- ``curve.py``: live memory in a training step
- ``gantt_chart.py``: who did what when: a row for each rank, a box for each span
- ``line_chart.py``: curves: a loss over steps, a time over sizes, a prediction beside a measurement
- ``raster.py``: pictures painted box by box, without matplotlib
- ``boards/``: Pictures that explorers redraw: each a board
- ``pipeline_chart.py``: A pipeline over time: a row for each rank, a box for each action
- ``tile_chart.py``: what ranks hold, as tiles
- ``mesh_chart.py``: the ranks of a mesh at their places, each with a word on what it has
- ``found/``: Pictures of what a page has found, where the picture above its question ends in question marks
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "MemoryBoard": "boards.memory_board",
    "OKABE_ITO": "style",
    "Picture": "style",
    "clip_arrows": "found.clip_arrows",
    "flow_chart": "found.flow_chart",
    "gantt": "gantt_chart",
    "gantt_beside": "gantt_chart",
    "gpu_areas": "found.gpu_areas",
    "input_gradient_tiles": "found.gradient_tiles",
    "lines": "line_chart",
    "memory_and_time_bars": "step_bars",
    "memory_bars": "bars",
    "memory_curve": "curve",
    "mesh_places": "mesh_chart",
    "pipeline_gantt": "pipeline_chart",
    "png": "style",
    "position_grids": "found.position_grids",
    "sent_bars": "found.sent_bars",
    "slots_chart": "found.slots_chart",
    "stacked_bars": "found.stacked_bars",
    "tiles": "tile_chart",
    "traffic_map": "found.traffic_map",
    "ways_to_join": "found.joined_parts",
    "who_holds": "boards.mesh_tiles",
}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
