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
"""

from course_lib.pictures.cli import main

__all__ = ["main"]
