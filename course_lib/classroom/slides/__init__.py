"""Slides, speaker notes and a handout of a class plan, made of docs/instructor and of the lessons.

In the order to read:

- ``class_plan.py``: the plans of docs/instructor/plans.md, row by row
- ``part_material.py``: what a lesson's page has for a slide: the picture above a question, the question, the promise
- ``deck.py``: a slide for each row, and what the speaker has to know beside it
- ``pages.py``: the deck as pages of HTML that need nothing beside them
- ``command.py``: ``course class slides``
- ``handout.py``: ``course class handout``
"""
