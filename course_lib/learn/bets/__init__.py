"""``bet`` and ``settle``: a stake on a claim before its trial.

In the order to read:

- ``open_bets.py``: some claims that bets are placed on
- ``bet_form.py``: the form of bets on claims
- ``betting.py``: ``bet("A4", "A6")``: bets on claims, before their trials may be seen
- ``scoreboard.py``: ``scoreboard()``: all claims by article, how many bets were right, and whether "how sure" was well
  said
- ``settling.py``: ``settle("A4", "A6")``: run the trials of claims, and put each verdict with its numbers beside the
  bet
"""
