"""What an exercise is: a judge, the usual wrong answers by name, three hints, and what may not be called.

How to write an exercise, such as ``course_lib/learn/exercises/lesson_07/gpipe.py``::

    from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
    from course_lib.learn.judging.judge import by_cases, by_ranks, by_value
    from course_lib.learn.catalogue.quiz_spec import Question

    def _right(num_items: int, world_size: int) -> list[int]:      # an oracle; not the text of the solution
        return [len(part) for part in torch.arange(num_items).tensor_split(world_size)]

    def _drops_the_rest(num_items: int, world_size: int) -> list[int]:   # a usual wrong answer
        return [num_items // world_size] * world_size

    EXERCISES = (
        Exercise(
            name="07.split",
            title="Cut a batch into parts",
            judge=by_cases([Case(f"{n} items on {w} ranks", (n, w), _right) for n, w in [(8, 4), (10, 4)]]),
            mistakes=(
                Mistake("drops-the-rest", "Your parts hold fewer items than the batch: ...", _drops_the_rest),
            ),
            hints=("first, a nudge", "second, the idea", "third, nearly the line"),
            forbidden=("torch.tensor_split", "torch.Tensor.tensor_split"),
            passed="Every item has one owner, and no part is larger than another by more than one.",
        ),
    )
    QUIZ = (Question(...),)

In the notebook source the learner's cell defines the answer between ``### BEGIN SOLUTION`` and ``### END
SOLUTION`` and a later cell says ``check("07.split", split)``. The tests take the reference solution from
there.

A mistake is recognised when the learner's answer *behaves like its example* in every case, or, where
``recognise`` is given, when ``recognise(evidence)`` is true. Mistakes are tried in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from course_lib.cluster.failures.rank_stands import RankStands

__all__ = ["AnswerOutcome", "Case", "Evidence", "Exercise", "Judge", "Mistake", "Raised"]


@dataclass(frozen=True)
class Case:
    """One situation in which an answer is tried.

    ``args`` is a tuple, or a function that makes one afresh: ``args()`` for :func:`by_cases`, ``args(rank,
    world_size)`` for :func:`by_ranks` (without ``me``, which the judge passes first). ``expected`` is a
    value, or a function of the arguments (``by_cases``) or of ``(rank, world_size)`` (``by_ranks``).
    ``label`` completes "with ...".
    """

    label: str
    args: tuple[Any, ...] | Callable[..., tuple[Any, ...]]
    expected: Any


@dataclass(frozen=True)
class Raised:
    """An exception that left the learner's code: its kind and text, and their line where that is known.

    ``story`` is the longer report that ranks give: who failed first, and where the others stood. ``stands`` is the same
    as data; who decides anything goes by that.
    """

    kind: str
    message: str = ""
    line: int | None = None
    source: str = ""
    story: str = ""
    stands: RankStands | None = None
    file: str = ""  # of the line
    is_late: bool = False  # nothing was raised: it had not ended when its time was over
    advice: str = ""  # said last

    def __str__(self) -> str:
        what = f"{self.kind}: {self.message}" if self.message else self.kind
        where = "" if self.line is None else f", on line {self.line}"
        return f"{what}{where} (`{self.source}`)" if where and self.source else what + where


@dataclass(frozen=True)
class AnswerOutcome:
    """One thing that was looked at: what was expected, what came, and the difference in words (empty: none).

    Of an answer on ranks, ``kind`` is the label of the case as the exercise writes it, and ``case`` says beside it on
    which ``rank`` of ``num_ranks`` it was. ``unwaited``: the rank began a call and nobody waited for it.
    """

    case: str
    expected: Any
    got: Any = None
    error: Raised | None = None
    difference: str = ""
    kind: str = ""
    rank: int = -1
    num_ranks: int = 0
    unwaited: bool = False

    @property
    def right(self) -> bool:
        return self.error is None and not self.difference

    @property
    def kind_of_difference(self) -> str:
        """The kind that whoever compared gave it (``Difference``); "" for none, or where it has no kind."""
        return getattr(self.difference, "kind", "")


@dataclass(frozen=True)
class Evidence:
    """All that running an answer showed: its outcomes in order, the answer itself, and facts of the judge's
    own.
    """

    outcomes: tuple[AnswerOutcome, ...]
    answer: Any = None
    called: tuple[str, ...] = ()  # forbidden functions that the answer was seen calling
    facts: Mapping[str, Any] = field(default_factory=dict)
    on_nccl: tuple[str, ...] = ()  # what works here and would fail on NCCL, by ``meter.communication.nccl_rules``

    @property
    def passed(self) -> bool:
        return bool(self.outcomes) and all(outcome.right for outcome in self.outcomes)

    @property
    def wrong(self) -> tuple[AnswerOutcome, ...]:
        """The outcomes that are not as expected, in order."""
        return tuple(outcome for outcome in self.outcomes if not outcome.right)

    @property
    def error(self) -> Raised | None:
        """The first exception that was raised, if any."""
        return next((outcome.error for outcome in self.outcomes if outcome.error), None)

    @property
    def stands(self) -> RankStands:
        """Where ranks stood at that error; of nobody, where there was none, or none on ranks."""
        from course_lib.cluster.failures.rank_stands import RankStands

        return RankStands() if self.error is None or self.error.stands is None else self.error.stands

    def got(self, case: str) -> Any:
        """What the answer gave in the case of this label."""
        for outcome in self.outcomes:
            if outcome.case == case:
                return outcome.got
        raise KeyError(f"no case {case!r}; there are {[outcome.case for outcome in self.outcomes]}")


Judge = Callable[[Any, tuple[str, ...]], Evidence]
"""``judge(answer, forbidden)`` runs an answer and tells what it saw; ``forbidden`` names what the answer may
not call.

Use :func:`~course_lib.learn.judging.judge.by_cases`, ``by_value`` or ``by_ranks``; write your own only where none
fits, and put the learner's part of it under ``with watch(forbidden) as called``. It may let the learner's
exceptions through.
"""


@dataclass(frozen=True, eq=False)
class Mistake:
    """A usual wrong answer with a name: ``message`` says what was mixed up.

    ``recognise(evidence) -> bool`` tells it, where it takes several forms or cannot be run twice (a deadlock); answers
    that make it stand in ``tests/answers`` then. Without it there is an ``example`` here, and the learner's answer is
    compared with the example's behaviour.
    ``shows(outcome) -> bool`` picks the outcome that is shown as evidence, where the first wrong one may not tell it.
    """

    name: str
    message: str
    example: Any = None
    recognise: Callable[[Evidence], bool] | None = None
    shows: Callable[[AnswerOutcome], bool] | None = None

    def __post_init__(self) -> None:
        if self.example is None and self.recognise is None:
            raise ValueError(f"mistake {self.name!r}: give recognise, or an example whose behaviour tells it")


@dataclass(frozen=True, kw_only=True, eq=False)
class Exercise:
    """One exercise of a lesson, ``name`` like "00.split". ``hints`` are three, from a nudge to nearly the
    line.

    ``forbidden`` names library functions that the learner is to write and so may not call, such as
    "torch.distributed.all_reduce", "torch.Tensor.cumsum" or "torch.nn.parallel.DistributedDataParallel".
    """

    name: str
    title: str
    judge: Judge
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, str, str]
    forbidden: tuple[str, ...] = ()
    is_value: bool = False  # the answer is no function
    may_yield: bool = False  # the answer may be a generator: items are asked for, and a generator gives them
    time_limit_s: float = 20.0
    passed: str = "Right in every case that was tried."

    def __post_init__(self) -> None:
        lesson, dot, rest = self.name.partition(".")
        if not (len(lesson) == 2 and lesson.isdigit() and dot and rest):
            raise ValueError(f'exercise name {self.name!r}: use two digits, a dot and a word, such as "07.split"')
        if len(self.hints) != 3:
            raise ValueError(f"exercise {self.name}: {len(self.hints)} hints given; an exercise has exactly three")
        names = [mistake.name for mistake in self.mistakes]
        if len(set(names)) != len(names):
            raise ValueError(f"exercise {self.name}: two mistakes share a name in {names}")

    @property
    def lesson(self) -> str:
        """The two digits of the lesson."""
        return self.name[:2]

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """On how many ranks it runs; empty when it runs in this process."""
        return tuple(getattr(self.judge, "world_sizes", ()))
