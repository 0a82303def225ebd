"""``problems``: problems on paper at the end of a lesson, at real size, with numbers drawn for each learner and try.

In the order to read:

- ``typed.py``: a number with a unit as people type it
- ``model_sizes.py``: a model in the words of a problem
- ``judge.py``: is an answer right, and if not, what is to be said about it
- ``sheet.py``: the problems of a lesson with one learner's numbers
- ``shown.py``: problems and their ways as text, and as HTML
- ``problem_form.py``: the form of a lesson's problems
- ``problems.py``: ``problems("04")``
"""
