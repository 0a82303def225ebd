"""Lesson 10, experts: layers of which each token uses a few, and each rank holds some.

Nothing is built here yet. What it will stand on is there: ``collectives.direct`` has the all-to-all that carries tokens
to their experts and back.
"""
