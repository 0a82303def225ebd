"""ZB-1p and ZB-2p: zero bubble schedules that a program makes, for stages of given times and a given memory.

Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 3.1. The letters are those of
``zero_bubble.py``: the authors' B is our I. Their heuristic, in their order:

- *Warm-up*: as many F as fit into the memory and into the time before the first I comes back. One more F may close the
  gap that is left and put the first I off: tried both ways.
- *Then* one F and one I in turn. Where a rank would wait for T_W or longer, a W that was kept back fills the gap; also
  where the memory is full. In a shorter gap a W comes only if this rank would else become the one that has waited
  longest: or always, tried both ways.
- A stage is ahead of the next by one F at least. Where it is by more, it may leave out one F that would put its I off:
  tried both ways.
- When F and I have run out, the W's that are left.

Of the eight tables the one is taken whose busiest rank is done soonest.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from course_lib.base.checked import checked
from course_lib.base.checks import at_least, not_negative
from course_lib.schedules.action import Action
from course_lib.schedules.stage_times import StageTimes
from course_lib.schedules.table import Schedule, check_counts, placement

__all__ = ["zero_bubble_auto"]

_MOST_SEARCHED = 20_000  # forwards: seconds
_EPSILON = 1e-9  # of sums of times that should be equal


@checked
def zero_bubble_auto(
    num_ranks: int,
    num_micro_batches: int,
    max_in_flight: int,
    *,
    times: StageTimes | None = None,
    message_s: float = 0.0,
    weight_share: float = 1.0,
) -> Schedule:
    """A zero bubble schedule with activations of at most ``max_in_flight`` micro-batches on every rank.

    ``max_in_flight=num_ranks`` makes ZB-1p, which has the memory of 1F1B; twice as many make ZB-2p. ``times`` are
    those of every stage (default: F, I and W take equally long), and a message takes ``message_s`` seconds.
    ``weight_share`` of a micro-batch's activations are needed until W (the paper's M_W / M_B), the rest until I. With
    1 the limit is that of ``validate``, which counts a micro-batch as in flight until W; the paper's own tables are
    made with 32 / (34 + 5 a s / h) for a heads, sequences of s tokens and width h. Raises ValueError for counts below
    1, for a search that would take minutes, for a negative time and for a share that is not from 0 to 1.
    """
    check_counts(num_ranks, num_micro_batches)
    at_least(1, max_in_flight=max_in_flight)
    not_negative(message_s=message_s)
    if not 0 <= weight_share <= 1:
        raise ValueError(
            f"weight_share is {weight_share}; it must be from 0 to 1. The nearest is {min(max(weight_share, 0), 1)}."
        )
    if num_ranks * num_micro_batches > _MOST_SEARCHED:
        raise ValueError(
            f"num_ranks={num_ranks} and num_micro_batches={num_micro_batches} make {num_ranks * num_micro_batches:,} "
            f"forwards to place in eight ways; this scheduler takes at most {_MOST_SEARCHED:,}. Take "
            f"{max(1, _MOST_SEARCHED // num_ranks)} micro-batches."
        )
    memory = _Memory(max_in_flight, weight_share)
    each = times or StageTimes(1.0, 1.0, 1.0)
    tries = (
        _Try(num_ranks, num_micro_batches, memory, each, message_s, _Ways(*ways))
        for ways in product((False, True), repeat=3)
    )
    best = min((each_try.run() for each_try in tries), key=_Try.cost)
    rows = tuple(map(tuple, best.rows))
    return Schedule(_name(num_ranks, max_in_flight), num_micro_batches, placement(num_ranks), rows)


def _name(num_ranks: int, max_in_flight: int) -> str:
    times_p, rest = divmod(max_in_flight, num_ranks)
    return f"ZB-{times_p}p" if rest == 0 else f"ZB, {max_in_flight} in flight"


class _Memory(NamedTuple):
    """In micro-batches: the limit of a rank, and what of each is needed until W."""

    limit: float
    weight_share: float

    def allows(self, num_forwards: int, num_inputs: int, num_weights: int) -> bool:
        """Whether a rank may have run so many F, I and W."""
        let_go = num_inputs * (1 - self.weight_share) + num_weights * self.weight_share
        return num_forwards - let_go <= self.limit + _EPSILON


class _Ways(NamedTuple):
    """What the authors try both ways."""

    puts_off_the_first: bool  # one more F in the warm-up, though the first I must wait for it
    fills_all_gaps: bool  # also those that are shorter than a W
    leaves_out: bool  # an F that would put an I off


class _Try:
    """One table, made in rounds: in each a stage runs an F, first to last, and then an I, last to first."""

    def __init__(
        self,
        num_ranks: int,
        num_micro_batches: int,
        memory: _Memory,
        times: StageTimes,
        message_s: float,
        ways: _Ways,
    ) -> None:
        self.p, self.m, self.memory, self.message_s, self.ways = (
            num_ranks,
            num_micro_batches,
            memory,
            message_s,
            ways,
        )
        self.time_s = {kind: times.time_s(kind) for kind in "FIW"}
        self.rows: list[list[Action]] = [[] for _ in range(num_ranks)]
        self.count = {kind: [0] * num_ranks for kind in "FIW"}
        self.end_s: dict[tuple[str, int, int], float] = {}
        self.began_s, self.free_s, self.waited_s = ([0.0] * num_ranks for _ in range(3))

    def run(self) -> _Try:
        self._warm_up()
        for i in range(self.m):
            if i:
                self._forwards(i)
            for stage in reversed(range(self.p)):
                self._fill(stage, self._arrival_s("I", stage))
                self._put("I", stage)
        for stage in range(self.p):
            while self.count["W"][stage] < self.m:
                self._put("W", stage)
        return self

    def cost(self) -> tuple[float, float]:
        """From the first action of the rank that is busy longest to its last; then the whole step."""
        spans_s = [free_s - began_s for free_s, began_s in zip(self.free_s, self.began_s, strict=True)]
        return (round(max(spans_s), 9), round(max(self.free_s), 9))

    def _put(self, kind: str, stage: int) -> None:
        """Run the next action of a kind as soon as it can be; waiting counts from the first action on."""
        i = self.count[kind][stage]
        start_s = max(self.free_s[stage], self._arrival_s(kind, stage))
        if self.rows[stage]:
            self.waited_s[stage] += start_s - self.free_s[stage]
        else:
            self.began_s[stage] = start_s
        self.rows[stage].append(Action(kind, stage, i))
        self.free_s[stage] = self.end_s[kind, stage, i] = start_s + self.time_s[kind]
        self.count[kind][stage] += 1

    def _arrival_s(self, kind: str, stage: int) -> float:
        """When what the next action of a kind needs from another stage is there."""
        source = {"F": stage - 1, "I": stage + 1}.get(kind, -1)
        if not 0 <= source < self.p:
            return 0.0
        return self.end_s[kind, source, self.count[kind][stage]] + self.message_s

    def _warm_up(self) -> None:
        """The first F of each stage, and before the first I comes back as many more as there is room for."""
        for stage in range(self.p):
            self._put("F", stage)
        more = [0] * self.p
        back_s = self.free_s[-1] + self.time_s["I"] + self.message_s  # when the first I is there
        for stage in reversed(range(self.p - 1)):
            at_s, early_s = self.free_s[stage], 0.0 if self.ways.puts_off_the_first else self.time_s["F"]
            while 1 + more[stage] < self.m and self.memory.allows(2 + more[stage], 0, 0):
                if at_s + early_s > back_s + _EPSILON or at_s >= back_s - _EPSILON:
                    break
                more[stage] += 1
                at_s += self.time_s["F"]
            back_s = max(at_s, back_s) + self.time_s["I"] + self.message_s
        for stage in range(self.p):
            if stage and 1 + more[stage] < self.m:  # ahead of the next stage by one
                more[stage] = max(0, min(more[stage], more[stage - 1] - 1))
            for _ in range(more[stage]):
                self._put("F", stage)

    def _forwards(self, i: int) -> None:
        """An F of each stage that has one left, unless it is left out."""
        back_s = self._when_back()
        for stage in range(self.p):
            done = self.count["F"][stage]
            if done >= self.m or (stage and done >= self.count["F"][stage - 1]):
                continue
            is_ahead = stage + 1 < self.p and done >= self.count["F"][stage + 1] + 2 and done > i
            puts_off = self.free_s[stage] + self.time_s["F"] > back_s[stage] + _EPSILON
            if self.ways.leaves_out and is_ahead and puts_off:
                continue
            while not self.memory.allows(done + 1, self.count["I"][stage], self.count["W"][stage]):
                self._put("W", stage)
            self._fill(stage, self._arrival_s("F", stage))
            self._put("F", stage)

    def _when_back(self) -> list[float]:
        """For each stage when its next I may come back at the earliest."""
        found, at_s = [0.0] * self.p, self.free_s[-1] + self.time_s["F"]
        for stage in reversed(range(self.p)):
            found[stage] = at_s
            at_s = max(at_s, self.free_s[stage]) + self.time_s["I"] + self.message_s
        return found

    def _fill(self, stage: int, until_s: float) -> None:
        """Put W's that were kept back where the stage would wait."""
        while self.count["W"][stage] < self.count["I"][stage] and until_s > self.free_s[stage] + _EPSILON:
            gap_s = until_s - self.free_s[stage]
            is_longest = self.waited_s[stage] + gap_s > max(self.waited_s)
            if gap_s < self.time_s["W"] - _EPSILON and not (self.ways.fills_all_gaps or is_longest):
                break
            self._put("W", stage)
