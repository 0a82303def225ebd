"""The planner beside training runs that others published.

In the order to read:

- ``published_scores.py``: how good predictions are: errors of times and bytes, the null model, and the choice among
  layouts of one job
- ``published_report.py``: the planner beside published runs, table by table
- ``published.py``: ``course bench published FILE``: the planner beside training runs that others published
"""
