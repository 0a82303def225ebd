"""The verb `lab`: JupyterLab on this machine's loopback address, behind a token, opened at the first lesson.

To be read in this order: `folder` (the clone, or a folder of the learner's own), `edition` (what is handed out),
`work` (what of a notebook is somebody's), `hand_out` (never over work), `reset`, `share` (one installation for many),
`options` (what JupyterLab is told), `hub` (and the servers of a hub), `kernels` (sockets of files in place of ports),
`forks` (one process that they begin from),
`port` (found free, and kept), `welcome` (what is said), `command`.

In the order to read:

- ``folder.py``: which folder a learner works in
- ``kernels.py``: kernels that listen on sockets in a folder of this user alone, where the system has them, and not on
  TCP ports
- ``forks.py``: one process of the learner's own, which has imported what lessons import
- ``left_bar.py``: JupyterLab's first layout: the left bar is closed, so that a lesson has the width, also at 200 % zoom
- ``options.py``: JupyterLab's options: the learner's own, and the course's wherever they gave none of that kind
- ``hub.py``: servers of a hub, made like `course lab`
- ``port.py``: A server that keeps the port which it has found free
- ``work.py``: what of a notebook is somebody's work
- ``hand_out.py``: hands lessons out into a learner's folder, and a newer edition later, and never writes over work
- ``edition.py``: what the course hands out
- ``reset.py``: ``course lab --reset 04a``: a lesson as it was at the start
- ``share.py``: one installation for many users
- ``welcome.py``: what a learner reads in the terminal
- ``command.py``: the command line of `course lab`
"""

from collections.abc import Sequence

from course_lib.lab.folder import FIRST_LESSON, LessonFolder, find_place, lessons_folder

__all__ = ["FIRST_LESSON", "LessonFolder", "find_place", "lessons_folder", "main"]


def main(argv: Sequence[str]) -> int:
    """Run `course lab` with these options."""
    from course_lib.lab import command

    return command.main(argv)
