"""Forbidden calls: found under every name they may go by, and not where a library made them."""

from __future__ import annotations

import contextlib
import cProfile
import functools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from torch.distributed import all_reduce as renamed

from course_lib.learn.sandbox.call_watcher import resolve, unwatched, watch
from course_lib.learn.sandbox.forbidden_names import mentions

NAMES = ("torch.cumsum", "torch.Tensor.cumsum", "torch.distributed.all_reduce", "torch.nn.Linear")


def called_by(function):
    with watch(NAMES) as called:
        function()
    return called


def helper():
    return torch.cumsum(torch.ones(2), 0)


def by_local_import():
    from torch import cumsum as running_sum

    return running_sum(torch.ones(2), 0)


def all_reduce_without_a_group(function):
    with pytest.raises(ValueError, match="process group"):
        function(torch.ones(1))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda: torch.cumsum(torch.ones(2), 0), "torch.cumsum"),
        (lambda: getattr(torch, "cum" + "sum")(torch.ones(2), 0), "torch.cumsum"),
        (helper, "torch.cumsum"),
        (by_local_import, "torch.cumsum"),
        (lambda: torch.ones(2).cumsum(0), "torch.Tensor.cumsum"),
        (lambda: all_reduce_without_a_group(dist.all_reduce), "torch.distributed.all_reduce"),
        (lambda: all_reduce_without_a_group(renamed), "torch.distributed.all_reduce"),
        (lambda: torch.nn.Linear(1, 1), "torch.nn.Linear"),
    ],
)
def test_a_call_is_seen_while_it_runs(function, name):
    assert called_by(function) == {name}


@unwatched
def of_a_judge(fails):
    torch.cumsum(torch.ones(2), 0)
    if fails:
        raise KeyError


@pytest.mark.parametrize("fails", [False, True])
def test_a_judges_own_call_is_none_and_the_next_of_the_answer_is_seen(fails):
    def answer():
        with contextlib.suppress(KeyError):
            of_a_judge(fails)
        torch.nn.Linear(1, 1)

    assert called_by(answer) == {"torch.nn.Linear"}


def test_a_profiler_of_somebody_else_is_left_alone():
    with cProfile.Profile() as profile:
        of_a_judge(False)
        assert sys.getprofile() is profile


class Sized:
    def __init__(self, size):
        self.size = size


def test_another_constructor_is_not_taken_for_the_forbidden_one():
    assert called_by(lambda: Sized(1)) == set()


class Shelf:
    """Such as a library class with a constructor of another name."""

    @classmethod
    def filled(cls):
        return cls()


def test_a_class_method_is_seen_as_a_function_is(monkeypatch):
    monkeypatch.setattr(torch, "Shelf", Shelf, raising=False)
    with watch(("torch.Shelf.filled",)) as called:
        pass
    assert called == set()
    with watch(("torch.Shelf.filled",)) as called:
        Shelf.filled()
    assert called == {"torch.Shelf.filled"}


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def in_a_pool(function):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(function).result()


@pytest.mark.parametrize("start", [in_a_thread, in_a_pool])
def test_a_call_in_a_thread_of_the_answer_is_seen(start):
    assert called_by(lambda: start(helper)) == {"torch.cumsum"}
    assert called_by(lambda: start(lambda: None)) == set()


def test_a_thread_that_runs_on_is_watched_no_longer():
    goes_on, has_called = threading.Event(), threading.Event()

    def later():
        goes_on.wait()
        helper()
        has_called.set()

    with watch(NAMES) as called:
        threading.Thread(target=later).start()
    before = threading.getprofile()
    goes_on.set()
    assert has_called.wait(20)  # a hang limit
    assert called == set()
    assert before is None


def test_what_a_library_calls_by_itself_does_not_count():
    assert called_by(lambda: torch.nn.TransformerDecoderLayer(8, 1, 8)) == set()  # it builds many a Linear


def test_other_methods_of_the_same_name_do_not_count():
    import numpy as np

    assert called_by(lambda: np.ones(2).cumsum()) == set()
    assert called_by(lambda: torch.ones(2).sum()) == set()


def test_the_profile_of_before_comes_back():
    import sys

    def mine(frame, event, argument):
        return None

    before = sys.getprofile()
    sys.setprofile(mine)
    try:
        called_by(lambda: None)
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(before)


def never_reached(x, flag=False):
    if flag:
        dist.all_reduce(x)
    return x


def through_a_helper(x):
    return helper()


def made_inside(x):
    def inner():
        return renamed(x)

    return inner


class Layer(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 0)


def imports_inside(x, flag=False):
    if flag:
        from torch.distributed import all_reduce as plus

        plus(x)
    return x


def imports_the_module_inside(x, flag=False):
    import torch.distributed as d

    return d.all_reduce(x) if flag else x


def imports_the_package_inside(x, flag=False):
    import torch.distributed

    return torch.distributed.all_reduce(x) if flag else x


def asks_by_getattr(x, flag=False):
    return getattr(dist, "all_reduce")(x) if flag else x  # noqa: B009


def keeps_it_in_a_variable(x, flag=False):
    module = dist
    return [module.all_reduce(x) for _ in range(3)] if flag else x


def imports_for_an_inner_one(x, flag=False):
    from torch import cumsum as running

    def inner():
        return running(x, 0)

    return inner() if flag else x


def imports_another(x, flag=False):
    from torch import cumprod as cumsum

    all_reduce = cumsum
    return all_reduce(x, 0) if flag else getattr(dist, "barrier", None)


class Kinds:
    @staticmethod
    def one(x, flag=False):
        return torch.cumsum(x, 0) if flag else x

    @classmethod
    def other(cls, x, flag=False):
        return dist.all_reduce(x) if flag else x

    @property
    def total(self):
        return torch.nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (imports_inside, {"torch.distributed.all_reduce"}),
        (imports_the_module_inside, {"torch.distributed.all_reduce"}),
        (imports_the_package_inside, {"torch.distributed.all_reduce"}),
        (asks_by_getattr, {"torch.distributed.all_reduce"}),
        (keeps_it_in_a_variable, {"torch.distributed.all_reduce"}),
        (imports_for_an_inner_one, {"torch.cumsum"}),
        (imports_another, set()),
        (Kinds, {"torch.cumsum", "torch.distributed.all_reduce", "torch.nn.Linear"}),
        (Kinds.one, {"torch.cumsum"}),
        (Kinds.other, {"torch.distributed.all_reduce"}),
        (never_reached, {"torch.distributed.all_reduce"}),
        (through_a_helper, {"torch.cumsum"}),
        (made_inside, {"torch.distributed.all_reduce"}),
        (functools.partial(never_reached, flag=True), {"torch.distributed.all_reduce"}),
        (Layer, {"torch.cumsum"}),
        (lambda x: torch.cumprod(x, 0), set()),
        (3, set()),
        (torch.cumprod, set()),
    ],
)
def test_code_that_names_it_is_found_without_running(answer, names):
    assert mentions(answer, NAMES) == names


@pytest.mark.parametrize("answer", [torch.cumsum, dist.all_reduce])
def test_the_library_function_itself_as_the_answer_is_found(answer):
    assert mentions(answer, NAMES)


def test_a_name_that_names_nothing_is_refused():
    with pytest.raises(ValueError, match="no_such_function"):
        resolve("torch.no_such_function")
