"""Lesson 10, long contexts: attention over a sequence that is cut among ranks.

Nothing is built here yet. What it will stand on is there: ``collectives.ring`` for the blocks that go round, and
``collectives.direct`` for the all-to-all beside it. In PyTorch it is ``context_parallel``, a prototype.
"""
