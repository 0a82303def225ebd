"""What is asked of every prediction of a lesson: tests to inherit, for a file that knows runs and what to tell of them.

A run is told right beside plausible runs, every way to miss it hears why, and a run far from the model is called so.
A file names its questions, its runs and its tests of its own::

    class TestToldRuns(ToldRuns):
        asked, runs, far, guesses = ASKED, RUNS, FAR, (33, 34)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pytest

from course_lib.learn import ask, exercises, reveal
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation


class Run(NamedTuple):
    """A run that might have been: what the cell hands over, and what is to be told of it."""

    name: str  # of the question
    given: tuple[Any, ...]
    measured: Any = None
    model: Any = None  # equal to the digit; a ``pytest.approx`` where it is not rounded


def usual_runs(runs: Iterable[tuple[Any, ...]]) -> dict[str, Run]:
    """Of each question's runs the first, which is what a learner is most likely to see."""
    return {name: Run(name, *more) for name, *more in reversed(list(runs))}


class ToldRuns:
    """Tests of a file's predictions. A test of the file's own that predicts stands in its class, which forgets again.

    ``runs`` are told as they were; ``far`` has runs that the cost model does not meet, without what is told of them.
    ``guesses`` are numbers of which each misreading that is a function must know one. ``unforeseen`` holds what may be
    measured and that nobody can answer: a choice that is not offered, or no number at all. ``one_sided`` names the
    questions whose sentences are those of the usual run alone: where the run went another way, they say nothing to one
    who gives the answer that is usually right, and keep a sentence for the one that is right now.
    """

    asked: ClassVar[Mapping[str, Asked]]
    runs: ClassVar[Sequence[tuple[Any, ...]]]
    far: ClassVar[Sequence[tuple[Any, ...]]] = ()
    guesses: ClassVar[Sequence[float]] = ()
    unforeseen: ClassVar[Sequence[Any]] = ()
    one_sided: ClassVar[Sequence[str]] = ()

    def __init_subclass__(cls) -> None:
        """Where a file asks for numbers alone there is no wrong choice, and no test of it that would be skipped."""
        if not any(asked.choices for asked in cls.asked.values()):
            cls.test_every_wrong_choice_hears_why = None  # type: ignore[assignment]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        usual = usual_runs(self.runs)
        cases = {
            "run": [Run(*one) for one in self.runs],
            "usual_run": [usual[name] for name in self.asked if name in usual],
            "choice_run": [Run(*one) for one in self.runs if self.asked[one[0]].choices],
            "far_run": [Run(*one) for one in self.far],
        }
        for argument in cases.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(argument, cases[argument], ids=[run.name for run in cases[argument]])

    @pytest.fixture(autouse=True)
    def nothing_predicted(self) -> Iterator[None]:
        for name in self.asked:
            ask(name).reset()
        yield
        for name in self.asked:
            ask(name).reset()

    def told(self, run: Run) -> Explanation:
        return self.asked[run.name].tell(*run.given)

    def is_usual(self, run: Run) -> bool:
        return usual_runs(self.runs)[run.name].given is run.given

    def right_answers(self, run: Run) -> list[Any]:
        """What the model says and what was measured; of a run far from the model, what the model says."""
        told = self.told(run)
        is_apart = reveal(run.name, *run.given).is_apart
        return [one for one in (told.model, None if is_apart else told.measured) if one is not None]

    def shown_to(self, answer: Any, run: Run) -> Any:
        """What is revealed of a run to one who gave this answer. ``ValueError`` where it cannot be given."""
        ask(run.name).reset()
        ask(run.name).commit(answer)
        return reveal(run.name, *run.given)

    def test_every_prediction_is_tried_and_asked_in_the_lesson(self) -> None:
        assert list(dict.fromkeys(name for name, *_ in self.runs)) == list(self.asked)
        assert all(exercises.prediction(name) is asked for name, asked in self.asked.items())

    def test_a_run_is_told_as_it_was(self, run: Run) -> None:
        told = self.told(run)
        assert told.measured == run.measured
        assert told.model == run.model
        assert told.because
        if told.measured in self.unforeseen:
            with pytest.raises(ValueError, match="is not a"):
                ask(run.name).commit(told.measured)
        else:
            assert self.shown_to(told.measured, run).is_right

    def test_a_misreading_is_an_answer_that_can_be_given_and_is_wrong(self, run: Run) -> None:
        """In a run that is not the usual one what is else a misreading may be right, and is not called one."""
        told = self.told(run)
        for key, sentence in told.misreadings.items():
            assert sentence
            assert not callable(key) or not any(map(key, self.right_answers(run)))
            wrong = next(filter(key, self.guesses)) if callable(key) else key
            shown = self.shown_to(wrong, run)
            if shown.is_right and not self.is_usual(run):
                assert sentence not in repr(shown)
                continue
            assert not shown.is_right, wrong
            assert shown.misreading == sentence
            assert sentence in repr(shown)

    def test_every_wrong_choice_hears_why(self, choice_run: Run) -> None:
        told, choices = self.told(choice_run), set(self.asked[choice_run.name].choices or ())
        right, explained = {told.measured, told.model}, set(told.misreadings)
        if choice_run.name in self.one_sided and not self.is_usual(choice_run):
            assert explained <= choices
            assert choices - right - explained == {usual_runs(self.runs)[choice_run.name].measured} - right
        else:
            assert explained == choices - right

    def test_a_usual_run_is_not_called_far_from_the_model(self, usual_run: Run) -> None:
        shown = reveal(usual_run.name, *usual_run.given)
        assert not shown.is_apart
        assert "are apart" not in repr(shown)

    def test_a_run_far_from_the_model_is_called_so(self, far_run: Run) -> None:
        """And one who answered as the model does is right: a run can be noisy."""
        model = self.told(far_run).model
        shown = self.shown_to(model, far_run)
        assert shown.is_apart
        assert shown.is_right
        assert shown.apart
        assert f"Here the cost model and the run are apart. {shown.apart}" in repr(shown)
