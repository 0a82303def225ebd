"""What a notebook hears of its nodes when they cannot be used: a sentence, in place of the library's own stack."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

__all__ = ["NodeLost", "NodesUnlike", "next_step"]

# What ssh, or the shell there, has said last: what helps. The first that is found counts.
_HELPS = (
    (r"Host key verification failed", "Type `{ssh}` once, and answer yes if you know the key that it shows."),
    (r"Permission denied", "It accepts none of your keys; `ssh-copy-id` installs one. Go on when `{ssh}` asks "
        "nothing."),
    (r"Could not resolve", "Is the name right? Go on when `{ssh}` works. Give a port by --ssh-option=-p2222."),
    (r"Connection refused|timed out|No route to host|unreachable",
     "Is it up, and does ssh listen there? Go on when `{ssh}` works. Give a port by --ssh-option=-p2222."),
    (r"No module named '?course_lib", "Where is the course there? Name its folder: --clone FOLDER."),
    (r"No module named", "{python} there lacks what the course needs: name the Python of its .venv, --python PATH."),
    (r"No such file|not found|cannot execute",
     "Where is the Python with the course there? Name it: --python PATH (now {python})."),
)  # fmt: skip


class _ShownAsText(RuntimeError):
    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class NodeLost(_ShownAsText):
    """A node does not answer, or not any more."""


class NodesUnlike(_ShownAsText):
    """Nodes that cannot work together, or with this notebook: another Python, PyTorch or course."""


def next_step(said: str, host: str, ssh_options: Sequence[str], python: str) -> str:
    """What to do next where ``host`` cannot be reached, by what ssh has ``said``; empty where that is not known."""
    ssh = shlex.join(["ssh", *ssh_options, host, "true"])
    helps = next((helps for pattern, helps in _HELPS if re.search(pattern, said)), "")
    dot = "" if said.endswith(".") else "."
    return f"{dot} {helps.format(ssh=ssh, python=python)}" if helps else ""
