"""Every public function that needs no ranks, called with nonsense in one argument at a time.

Nonsense ends in a ``ValueError`` or ``TypeError`` whose sentence names the parameter or shows what was given; what may
be sense ends in a value. ``COURSE_FUZZ=2000`` tries further pairs of arguments than CI does.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import inspect
import math
import os
import random
import re
import signal
import typing
from collections.abc import Iterator
from fractions import Fraction

import pytest
from legal_calls import ELSEWHERE, LEGAL, ROOMS, function_of, why_elsewhere

NUM_PAIRS = int(os.environ.get("COURSE_FUZZ", "3"))  # of each function
NAN, INF = math.nan, math.inf


class Odd:
    """An object of no kind, which says so."""

    def __repr__(self) -> str:
        return "<odd>"


NONSENSE = [
    None, True, "4", "", "nonsense", b"4", NAN, INF, -INF, -1, -2.5, 0, 0.5, 10**30, 10**400, 1e308, 3 + 4j,
    Fraction(1, 3),
    Odd(), [], [None], ["4"], [NAN], [-1.0], [[]], (), (1, 2, 3), {}, {"a": 1}, set(), range(0), range(-3), ...,
    lambda *args: None, lambda *args: NAN, iter(()),
]  # fmt: skip
# Where -1 may be meant.
BELOW_ZERO = ("dim", "seed", "tolerance", "meter.bytes_text size_bytes", "meter.time_text time_s")
SURELY = (NAN, b"4", 3 + 4j)  # never a legal number, text or row, whatever the hint


class NeverAnswers(BaseException):
    pass


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """An end to a call that would go on for ever: after so much computing, not after so long."""

    def ring(*_: object) -> None:
        raise NeverAnswers

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def arguments() -> list[tuple[str, str]]:
    return [(label, name) for label, legal in LEGAL.items() for name in legal]


def test_every_public_name_is_called_here_or_said_to_be_called_elsewhere():
    public = set()
    for room in ROOMS:
        module = importlib.import_module(f"course_lib.{room}")
        names = getattr(module, "__all__", None) or dir(module)
        public |= {f"{room}.{name}" for name in names if callable(getattr(module, name))}
    types_alone = {label for label in public if typing.get_origin(function_of(label)) is not None}
    needs_no_reason = {label for label in public - types_alone if why_elsewhere(label)}
    not_called, said = public - types_alone - LEGAL.keys() - needs_no_reason, ELSEWHERE.keys() - types_alone
    new, gone = sorted(not_called - said), sorted(said - not_called)
    assert not new, "add a legal call to LEGAL of tests/support/legal_calls.py, or a reason to its ELSEWHERE"
    assert not gone, "ELSEWHERE of tests/support/legal_calls.py names what is gone, called in LEGAL, or typed to say so"


@pytest.mark.parametrize("label", LEGAL)
def test_the_legal_call_is_legal(label):
    function_of(label)(**LEGAL[label])


def verdict(label: str, changed: dict[str, object]) -> str:
    """What is wrong with how the function took these values; "" for nothing."""
    function = function_of(label)
    try:
        with limited():
            function(**{**LEGAL[label], **changed})
    except (ValueError, TypeError) as error:
        said = str(error)
        named = any(name in said or _shown(value) in said for name, value in changed.items())
        good = len(said) > 20 and (named or _is_raised_by_the_course(error))
        return "" if good else f"{type(error).__name__} in Python's words: {said}"
    except (Exception, NeverAnswers) as error:
        return f"{type(error).__name__}: {error}"
    for name, value in changed.items():
        hint = str(inspect.signature(function).parameters[name].annotation)
        if any(value is bad for bad in SURELY) and re.search("int|float|str", hint) and "Sized" not in hint:
            return "it was taken"
        if (
            value == -1
            and type(value) is int
            and re.search(r"\b(int|float)\b", hint)
            and f"{label} {name}" not in BELOW_ZERO
            and name not in BELOW_ZERO
        ):
            return "it was taken"
    return ""


def _is_raised_by_the_course(error: BaseException) -> bool:
    """Whether a ``raise`` in the course's own code made it, and not an operation that went wrong there."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    assert last is not None
    code = last.tb_frame.f_code
    by_raise = dis.opname[code.co_code[last.tb_lasti]] == "RAISE_VARARGS"
    return by_raise and "course_lib" in code.co_filename


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:40]


@pytest.mark.parametrize(("label", "name"), arguments(), ids=lambda value: value)
def test_nonsense_in_one_argument_gets_a_sentence_or_a_value(label, name):
    wrong = [f"{name}={_shown(value)}: {said}" for value in NONSENSE if (said := verdict(label, {name: value}))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("label", LEGAL)
def test_nonsense_in_two_arguments_gets_a_sentence_or_a_value(label):
    draw, names, wrong = random.Random(label), list(LEGAL[label]), []
    for _ in range(NUM_PAIRS):
        changed = {name: draw.choice(NONSENSE) for name in draw.sample(names, min(2, len(names)))}
        if said := verdict(label, changed):
            wrong.append(f"{changed}: {said}")
    assert not wrong, "\n".join(wrong)
