"""What the tests of a hub and of Slurm share: a course that all users can read."""

from shared_course import course, folder  # noqa: F401 - fixtures
