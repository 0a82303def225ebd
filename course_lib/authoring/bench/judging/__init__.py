"""Wrong and right answers handed in to every check, counted.

In the order to read:

- ``defects.py``: small defects of an expression, for mutants
- ``mutants.py``: mutants: copies of a reference solution with one small defect each, such as people make them
- ``kept_answers.py``: answers to the exercises, right and wrong, which stand beside the tests; and what is excused
- ``hand_in.py``: in a process of its own
- ``judges.py``: ``course bench judges``: how many wrong answers the checks refuse, and how many right ones they accept
"""
