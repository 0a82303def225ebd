"""A listing in words, as JSON, and as what to type.

In the order to read:

- ``report.py``: A listing in words
- ``json_io.py``: A plan as JSON, and back
"""
