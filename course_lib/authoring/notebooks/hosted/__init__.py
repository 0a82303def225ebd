"""Lessons for notebooks that others host (Colab, Kaggle, Binder, Codespaces): ``course build --hosted``.

A learner there has one notebook, and nothing of the course beside it. Read ``repository.py`` (addresses: of pictures,
of files, of each host's "open this notebook"), ``first_cell.py`` (the cell that installs the course and leaves the
host's own packages alone), ``cells.py`` (a source becomes a notebook that stands alone), ``host_files.py`` (the page
of badges, and the folders that Binder and Codespaces read), and ``folder.py`` (the files, and whose are kept).
``docs/hosted.md`` says what each host gives.

In the order to read:

- ``first_cell.py``: the first cell of a hosted notebook
- ``repository.py``: addresses: where a tag of the course can be read, and how each host is asked to open a notebook of
  it
- ``cells.py``: A lesson's source becomes a notebook that stands alone
- ``host_files.py``: what lies around hosted notebooks
- ``folder.py``: write hosted notebooks and what lies around them into a folder, and lose nothing that a person has
  there
- ``command.py``: what is typed: ``course build --hosted --repository URL --tag TAG [--to FOLDER] [--pictures URL]
  [--wheel URL]``
"""
