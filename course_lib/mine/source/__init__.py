"""A learner's functions and classes as text: out of a notebook's cells, into a file, and out of the file again.

In the order to read:

- ``statements.py``: a file as its top-level statements, and which of them a name needs
- ``piece.py``: an answer with what it needs, as statements
- ``cells.py``: the texts of the cells from which a notebook's names come
- ``classes.py``: the statement that defines a class
- ``gather.py``: a piece out of a notebook
- ``merge.py``: a piece put into the text of a module
- ``package.py``: what a function needs of the package's files, and the digest of it
- ``load.py``: a version made to run
"""
