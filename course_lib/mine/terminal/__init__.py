"""`course mine`: the learner's library at a terminal, its checks again, and a folder that trains by it.

In the order to read:

- ``command.py``: the command line: a list, the checks, the text, or a pack
- ``pieces.py``: what of the learner's files goes into a pack, and why some of it cannot
- ``measure.py``: bytes, memory and time of the learner's classes beside PyTorch's
- ``folder.py``: that folder written, with the program that trains
"""
