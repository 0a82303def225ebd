"""Pictures of what a page has found, where the picture above its question ends in question marks.

Each draws the data of a run or of a formula and no more; its title says what is drawn, not what is so.

In the order to read:

- ``traffic_map.py``: who sends how much to whom, on two nodes
- ``sent_bars.py``: a rank's calls in their order, each as wide as the bytes that it sends
- ``flow_chart.py``: how much goes from each of some places to each of others
- ``stacked_bars.py``: quantities by part, with a limit
- ``joined_parts.py``: two parts put together in each way that there is, beside the whole
- ``gradient_tiles.py``: the backward product of a split matmul, rank by rank
- ``slots_chart.py``: which units are whole while each is computed
- ``clip_arrows.py``: clipped gradients beside the limit
- ``position_grids.py``: which positions each position reads
- ``gpu_areas.py``: steps as areas, time by GPUs
"""
