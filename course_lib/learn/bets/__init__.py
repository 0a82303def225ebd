"""``bet`` and ``settle``: a stake on a claim before its trial.

In the order to read:

- ``open_bets.py``: some claims that bets are placed on
- ``bet_form.py``: the form of bets on claims
- ``betting.py``: ``bet("A4", "A6")``
- ``scoreboard.py``: ``scoreboard()``
- ``settling.py``: ``settle("A4", "A6")``
"""
