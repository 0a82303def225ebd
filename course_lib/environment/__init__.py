"""Makes the environment that ./course hands over to: the folder .venv, with everything in it.

It runs before anything is installed, so it uses the standard library alone. To be read in this order: `set_up` (what is
done, and in which order), `install` (the packages, by uv or by pip), `settings` (pip's settings, told to uv), `step`
(one command with its output kept back), `failures` (what that output means), `lock` (one set-up at a time),
`first_imports` (so that the first lesson starts quickly).

In the order to read:

- ``failures.py``: what the output of a failed step means, in sentences for the learner
- ``first_imports.py``: imports once what the lessons import, so that Python keeps its compiled form and the first
  lesson starts quickly
- ``settings.py``: pip's settings, told to uv
- ``step.py``: runs one step of the set-up, with its output kept back, and says what its failure means
- ``install.py``: installs the packages: by uv, in seconds, and by pip where uv cannot be had or cannot do it
- ``lock.py``: one set-up at a time, and a request to stop that reaches it wherever it is
- ``set_up.py``: what a set-up does, and in which order
"""

from course_lib.environment.failures import SetupError
from course_lib.environment.set_up import Target, set_up

__all__ = ["SetupError", "Target", "set_up"]
