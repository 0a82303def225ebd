"""What an exercise, a prediction, a quiz question and a problem on paper are, as data.

In the order to read:

- ``exercise.py``: what an exercise is: a judge, the usual wrong answers by name, three hints, and what may not be
  called
- ``prediction_spec.py``: A question that a lesson asks before a run, and what is told after it
- ``quiz_spec.py``: what a quiz question is
- ``problem_spec.py``: what a problem on paper is: a function that draws its numbers, and gives text, answer and way
"""
