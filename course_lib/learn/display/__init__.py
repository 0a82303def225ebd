"""How something is put before a learner: units, verdicts, a page revealed.

In the order to read:

- ``pictures_here.py``: the pictures of a lesson that lies alone
- ``repr_cleanup.py``: names in place of what Python shows of an object
- ``units.py``: quantities as people read them
- ``revealed.py``: what a prediction meets: a table of predicted, cost model and measured, and the sentences that
  explain it
- ``verdict.py``: what ``check`` says: a status, a sentence, and the evidence behind it
"""
