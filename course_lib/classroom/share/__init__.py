"""What a learner shares with the class: one file.

In the order to read:

- ``shared.py``: the file that a learner shares
- ``command.py``: ``course class share FOLDER``: copy your own progress into a folder of the instructor's
"""
