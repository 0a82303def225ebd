"""What tests with users of the system share: a course that all users can read."""

import pytest
from shared_course import course, folder  # noqa: F401 - fixtures


@pytest.fixture
def no_kernels_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which no lab opens: nothing is imported for its kernels."""
    monkeypatch.setenv("COURSE_FORKS", "off")
