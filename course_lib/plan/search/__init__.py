"""Every layout, ranked: constraints, the search space, budget, advice.

In the order to read:

- ``constraints.py``: what a layout must obey before its memory is asked
- ``search_space.py``: every layout that is worth a look
- ``listing.py``: all layouts of a job on a cluster
- ``fastest.py``: the fastest of them alone, for clusters of other sizes
- ``budget.py``: what a whole training takes
- ``advice.py``: what to do about a listing
- ``gpu_count_sweep.py``: how many GPUs: the fastest layout on each size of a cluster, and which size meets a wish
"""
