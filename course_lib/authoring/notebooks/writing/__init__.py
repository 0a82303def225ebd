"""What the builder writes: notebooks, the map of lessons in README, its paths.

In the order to read:

- ``build.py``: bring the notebooks of the course up to date with their sources, or say which are not
- ``size_table.py``: how large each part is: words, lines given and written, questions, checks, minutes
- ``readme.py``: README.md and the pages behind it
- ``first_cell_line.py``: a line that the builder writes into the first cell of sources
- ``part_links.py``: the line by which a part leads to the others of its lesson
- ``needs_line.py``: the line by which a part leads to those it builds on
- ``replayed_box.py``: a table of published runs, beside what the model says of each
- ``measured_box.py``: a table of single published numbers, beside what a formula says of each
- ``printed.py``: what the planner says, in pages of ``docs``
"""
