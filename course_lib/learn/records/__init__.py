"""What is kept of a learner's work: answers, bets, and a summary.

In the order to read:

- ``store.py``: the learner's own record: one JSON line per event in a file that two kernels may write at once
- ``own_number.py``: a number that differs from learner to learner, drawn once and kept
- ``bet_records.py``: bets on claims: what a learner bet, how sure they were, what the trials said, and how good the
  bets were
- ``summary.py``: what a list of progress events adds up to
"""
