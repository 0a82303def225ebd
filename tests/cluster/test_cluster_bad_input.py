"""What a cluster is given and cannot use: a sentence in the notebook, before any rank has tried it."""

from __future__ import annotations

import functools
import os
import re
import sys

import pytest

from course_lib.cluster import Cluster, Run, shared_cluster
from course_lib.cluster.failures.report import died
from course_lib.cluster.failures.run import say

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(120.0),
]
HUGE = 10**30


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"world_size": HUGE}, r"world_size=10+ is too large for one machine: at most 512; use 512"),
        ({"num_threads": HUGE}, r"num_threads=10+ is too large for one machine"),
        ({"timeout_s": 10**400}, r"timeout_s=10+ is too large for a timer; use None for no limit"),
        ({"timeout_s": float("nan")}, "timeout_s=nan must be a number of seconds above 0"),
        (
            {"slow": [2.0]},
            r"slow=\[2\.0\] must say which rank is slowed by how much, such as slow=\{1: 2\.0\}",
        ),
        ({"env": "A=B"}, r"env='A=B' must give names their values, such as env=\{"),
        ({"env": {"A=B": 1}}, r"env has 'A=B': 1; a name is a text without '='"),
        ({"env": {"A": "\0"}}, "neither holds a zero byte"),
        ({"env": {5: "x"}}, "env has 5: 'x'; a name is a text"),
        ({"debug": "no"}, "debug='no' must be True or False; use True"),
        ({"process_group": 0}, "process_group=0 must be True or False; use False"),
        ({"backend": ["gloo"]}, r"backend=\['gloo'\] is not one of auto, gloo"),
    ],
)
def test_settings_that_cannot_be_get_a_sentence(settings, told):
    with pytest.raises(ValueError, match=told):
        Cluster(**{"world_size": 2, **settings})


@pytest.mark.parametrize("world_size", [[2], "2", 2.5, None, HUGE, 0, True])
def test_a_shared_cluster_of_no_number_gets_a_sentence(world_size):
    with pytest.raises(ValueError, match=re.escape(f"world_size={world_size!r}")):
        shared_cluster(world_size)


@pytest.mark.parametrize(
    ("only", "told"),
    [
        (1, r"only=1 must be a list of ranks, such as only=\[0\]"),
        ("01", "only='01' must be a list of ranks"),
        ([0.0], r"rank 0\.0 is not one of the ranks 0 to 1"),
        ([True], "rank True is not one of the ranks 0 to 1"),
        ([-1], "rank -1 is not one of"),
        ([], r"only=\[\] leaves no rank to run on"),
    ],
)
def test_ranks_that_are_none_get_a_sentence(cluster2, only, told):
    with pytest.raises(ValueError, match=told):
        cluster2.cell("1", only=only)


def no_me():
    return 1


def one_too_few(me):
    return me


def yields(me):
    yield me


async def waits(me):
    return me


async def yields_and_waits(me):
    yield me


@functools.wraps(no_me)
def wrapped(me):
    return 5


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            (no_me,),
            r"no_me\(\) has no place for me: each rank calls it as \(me\), .* Write `me` as first parameter",
        ),
        ((lambda x: x, 5), r"has no place for me: each rank calls it as \(me, \.\.\.\)"),
        (
            (one_too_few, 1, 2),
            r"one_too_few\(me\) cannot be called as \(me, \.\.\., \.\.\.\), as each rank does: too many",
        ),
        ((lambda me, x: x,), "cannot be called as .*missing a required argument: 'x'"),
        ((yields,), r"yields is a generator \(it has a yield\): .* Collect what it yields in a list"),
        ((functools.partial(yields),), "is a generator"),
        ((waits,), "waits is an async function, and a rank only calls functions"),
        ((yields_and_waits,), "is an async function"),
        ((5,), "run takes a function first"),
    ],
)
def test_a_function_that_ranks_cannot_call_gets_a_sentence(cluster2, call, told):
    with pytest.raises(TypeError, match=told):
        cluster2.run(*call)


@pytest.mark.parametrize(("args", "kwargs"), [("text", None), (5, None), ((), [1]), ((), "k")])
def test_arguments_that_are_no_arguments_get_a_sentence(cluster2, args, kwargs):
    with pytest.raises(TypeError, match=r"must be a tuple of arguments, and kwargs=.* a dictionary"):
        cluster2.call(lambda me, *rest: rest, args, kwargs)


def test_what_can_be_called_is_not_refused(cluster2):
    class Callable:
        def __call__(self, me, x=1):
            return x

    assert list(cluster2.run(wrapped)) == [5, 5], "a wrapper says itself what it takes"
    assert list(cluster2.run(Callable(), x=3)) == [3, 3]
    assert list(cluster2.run(functools.partial(lambda x, me: x, 4))) == [4, 4]
    assert list(cluster2.run(isinstance, object)) == [True, True], "written in C"
    assert list(cluster2.run(lambda *everything: len(everything), 1, 2)) == [3, 3]


@pytest.mark.parametrize("method", ["cell", "pull"])
def test_what_is_no_text_is_refused(cluster2, method):
    with pytest.raises(TypeError, match=r"=5 must be a text, such as 'x'; got a int"):
        getattr(cluster2, method)(5)


# -- a fork of the notebook ---------------------------------------------------------------------------------------


def test_a_fork_of_the_notebook_is_told_that_the_ranks_are_not_its_own(cluster2, tmp_path):
    cluster2.run(lambda me: None)
    child = os.fork()
    if child == 0:
        try:
            cluster2.run(lambda me: None)
        except BaseException as error:
            (tmp_path / "said").write_text(f"{type(error).__name__}: {error}")
        os._exit(0)
    os.waitpid(child, 0)
    said = (tmp_path / "said").read_text()
    assert said.startswith("RuntimeError: this process is a fork of the one that made this Cluster")
    assert list(cluster2.run(lambda me: me.rank)) == [0, 1]


# -- what is shown ------------------------------------------------------------------------------------------------


def test_a_letter_that_the_terminal_lacks_does_not_cost_the_result(cluster2, monkeypatch, tmp_path):
    with open(tmp_path / "terminal", "w", encoding="ascii") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        run = cluster2.run(lambda me: print("für") or me.rank)
        monkeypatch.undo()
    assert list(run) == [0, 1]
    assert (tmp_path / "terminal").read_text() == "rank 0 | f\\xfcr\nrank 1 | f\\xfcr\n"


def test_half_a_character_can_be_said(capsys):
    say("\ud800x\n")
    assert capsys.readouterr().out.endswith("x\n")


class Unwilling:
    made = 0

    def __init__(self, number=0):
        self.number = number

    def __repr__(self):
        Unwilling.made += 1
        if self.number < 0:
            raise RuntimeError("no")
        return f"<{self.number}>"


SMALL = [
    [1, "two", (3.0,), {"four": {5, 6}}, {}], (), [], set(), (1, 2), {"a": [1], 2: ("b", None)}, "text", b"bytes",
    frozenset({1}), {1: 2}.keys(), range(3), [[[]]], ({},), Unwilling(3), float("nan"), "it's", ["a\n b"],
]  # fmt: skip


@pytest.mark.parametrize("value", SMALL, ids=repr)
def test_a_small_result_is_shown_as_python_shows_it(value):
    assert repr(Run({0: value})) == f"Run on 1 rank\n  rank 0: {' '.join(repr(value).split())}"


@pytest.mark.parametrize(
    "large",
    [
        [Unwilling(i) for i in range(10_000)],
        tuple(Unwilling(i) for i in range(10_000)),
        {i: [Unwilling(i)] for i in range(10_000)},
        [[[Unwilling(i) for i in range(100)] for _ in range(100)]],
        {Unwilling(i) for i in range(10_000)},
    ],
    ids=["list", "tuple", "dict", "nested", "set"],
)
def test_a_large_result_is_shown_by_its_beginning_which_alone_is_made(large):
    Unwilling.made = 0
    shown = repr(Run({0: large}))
    assert shown.endswith(" ...")
    assert len(shown) < 230
    assert Unwilling.made < 500


def test_of_a_long_text_only_the_beginning_is_made(monkeypatch):
    class Long(str):
        def __getitem__(self, key):
            cut.append(key)
            return str.__getitem__(self, key)

    cut: list = []
    assert repr(Run({0: Long("x" * 10_000)})).endswith("x ...")
    assert cut == [slice(None, 800, None)]


def test_a_result_that_cannot_be_shown_does_not_hide_the_others():
    assert repr(Run({0: Unwilling(-1), 1: 5})) == (
        "Run on 2 ranks\n  rank 0: (a Unwilling, whose repr raised RuntimeError)\n  rank 1: 5"
    )
    assert "rank" in Run({0: Unwilling(-1)})._repr_html_()


def test_a_signal_without_a_name_is_told_by_its_number():
    assert died(0, -37, 0.0).message == "its process was killed by SIGRTMIN+3"
    assert died(0, -63, 0.0).message == "its process was killed by SIGRTMIN+29"
    assert died(0, -200, 0.0).message.startswith("its process was killed by ")
    assert died(0, -9, 0.0).message.startswith("its process was killed by SIGKILL (often")
