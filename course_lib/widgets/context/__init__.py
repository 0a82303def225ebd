"""The explorer of context parallelism.

In the order to read:

- ``choice.py``: what the context explorer's controls choose, and what the cost model says of the choice
- ``missions.py``: missions for the context explorer
- ``words.py``: what the context explorer shows, in sentences
- ``explorer.py``: the context explorer: who computes what of a sequence that is cut among ranks, and what each rank
  sends, by the cost model, and on real ranks
"""
