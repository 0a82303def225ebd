"""The pictures of the lessons, as code that draws them; what it draws lies in ``assets/NN_name.png``.

Type ``./course pictures 07`` to draw the pictures of lesson 07 again, ``./course pictures`` for those of all lessons,
``./course pictures --only 07_formula`` for one, and ``./course pictures --list`` for their names. Equal code draws
equal bytes, so a picture that comes out otherwise shows as a change in git.

Read ``sketch.py`` (a sheet, words, boxes, arrows, ranks), then the lesson that you care for: ``lesson_NN.py``, or a
folder ``lesson_NN/`` with one idea a file. Each offers ``PICTURES``, a function for every name, and where it needs one
a ``STYLE``, settings of matplotlib's. ``cut_model.py`` is what lessons 06 and 07 share. ``gallery.py`` finds the
pictures, draws them and saves them, all in one place; ``cli.py`` is the command. For a new picture, write a function
that returns a figure, and give it a name in ``PICTURES``.

Two kinds are left alone. Those in ``MEASURED`` show a real run, which differs from time to time; they are drawn only
when asked for by name. ``assets/lesson.png``, README's, is taken of a lesson in a real browser by ``front.py``
(``./course pictures front``).

In the order to read:

- ``front.py``: ``course pictures front``: the picture of README, ``assets/lesson.png``, taken of a real page in a real
  browser
- ``gallery.py``: where the pictures of all lessons hang
- ``cli.py``: ``course pictures``: draw the pictures of the lessons into ``assets/``, again
- ``sketch.py``: what the drawings of several lessons share
- ``cut_model.py``: what the pictures of lessons 06 and 07 share, a model cut by its layers
- ``lesson_00.py``: the pictures of lesson 00
- ``lesson_01.py``: the pictures of lesson 01
- ``lesson_02.py``: the pictures of lesson 02
- ``lesson_03.py``: the pictures of lesson 03. All are drawings
- ``lesson_04/``: The pictures of lesson 04: a file for each part
- ``lesson_05/``: The pictures of lesson 05: a file for each part, ``states.py``, ``units.py``, ``links.py``,
  ``model.py``
- ``lesson_06.py``: the pictures of lesson 06
- ``lesson_07/``: The pictures of lesson 07
- ``lesson_08/``: The pictures of lesson 08: the explorer is the widget's own, the others are drawings
- ``lesson_09/``: The pictures of lesson 09: a file for each part
- ``lesson_10/``: The pictures of lesson 10: a file for each part
- ``lesson_11/``: The pictures of lesson 11: a file for each part
- ``lesson_12/``: The pictures of lesson 12: a file for each part
- ``lesson_13/``: The pictures of lesson 13: a file for each part
- ``lesson_14/``: The pictures of lesson 14: a file for each part
"""

from course_lib.authoring.pictures.cli import main

__all__ = ["main"]
