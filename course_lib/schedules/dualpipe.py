"""DualPipeV: two stages a rank in a V, and cells in which a forward and a backward overlap.

Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv 2412.19437, section 3.2.1, for DualPipe, which sends
micro-batches in from both ends and keeps two copies of every stage. The authors' program, deepseek-ai/DualPipe on
GitHub, has DualPipeV too: cut in half and folded into a V, with one copy of each stage. The order here is the
program's, which is that of PyTorch's ``ScheduleDualPipeV``. In the times of a stage the rank that waits longest does so
for (num_ranks - 1) (F&B + B - 3 W), where F, I and W take equally long.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from course_lib.base.checked import checked
from course_lib.schedules.action import Action, Cell, Overlap, actions_in
from course_lib.schedules.table import Schedule, check_counts, placement

__all__ = ["dual_pipe_v"]


@checked
def dual_pipe_v(num_ranks: int, num_micro_batches: int) -> Schedule:
    """ZB-V's stages, where the steady state runs the forward of one stage and the backward of the other together.

    What a forward waits for inside of a stage, such as the all-to-all of experts, hides behind the backward's
    computing, and the other way round. The price: whole backwards in the steady state, so longer gaps than ZB-V where
    nothing is to be hidden, and one micro-batch more in flight. It needs ``2 num_ranks`` micro-batches; with fewer it
    is what is left of it without the higher ones.
    """
    check_counts(num_ranks, num_micro_batches, 2)
    rows = tuple(
        tuple(_without_higher(_Row(rank, num_ranks, num_micro_batches).cells(), num_micro_batches))
        for rank in range(num_ranks)
    )
    return Schedule("DualPipeV", num_micro_batches, placement(num_ranks, 2, "v"), rows)


class _Row:
    """The order of one rank, in words: capitals are for the stage on the way down, small letters for that going up.

    F and f are forwards, B and b whole backwards, I and i those for the inputs; w is the oldest W that was kept back,
    of either stage, and Fb and fB are two that overlap.
    """

    def __init__(self, rank: int, num_ranks: int, num_micro_batches: int) -> None:
        self.rank, self.num_behind = rank, num_ranks - 1 - rank  # ranks to the turn of the V
        self.num_steady = max(num_micro_batches, 2 * num_ranks) - 2 * num_ranks + rank + 1
        self.stage = {True: rank, False: 2 * num_ranks - 1 - rank}  # by whether the letter is a capital
        self.seen: Counter[str] = Counter()
        self.kept_back: deque[Action] = deque()

    def cells(self) -> list[Cell]:
        return [cell for word in self._words() for cell in self._cells(word)]

    def _words(self) -> Iterator[str]:
        yield from ["F"] * (2 * self.num_behind)  # fill the way down
        yield from ["F", "f"] * (self.rank + 1)
        yield from ["i", "w", "f"] * self.num_behind
        for number in range(self.num_steady):
            first = number == 0 and self.num_behind == 0  # at the turn: one by one, so that others wait less
            yield from [*(["F", "b"] if first else ["Fb"]), "fB"]
        yield from ["b", "fB"] * self.num_behind  # no new micro-batch comes in
        # The second half of the last backwards is cut in two; from here on W's are kept back.
        num_whole = self.rank + 1
        yield from "bB" * (num_whole // 2)
        if num_whole % 2:
            yield from "bI"
        yield from "iI" * (num_whole // 2)
        yield from ["w", "I"] * self.num_behind
        yield from ["w"] * (self.rank + 1)

    def _cells(self, word: str) -> Iterator[Cell]:
        if len(word) == 2:
            yield Overlap(self._next(word[0]), self._next(word[1]))
        elif word != "w":
            yield self._next(word)
        elif self.kept_back:
            yield self.kept_back.popleft()

    def _next(self, letter: str) -> Action:
        """The next action of its letter; a B counts with the I's of its stage."""
        counted = letter.replace("B", "I").replace("b", "i")
        action = Action(letter.upper(), self.stage[letter.isupper()], self.seen[counted])
        self.seen[counted] += 1
        if action.kind == "I":
            self.kept_back.append(action._replace(kind="W"))
        return action


def _without_higher(cells: list[Cell], num_micro_batches: int) -> Iterator[Cell]:
    """The cells of micro-batches that are there; of two that overlap the other is left."""
    for cell in cells:
        left = [action for action in actions_in(cell) if action.micro_batch < num_micro_batches]
        if len(left) == 2:
            yield cell
        else:
            yield from left
