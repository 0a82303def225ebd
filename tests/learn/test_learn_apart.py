"""Answers that run in a process of their own: whatever they do there, the notebook goes on and is told."""

from __future__ import annotations

import functools
import linecache
import os
import signal
import sys
import threading
import time

import pytest
import torch

from course_lib.learn import exercises
from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.checks.checking import judged
from course_lib.learn.judging import isolated_judge
from course_lib.learn.judging.isolated_judge import by_cases_apart
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.sandbox.sandbox import running_on, threads_of_a_person


def one_more(number):
    return number + 1


def exercise_of(judge, **more):
    mistakes = (Mistake("unchanged", "You gave the number back as it came.", lambda number: number),)
    return Exercise(name="99.more", title="", judge=judge, mistakes=mistakes, hints=("a", "b", "c"), **more)


CASES = [Case(f"number {n}", (n,), one_more) for n in (1, 5)]
MORE = exercise_of(by_cases_apart(CASES))
SHORT = exercise_of(by_cases_apart(CASES, limit_s=0.5))


def test_the_answer_runs_in_another_process_and_a_warm_one():
    seen = exercise_of(by_cases_apart([Case("a look", (), None)] * 2, compare=lambda right, got: f"{got}"))
    verdict = judged(seen, os.getpid)
    assert str(os.getpid()) not in verdict.message
    assert judged(seen, os.getpid).message == verdict.message, "the same process again"


def test_right_wrong_and_known_answers_are_told_as_ever():
    assert judged(MORE, one_more).passed
    assert judged(MORE, lambda number: number).mistake == "unchanged"
    assert judged(MORE, lambda number: number + 2).message.startswith("With number 1: expected 2, got 3")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda number: os._exit(3), "Your code ended its process, with exit code 3"),
        (lambda number: os.kill(os.getpid(), signal.SIGKILL), "Your code's process was killed by SIGKILL"),
    ],
)
def test_an_answer_that_ends_its_process_costs_the_notebook_nothing(answer, words):
    verdict = judged(MORE, answer)
    assert verdict.status == "raised"
    assert verdict.message.startswith(words)
    assert verdict.message.endswith("(with number 1).")
    assert judged(MORE, one_more).passed, "the next check finds a new process"


@pytest.mark.parametrize(
    "answer", [lambda number: sum(range(10**15)), lambda number: time.sleep(600)], ids=["in C", "asleep"]
)
def test_what_never_ends_is_ended_with_its_process(answer):
    verdict = judged(SHORT, answer)
    assert verdict.message.startswith("Your code had not finished after 0.5 s")
    assert "was ended with its process; it stood at test_learn_apart.py, line" in verdict.message
    assert verdict.message.endswith("(with number 1). Does a loop never end?")
    assert verdict.status == "too slow"
    assert judged(SHORT, one_more).passed


def test_the_case_is_told_in_which_its_process_ended():
    def ends_at_five(number):
        if number == 5:
            os._exit(3)
        return number + 1

    assert judged(MORE, ends_at_five).message.endswith("(with number 5).")

    def loops_at_five(number):
        while number == 5:
            pass
        return number + 1

    assert "(with number 5)." in judged(SHORT, loops_at_five).message


def test_a_thread_that_never_ends_is_ended_with_its_process():
    def leaves_a_thread(number):
        threading.Thread(target=lambda: time.sleep(600)).start()
        return number + 1

    verdict = judged(MORE, leaves_a_thread)
    thread = "a thread that your code started still runs; it was ended with its process."
    assert verdict.message == f"With number 1: {thread}"

    def and_is_wrong(number):
        return leaves_a_thread(number) + 1

    assert judged(MORE, and_is_wrong).message == f"With number 1: expected 2, got 3; and {thread}"
    assert judged(MORE, one_more).passed


def test_a_limit_of_the_check_itself_does_not_cut_the_process_short():
    slow = exercise_of(by_cases_apart([Case("a nap", (), "rested")]), time_limit_s=0.3)

    def nap():
        time.sleep(1.0)
        return "rested"

    assert judged(slow, nap).passed


def test_an_answer_of_the_notebook_travels_with_what_it_names_and_its_line_is_told():
    source = "factor = 3\ndef helper(x):\n    return x / 0\ndef answer(number):\n    return helper(factor)\n"
    name = "<cell 7>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    notebook = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), notebook)
    verdict = judged(MORE, notebook["answer"])
    assert "ZeroDivisionError: division by zero, on line 3 (`return x / 0`), with number 1" in verdict.message


def test_what_cannot_travel_is_tried_here():
    lock = threading.Lock()

    def locked(number):
        with lock:
            return number + 1

    assert judged(MORE, locked).passed

    def gives_a_lock(number):
        return threading.Lock()

    assert "lock" in judged(MORE, gives_a_lock).message


def test_where_no_process_can_be_started_it_is_tried_here(monkeypatch):
    monkeypatch.setattr(isolated_judge, "_warm_cluster", lambda: None)
    seen = exercise_of(by_cases_apart([Case("a look", (), None)], compare=lambda right, got: f"{got}"))
    assert str(os.getpid()) in judged(seen, os.getpid).message
    assert judged(MORE, one_more).passed


def test_stubs_bad_answers_and_forbidden_calls_are_told_as_ever():
    def stub(number):
        if number:
            raise NotImplementedError("Your turn")

    assert judged(MORE, stub).status == "not attempted"
    assert judged(MORE, 5).message.startswith("Give the function itself")
    numbers = [Case("ones", (torch.ones(3),), torch.tensor([1.0, 2.0, 3.0]))]
    forbidden = {"forbidden": ("torch.Tensor.cumsum",)}
    watched = exercise_of(by_cases_apart(numbers), **forbidden)
    assert judged(watched, lambda x: getattr(x, "cum" + "sum")(0)).status == "forbidden"


def test_what_it_prints_is_kept_and_what_it_changes_is_not():
    state = {"calls": 0}

    def counts(number):
        print("hello", file=sys.stdout)
        state["calls"] += 1
        return number + 1

    verdict = judged(MORE, counts)
    assert verdict.passed
    assert verdict.printed == "hello\nhello\n"
    assert state == {"calls": 0}


def test_a_switch_that_it_leaves_turned_and_an_input_that_it_changes_are_told():
    def switches_off(number):
        torch.set_grad_enabled(False)
        return number + 1

    told = judged(MORE, switches_off).message
    assert told.startswith("The results are right, and your code left gradients switched off")
    assert judged(MORE, one_more).passed

    def sorts(numbers):
        numbers.sort()
        return sum(numbers)

    cases = [Case("three numbers", ([3, 1, 2],), 6)]
    assert "your code changed what it was given" in judged(exercise_of(by_cases_apart(cases)), sorts).message
    assert judged(exercise_of(by_cases_apart(cases, changes=True)), sorts).passed


@pytest.mark.parametrize("name", ["00.share", "03.threads", "04.sampler", "06.cut", "07.gpipe", "07.1f1b"])
def test_exercises_with_threads_or_loops_that_may_never_end_run_apart(name):
    judge = exercises.exercise(name).judge
    assert isinstance(getattr(judge, "judge", judge), isolated_judge.CasesApart)
    assert judge.has_own_limit


def test_a_thread_in_the_notebooks_process_is_said_to_run_on():
    stop = threading.Event()

    def leaves_a_thread(number):
        threading.Thread(target=functools.partial(lambda event: event.wait(), stop), name="for-ever").start()
        return number + 1

    try:
        verdict = judged(exercise_of(by_cases(CASES[:1])), leaves_a_thread)
        assert verdict.status == "not yet"
        assert verdict.message.endswith(
            "A thread that your code started runs on (for-ever); it ends when you restart the kernel."
        )
    finally:
        stop.set()


def test_threads_that_end_in_a_moment_or_were_there_before_are_not_spoken_of():
    stop = threading.Event()
    before = threading.Thread(target=lambda: stop.wait())
    before.start()
    known = threads_of_a_person()
    assert before in known
    end = threading.Event()

    class Brief(threading.Thread):
        """Ends when it is waited for, and the one who waits sees the end."""

        def join(self, timeout=None):
            end.set()
            super().join()

    Brief(target=lambda: end.wait()).start()
    assert running_on(known) == ""
    stop.set()
