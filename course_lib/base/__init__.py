"""What every room stands on: checks of arguments, lazy faces, paths, signals. Nothing here knows what is taught.

In the order to read:

- ``checked.py``: ``@checked``: a function, or a dataclass, whose arguments are held against its own type hints, with a
  sentence
- ``checks.py``: sentences for settings that cannot work
- ``chosen_name.py``: one of some names, by itself or by words that it alone has
- ``clock.py``: the clock of a job: the notebook's, also on a rank of another machine
- ``foreign_text.py``: A text that somebody else wrote, so that it can neither steer a terminal nor pass for another
  text on a page
- ``front_end.py``: what shows this notebook's outputs
- ``html.py``: HTML from templates: Jinja2 files in a folder ``templates`` beside the module that fills them
- ``lazy.py``: packages whose names load when they are first used, so that what is data can be read without torch
- ``named_file.py``: A file that a person names, or that lies where others write
- ``paths.py``: where the course's files are, and where it keeps what it learns about a machine and its learner
- ``signals.py``: what ends a program from outside (a closed terminal, a batch system's SIGTERM) ends it as Ctrl-C does
- ``stub_words.py``: what a learner's untouched stub says when it is called
- ``text.py``: numbers of things, lists and sizes as text, each written in one place
- ``whole_file.py``: a file that is written whole, or stays as it was
"""

from __future__ import annotations

from course_lib.base.lazy import loads_when_used

_HOME_OF = {"project_root": "paths"}

__all__ = sorted(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
