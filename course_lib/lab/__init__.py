"""The verb `lab`: JupyterLab on this machine's loopback address, behind a token, opened at the first lesson.

To be read in this order: `folder` (the clone, or a folder of the learner's own), `edition` (what is handed out),
`work` (what of a notebook is somebody's), `hand_out` (never over work), `reset`, `share` (one installation for many),
`options` (what JupyterLab is told), `hub` (and the servers of a hub), `kernels` (sockets of files in place of ports),
`port` (found free, and kept), `welcome` (what is said), `command`.
"""

from collections.abc import Sequence

from course_lib.lab.folder import FIRST_LESSON, Place, find_place, lessons_folder

__all__ = ["FIRST_LESSON", "Place", "find_place", "lessons_folder", "main"]


def main(argv: Sequence[str]) -> int:
    """Run `course lab` with these options."""
    from course_lib.lab import command

    return command.main(argv)
