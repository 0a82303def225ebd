"""``quiz``: questions at the end of a lesson.

In the order to read:

- ``answers.py``: the answers to a quiz
- ``quiz_form.py``: the form of a quiz
- ``quizzes.py``: ``quiz("07")``: the questions that close a lesson, their right answers computed when they are asked
"""
