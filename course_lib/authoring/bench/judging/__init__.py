"""Wrong and right answers handed in to every check, counted.

In the order to read:

- ``defects.py``: small defects of an expression, for mutants
- ``mutants.py``: mutants
- ``hand_in.py``: in a process of its own
- ``judges.py``: ``course bench judges``
"""
