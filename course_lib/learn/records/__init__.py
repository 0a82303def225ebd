"""What is kept of a learner's work: answers, bets, and a summary.

In the order to read:

- ``store.py``: the learner's own record
- ``bet_records.py``: bets on claims
- ``summary.py``: what a list of progress events adds up to
"""
