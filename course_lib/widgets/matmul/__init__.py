"""The explorer of a split matmul.

In the order to read:

- ``ways.py``: what the matmul explorer shows and runs
- ``explorer.py``: the matmul explorer: cut X, A and Y as you like
"""
