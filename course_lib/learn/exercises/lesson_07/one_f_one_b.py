"""07.1f1b: in which order one stage works under 1F1B."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from course_lib.base.text import counted
from course_lib.cost.model_parallel.pipeline import simulate
from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.exercises.lesson_07.ready_made import ONE_F_ONE_BS
from course_lib.learn.exercises.lesson_07.told import ExplainedEvidence
from course_lib.learn.judging.compare import short
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.schedules import Schedule, from_text, one_f_one_b, peak_in_flight, validate
from course_lib.schedules.stage_times import StageTimes

__all__ = ["ONE_F_ONE_B"]

_SIZES = ((4, 8), (2, 4), (3, 3), (4, 2), (1, 3), (5, 12), (3, 7), (2, 1))  # stages, micro-batches
Row = list[str]


def _right(num_stages: int, num_micro_batches: int) -> dict[str, Any]:
    schedule = one_f_one_b(num_stages, num_micro_batches)
    return {
        "stages": num_stages,
        "micro-batches": num_micro_batches,
        "in flight": peak_in_flight(schedule),
        "time": simulate(schedule, StageTimes.of(1.0)).makespan_s,
    }


def _call(answer: Callable[..., Any], num_stages: int, num_micro_batches: int) -> Any:
    """The rows of all stages. The last is asked for first: a row knows nothing of those that were asked for before."""
    rows = {stage: answer(stage, num_stages, num_micro_batches) for stage in reversed(range(num_stages))}
    untouched = any(row is ... for row in rows.values())
    return ... if untouched else [_listed(rows[stage]) for stage in range(num_stages)]


def _listed(row: Any) -> Any:
    """A row as a list, whether it came as a tuple, an array or a generator."""
    if hasattr(row, "tolist"):
        row = row.tolist()
    return list(row) if isinstance(row, tuple | Iterator) else row


def _compare(expected: Any, got: Any) -> str:
    """Why it is no 1F1B, in words: an order that cannot run, too much memory, too much time, another turn."""
    if not isinstance(expected, dict):
        return "" if expected == got else "the rows differ"
    schedule = _read(expected, got)
    if isinstance(schedule, str):
        return schedule
    problems = validate(schedule)
    if problems:
        return str(problems[0])
    for stage, (wanted, found) in enumerate(zip(expected["in flight"], peak_in_flight(schedule), strict=True)):
        if found != wanted:
            return f"stage {stage} has {counted(found, 'micro-batch')} in flight at a time; under 1F1B it is {wanted}"
    time = simulate(schedule, StageTimes.of(1.0)).makespan_s
    if time > expected["time"]:
        return f"it takes {time:g} times one forward, where 1F1B takes {expected['time']:g}"
    return _another_turn(schedule, expected)


def _another_turn(schedule: Schedule, expected: dict[str, Any]) -> str:
    """The first place at which a stage runs another kind of action than 1F1B does."""
    p, m = expected["stages"], expected["micro-batches"]
    words = {"F": "a forward", "B": "a backward"}
    for stage, row in enumerate(schedule.rows):
        if any(action.kind not in words for action in row):
            return f"stage {stage} runs backwards in halves (I and W); under 1F1B a backward is whole, such as B0"
        for place, (found, wanted) in enumerate(zip(row, one_f_one_b(p, m).rows[stage], strict=True)):
            if found.kind != wanted.kind:
                return (
                    f"stage {stage} runs {found.short} in place {place + 1} of its row, where under 1F1B "
                    f"{words[wanted.kind]} has its turn"
                )
    return ""


def _read(expected: dict[str, Any], got: Any) -> Schedule | str:
    for stage, row in enumerate(got):
        if isinstance(row, str) or not isinstance(row, Sequence) or not all(isinstance(c, str) for c in row):
            return f"stage {stage}: expected a list such as ['F0', 'B0'], got {short(row)}"
    try:
        text = "\n".join(" ".join(row).strip() or "." for row in got)
        stages = range(expected["stages"])
        return from_text(text, num_micro_batches=expected["micro-batches"], rank_of_stage=stages)
    except ValueError as error:
        return str(error).rstrip(".")


# -- usual wrong answers ----------------------------------------------------------------------------------------


def _order(
    warm_up: Callable[[int, int, int], int], *, cap: bool = True, tail: bool = True, number: int = 0
) -> Callable[[int, int, int], Row]:
    """Some forwards, then one forward and one backward in turn, then what is left."""

    def answer(stage: int, num_stages: int, num_micro_batches: int) -> Row:
        m, first = num_micro_batches, warm_up(stage, num_stages, num_micro_batches)
        first = min(first, m) if cap else first
        row = [f"F{i + number}" for i in range(first)]
        for i in range(m - first):
            row += [f"F{first + i + number}", f"B{i + number}"]
        return row + ([f"B{i + number}" for i in range(max(0, m - first), m)] if tail else [])

    return answer


def _backward_first(stage: int, num_stages: int, num_micro_batches: int) -> Row:
    """In turn, with the backward in front, after as many forwards as 1F1B begins with."""
    m, first = num_micro_batches, min(num_stages - 1 - stage, num_micro_batches)
    row = [f"F{i}" for i in range(first)]
    for i in range(m - first):
        row += [f"B{i}", f"F{first + i}"]
    return row + [f"B{i}" for i in range(m - first, m)]


def _takes_the_newest(stage: int, num_stages: int, num_micro_batches: int) -> Row:
    """The backward of the micro-batch that came in last."""
    row = _order(lambda s, p, m: p - 1 - s)(stage, num_stages, num_micro_batches)
    order, waiting = [], []
    for word in row:
        if word[0] == "F":
            waiting.append(word[1:])
        order.append(word if word[0] == "F" else f"B{waiting.pop()}")
    return order


def _in_portions(stage: int, num_stages: int, num_micro_batches: int) -> Row:
    """Fill up to what 1F1B holds, run all of it back, and fill again."""
    row, size = [], num_stages - stage
    for begin in range(0, num_micro_batches, size):
        portion = range(begin, min(begin + size, num_micro_batches))
        row += [f"{kind}{i}" for kind in "FB" for i in portion]
    return row


def _takes_its_own(stage: int, num_stages: int, num_micro_batches: int) -> Row:
    """In each turn the backward of the micro-batch whose forward was run a moment ago."""
    m, first = num_micro_batches, min(num_stages - 1 - stage, num_micro_batches)
    turns = [f"{kind}{i}" for i in range(first, m) for kind in "FB"]
    return [f"F{i}" for i in range(first)] + turns + [f"B{i}" for i in range(first)]


def _another_number_at_once(evidence: Evidence) -> bool:
    return " in flight at a time" in evidence.wrong[0].difference


def _short_of_micro_batches(evidence: Evidence) -> bool:
    """Wrong only where there are fewer micro-batches than forwards before the first turn."""
    return all(o.expected["micro-batches"] < o.expected["stages"] - 1 for o in evidence.wrong)


ONE_F_ONE_B = Exercise(
    name="07.1f1b",
    may_yield=True,
    title="One stage of 1F1B",
    judge=ExplainedEvidence(
        by_cases_apart(
            [Case(f"{counted(p, 'stage')} and {counted(m, 'micro-batch')}", (p, m), _right) for p, m in _SIZES],
            call=_call,
            compare=_compare,
        ),
        _compare,
        ONE_F_ONE_BS,
    ),
    mistakes=(
        Mistake(
            "gpipe",
            "All forwards come first: that is GPipe, and every micro-batch is in flight at once. Begin with as many "
            "forwards as there are stages behind this one; then one forward and one backward in turn.",
            _order(lambda s, p, m: m),
        ),
        Mistake(
            "one-forward-too-many",
            "It works, and every stage has one micro-batch more in flight than it must. Before the turns begin, a "
            "stage needs one forward for each stage *behind* it: the last one needs none.",
            _order(lambda s, p, m: p - s),
        ),
        Mistake(
            "one-forward-too-few",
            "It works, and takes longer: a stage begins its turns one forward early and then waits for a gradient that "
            "is still on its way. It needs one forward for each stage behind it.",
            _order(lambda s, p, m: max(0, p - 2 - s)),
        ),
        Mistake(
            "wrong-end",
            "Your later stages begin with more forwards than the earlier ones. It is the first stage that waits "
            "longest for its first gradient, and so it has to begin with most.",
            _order(lambda s, p, m: s),
        ),
        Mistake(
            "no-warm-up",
            "Every stage runs F0 B0 F1 B1 and so on. Stage 0 then waits for B0 to come all the way back before it runs "
            "F1: the staircase again. Let it begin with some forwards.",
            _order(lambda s, p, m: 0),
        ),
        Mistake(
            "tail-forgotten",
            "The forwards at the beginning have no backward: after the turns as many backwards are left as there were "
            "forwards before them.",
            _order(lambda s, p, m: p - 1 - s, tail=False),
        ),
        Mistake(
            "few-micro-batches",
            "Right where there are enough micro-batches. With fewer of them than stages, the first stage runs forwards "
            "of micro-batches that do not exist: begin with `min(..., num_micro_batches)` of them.",
            recognise=_short_of_micro_batches,
        ),
        Mistake(
            "backward-first",
            "In each turn your backward comes before the forward. The last stage has run no forward at all by then; "
            "give it one first.",
            _backward_first,
        ),
        Mistake(
            "newest-first",
            "Your backwards take the micro-batch that came in last. Gradients come back in the order in which "
            "activations went out: B0 is the first.",
            _takes_the_newest,
        ),
        Mistake(
            "same-number-in-a-turn",
            "In each turn you run the backward of the micro-batch whose forward you ran a moment ago. Its gradient is "
            "not there yet: it comes from the last stage. What arrives first is B0. So the forward of a turn counts on "
            "from the warm-up, and the backward counts from 0.",
            _takes_its_own,
        ),
        Mistake(
            "in-portions",
            "You fill the stage, run everything back, and fill it again: GPipe in small portions. Nobody holds more "
            "than under 1F1B, but each portion fills and empties the pipeline anew. After the first backward, let one "
            "forward in at once.",
            _in_portions,
        ),
        Mistake(
            "holds-another-number",
            "It can run, and some stage has another number of micro-batches in flight than it would under 1F1B. Under "
            "1F1B it has as many as there are stages from its own to the last, if there are so many micro-batches.",
            recognise=_another_number_at_once,
        ),
    ),
    hints=(
        "F0 of the last stage is followed at once by its B0. What does the stage before it do in the meantime, so that "
        "it need not wait?",
        "Three parts. Warm-up: a forward for each stage behind this one. Then turns: one forward, one backward, until "
        "there are no forwards left. Then the backwards that are left.",
        "`first = min(num_stages - 1 - stage, num_micro_batches)`; then for i in range(num_micro_batches - first) "
        "append `F{first + i}` and `B{i}`; then the backwards from num_micro_batches - first on.",
    ),
    forbidden=(
        "course_lib.schedules.one_f_one_b",
        "course_lib.schedules.get_schedule",
        "course_lib.schedules.interleaved",
    ),
    passed="The schedule runs, and takes as long as GPipe's. No stage has more micro-batches in flight than there "
    "are stages from its own to the last.",
)
