"""Makes the environment that ./course hands over to: the folder .venv, with everything in it.

It runs before anything is installed, so it uses the standard library alone. To be read in this order: `set_up` (what is
done, and in which order), `install` (the packages, by uv or by pip), `settings` (pip's settings, told to uv), `step`
(one command with its output kept back), `failures` (what that output means), `lock` (one set-up at a time),
`first_imports` (so that the first lesson starts quickly).
"""

from course_lib.environment.failures import SetupError
from course_lib.environment.set_up import Target, set_up

__all__ = ["SetupError", "Target", "set_up"]
