"""Whoever keeps memory past Python's objects, or changes what judges, is told which; and losses are compared."""

from __future__ import annotations

import sys

import cheats
import hiding
import pytest
from test_capstone_cheats import JOB, run_of

from course_lib.capstone.attempts.attempting import attempt
from course_lib.capstone.attempts.rule_violations import FAULTS
from course_lib.capstone.memory.system_memory import malloc_in_use

HEAP = "C's heap", "step that is timed"


def hidden_by(name):
    def assemble(me, task):
        return getattr(hiding, name)(me, task)

    return assemble


@pytest.mark.first_cases(2)
@pytest.mark.skipif(sys.platform != "linux", reason="what it counts is Linux's")
@pytest.mark.parametrize("name", hiding.HIDING)
def test_what_the_system_counts_is_told_by_name(clusters, name):
    fault, said = hiding.HIDING[name]
    if any(word in said for word in HEAP) and malloc_in_use() is None:
        pytest.skip("this C does not tell what its heap holds")
    result = attempt(JOB, hidden_by(name), clusters(2), num_timed=1, show=False)
    assert not result.ended, result.story
    assert any(one.name == fault and said in one.sentence for one in result.faults), result.faults
    assert fault in FAULTS
    assert result.total == 0


class TellsAnything(cheats.Honest):
    """Trains as it should, and says what sounds good."""

    def step(self):
        super().step()
        return 0.001


class TellsItsOwn(cheats.Honest):
    """The loss of this rank's rows."""

    def mean(self, loss):
        return loss


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("kind", [TellsAnything, TellsItsOwn])
def test_another_loss_than_one_devices_has_no_points_and_is_no_cheat(clusters, kind):
    def assemble(me, task):
        return kind(me, task)

    result = attempt(JOB, assemble, clusters(2), num_timed=1, show=False)
    assert (result.faults, result.ended) == ((), "")
    assert result.values.are_equal
    assert (result.total, result.passed) == (0, False)
    assert "reports a loss of" in result.points[0].why
    assert "in step 1, and one device has 2." in result.points[0].why


def test_what_another_call_has_changed_is_the_old_one_in_an_attempt(two):
    def changes(me):
        import course_lib.capstone.running.steps as steps
        from course_lib.capstone.running.emulated_compute import WorkBlock

        WorkBlock.wait = lambda block, way, rows: None
        steps.time = None

    two.run(changes)
    result = attempt(JOB, run_of("Honest"), two, num_timed=1, show=False)
    assert (result.faults, result.ended) == ((), "")
    assert result.passed


class LooksUp(cheats.Honest):
    """Looks through its callers for a list of what comes."""

    def step(self):
        frame = sys._getframe(1)
        while frame is not None:
            for value in list(frame.f_locals.values()):
                if isinstance(value, (list, tuple)) and value and all(type(one) is bool for one in value):
                    raise RuntimeError(f"it can be read what comes: {value}")
            frame = frame.f_back
        return super().step()


def test_which_steps_are_weighed_stands_nowhere_before(clusters):
    def assemble(me, task):
        return LooksUp(me, task)

    result = attempt(JOB, assemble, clusters(2), num_timed=2, show=False)
    assert (result.faults, result.ended) == ((), "")
    assert len(result.steps_s) == 2
