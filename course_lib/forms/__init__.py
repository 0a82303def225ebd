"""What every form and explorer has in common on a page: its keys, the names of its parts, its look in both themes.

``form.py`` is the box that they all are, ``page/`` what such a box brings to the page with it, ``picture.py`` the
picture that follows a control, ``busy.py`` a button that keeps the focus while it works, and ``stand_in.py`` what a
page shows when the form is lost. ``script.py`` brings a script to a page.

In the order to read:

- ``busy.py``: A button that works for a while keeps the focus
- ``picture.py``: the picture of an explorer
- ``script.py``: A script that comes to a page within HTML: it runs when a style sheet beside it has been loaded
- ``show.py``: how things are shown: a panel that reads well in light and dark, with words and a sign beside each colour
- ``stand_in.py``: what a page shows in place of a form whose kernel is gone
- ``form.py``: the box that every form and explorer is
"""

from course_lib.forms.busy import busy
from course_lib.forms.form import Form
from course_lib.forms.picture import picture_box

__all__ = ["Form", "busy", "picture_box"]
