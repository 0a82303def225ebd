"""Programs to take home: the files that several of them share are written from one source each.

In the order to read:

- ``sources/``: the files as they are written by hand, with conditions where programs differ
- ``stamp.py``: ``course build --programs``: from the sources to the folders of ``course_lib/examples``
"""
