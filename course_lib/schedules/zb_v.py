"""ZB-V: a zero bubble schedule with two stages a rank, placed in a V, and the memory of 1F1B.

Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 6. The letters are those of
``zero_bubble.py``. With ``2 num_ranks - 1`` micro-batches or more the order can be said in words. With fewer, the
authors' program searches; here a greedy rule is tried with a few settings, and the shortest table is taken.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from course_lib.base.checked import checked
from course_lib.schedules.action import Action
from course_lib.schedules.table import Schedule, check_counts, placement

__all__ = ["zero_bubble_v"]

# What a rank takes first of all that is ready. In words, F is the forward of the stage on the way down, f that on the
# way up; likewise I, i, W and w.
_PREFERENCES = ("fFIi", "IifF", "fFiI")
_MOST_RANKS_SEARCHED = 16  # a fraction of a second


@checked
def zero_bubble_v(num_ranks: int, num_micro_batches: int) -> Schedule:
    """Two stages a rank, placed in a V (the first rank holds the first and the last), and no gap but the stagger.

    The order is for a forward, an I and a W that take equal time. A rank has ``2 num_ranks`` micro-batches in flight
    at most, each of half the size that they have with one stage a rank. With fewer than ``2 num_ranks - 1``
    micro-batches it is the shortest that a small search finds; on more than 16 ranks, the order for more micro-batches
    without the higher ones.
    """
    check_counts(num_ranks, num_micro_batches, 2)
    p, m = num_ranks, num_micro_batches
    rows = [[action for action in _v_row(rank, p, m) if action.micro_batch < m] for rank in range(p)]
    in_words = _schedule(m, rows)
    if m >= 2 * p - 1 or p > _MOST_RANKS_SEARCHED:
        return in_words
    found = [in_words, *(_schedule(m, _Greedy(p, m).rows(preference)) for preference in _PREFERENCES)]
    return min(found, key=lambda schedule: schedule.dependencies.order[-1][0])  # the fewest steps, each as long


def _schedule(num_micro_batches: int, rows: Sequence[Sequence[Action]]) -> Schedule:
    return Schedule("ZB-V", num_micro_batches, placement(len(rows), 2, "v"), tuple(map(tuple, rows)))


def _v_row(rank: int, num_ranks: int, num_micro_batches: int) -> list[Action]:
    """The order of one rank, where the n-th of a word is for micro-batch n."""
    m, down, up = max(num_micro_batches, 2 * num_ranks - 1), rank, 2 * num_ranks - 1 - rank
    hops = num_ranks - rank  # to the turn of the V, this rank counted
    words = "F" * (2 * hops - 1)  # fill the way down until the first micro-batch comes back
    words += "fF" * rank
    words += "fiw" * hops  # the way up: its backward may follow at once at the last stage
    num_down = 2 * hops - 1 + rank
    words += "FIWfiw" * (m - num_down)  # steady: everything once
    words += "IWfiw" * (num_down - rank - hops)  # no new micro-batch comes in
    words += "Ii" * rank  # the stage before waits: inputs first
    words += "IW" * hops
    words += "w" * rank + "W" * rank  # what was kept back
    seen: Counter[str] = Counter()
    row = []
    for word in words:
        row.append(Action(word.upper(), down if word.isupper() else up, seen[word]))
        seen[word] += 1
    return row


class _Greedy:
    """All ranks in steps: each takes the first of its preference that is ready, else a W that it has kept back."""

    def __init__(self, num_ranks: int, num_micro_batches: int) -> None:
        self.p, self.m = num_ranks, num_micro_batches
        self.done: dict[tuple[str, int, int], int] = {}  # F or I, stage, micro-batch: the step after which it is there
        self.seen: list[Counter[str]] = [Counter() for _ in range(num_ranks)]
        self.kept_back: list[deque[Action]] = [deque() for _ in range(num_ranks)]
        self.in_flight = [0] * num_ranks

    def rows(self, preference: str) -> list[list[Action]]:
        rows: list[list[Action]] = [[] for _ in range(self.p)]
        step, num_left = 0, 6 * self.p * self.m
        while num_left:
            for rank, row in enumerate(rows):
                action = self._next(rank, preference, step)
                if action is not None:
                    row.append(action)
                    num_left -= 1
            step += 1
        return rows

    def _next(self, rank: int, preference: str, step: int) -> Action | None:
        for word in preference:
            action = Action(word.upper(), self._stage(rank, word), self.seen[rank][word])
            if action.micro_batch < self.m and self._is_ready(rank, action, step):
                self.seen[rank][word] += 1
                self.done[action] = step
                if action.kind == "F":
                    self.in_flight[rank] += 1
                else:
                    self.kept_back[rank].append(action._replace(kind="W"))
                return action
        if not self.kept_back[rank]:
            return None
        self.in_flight[rank] -= 1
        return self.kept_back[rank].popleft()

    def _is_ready(self, rank: int, action: Action, step: int) -> bool:
        kind, stage, i = action
        needs = [(kind, stage - 1, i)] if kind == "F" else [("F", stage, i), (kind, stage + 1, i)]
        if kind == "F":  # on the way down a place is left free, or nothing could go up again
            num_free = 2 * self.p - self.in_flight[rank]
            if num_free < (2 if stage < self.p else 1):
                return False
        return all(self.done.get(need, step) < step for need in needs if 0 <= need[1] < 2 * self.p)

    def _stage(self, rank: int, word: str) -> int:
        return rank if word.isupper() else 2 * self.p - 1 - rank
