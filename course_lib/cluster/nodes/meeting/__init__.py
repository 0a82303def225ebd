"""Where ranks of several nodes find each other: a table in the notebook, asked by the lines of their agents.

In the order to read:

- ``table.py``: what ranks have said, and who waits for what
- ``relay.py``: on a node: takes the questions of its ranks, and brings back the answers
"""
