"""Saboteurs: each makes a wrong answer of any right one, in a way that people's answers are wrong.

A mutant (``mutants.py``) has one small defect in the solution's own text. A saboteur stands around the answer, whoever
wrote it, and spoils what a call keeps, takes, costs or leaves. In the order to read:

- ``frame.py``: put a saboteur around an answer: a function, or each method of a class
- ``found.py``: tensors, modules and numbers among what an answer is given and gives
- ``keeps.py``: something is kept from one call to the next
- ``narrow.py``: right for some inputs only: a dtype, a layout, a number of ranks, no rows
- ``costs.py``: right, and dearer than it has to be: messages, bytes
- ``spoils.py``: right, and something beside the result is changed or left
- ``errors.py``: an error that is lost, and results that are the inputs
"""

from course_lib.authoring.bench.judging.saboteurs.frame import SABOTEURS, Saboteur, sabotaged

__all__ = ["SABOTEURS", "Saboteur", "sabotaged"]
