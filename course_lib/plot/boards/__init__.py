"""Pictures that explorers redraw: each a board.

In the order to read:

- ``bucket_board.py``: A data-parallel step and its buckets
- ``matmul_board.py``: A split matmul, rank by rank
- ``memory_board.py``: stacked bars of memory that follow a control
- ``mesh_tiles.py``: who holds which piece of a matrix
- ``context_board.py``: A sequence cut among ranks at a glance
- ``mesh_board.py``: A mesh at a glance
- ``plan_looks.py``: how the parts of a plan look in every picture
- ``plan_bars.py``: layouts of a plan at a glance
- ``plan_board.py``: A few layouts beside each other
- ``sharded_board.py``: the memory of a sharded step
"""
