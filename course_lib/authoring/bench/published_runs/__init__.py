"""The planner beside training runs that others published.

In the order to read:

- ``published_scores.py``: how good predictions are: errors of times and bytes, the null model, and the choice among
  layouts of one job
- ``few_and_more.py``: ``--few``: constants fitted on few GPUs and judged on more, or never fitted; and the bands that
  the errors make
- ``missing_facts.py``: what a cluster that nobody has measured lacks, constant by constant
- ``published_report.py``: the planner beside published runs, table by table
- ``published.py``: ``course bench published FILE``: the planner beside training runs that others published
"""
