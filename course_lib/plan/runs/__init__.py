"""Runs of others, and what the planner says of them.

In the order to read:

- ``published.py``: reads training runs that others published
- ``predict_run.py``: what the planner says of a published run
- ``fit.py``: fits the constants of a cluster to its published runs, within their bounds and near what is typical
- ``kept_apart.py``: judges the planner on runs that its constants were not fitted to
- ``bands.py``: bands of its errors there, as wide as other clusters show that they have to be
- ``replayed.py``: the published runs of lesson 11: what was measured, and what the planner says of it, twice
"""
