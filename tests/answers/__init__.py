"""Answers to the exercises, with the verdicts that they are to get. No learner sees them, and no wheel holds them.

- ``lesson_NN/NAME.py``: rows of the answers that people wrote (``tests/support/answer_table.py``)
- ``lesson_NN/right``: ``RIGHT_ANSWERS``, by exercise right ones of other styles than the solution's; ``SAME_FUNCTION``,
  by exercise and mutant why nobody could tell the mutant from the solution; ``MEANS_NOTHING``, by exercise and saboteur
  why what it spoils is no fault there
"""

from __future__ import annotations

import sys

import cloudpickle

__all__: list[str] = []

# Ranks know no tests: what is handed in travels by value, as a learner's cell does.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
