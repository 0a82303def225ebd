"""What tests with users of the system share: a course that all users can read."""

from shared_course import course, folder  # noqa: F401 - fixtures
