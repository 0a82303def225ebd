"""What the caller of a cluster sees when ranks fail: one exception that tells the whole story."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.cluster.base.failure import Failure
    from course_lib.cluster.failures.cpu_deadline import UncountedTime
    from course_lib.cluster.failures.rank_status import RankStatus
    from course_lib.cluster.failures.run import Run

__all__ = ["RankError", "RankFailed", "RankInterrupted", "RankTimeout"]


class _ShownAsText:
    """Shows its story in a notebook, in place of the library's own stack, which would only bury it."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class RankError(_ShownAsText, RuntimeError):
    """Ranks did not finish. ``failures`` by rank, ``failure`` is the cause, ``run`` holds what was finished.

    ``statuses`` by rank: where those stood that did not fail, when the call was ended. ``is_deadlock``: it ended
    because nobody could have finished, and not at the deadline. ``uncounted``: what of the time was not counted.
    """

    def __init__(
        self,
        story: str,
        *,
        failures: dict[int, Failure] | None = None,
        run: Run | None = None,
        statuses: dict[int, RankStatus] | None = None,
        is_deadlock: bool = False,
        uncounted: UncountedTime | None = None,
    ) -> None:
        super().__init__(story)
        self.failures = failures or {}
        self.run = run
        self.statuses = statuses or {}
        self.is_deadlock, self.uncounted = is_deadlock, uncounted

    @property
    def failure(self) -> Failure | None:
        """The failure that came first and is no echo of another."""
        return first_failure(self.failures)

    @property
    def rank(self) -> int | None:
        """The rank that failed first."""
        return self.failure.rank if self.failure else None


class RankFailed(RankError):
    """A rank raised, died, or returned what cannot be pickled."""


class RankTimeout(RankError):
    """Ranks were still busy or waiting at the deadline, or could never have finished."""


class RankInterrupted(_ShownAsText, KeyboardInterrupt):
    """The learner interrupted; the ranks have been stopped."""


def first_failure(failures: dict[int, Failure]) -> Failure | None:
    """The culprit: a process that died explains its peers' broken connections, else the earliest true error."""
    order = sorted(failures.values(), key=lambda failure: (failure.is_echo, failure.time_s))
    return order[0] if order else None
