"""The planner beside training runs that others published.

In the order to read:

- ``published_scores.py``: how good predictions are
- ``published_report.py``: the planner beside published runs, table by table
- ``published.py``: ``course bench published FILE``
"""
