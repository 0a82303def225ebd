"""What learners have built and kept: looked at as a list and as text, and never run.

In the order to read:

- ``packages.py``: the packages below a folder, and what each learner's record says of them
- ``command.py``: ``course class mine FOLDER``
"""
