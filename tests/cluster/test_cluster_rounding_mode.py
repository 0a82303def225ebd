"""The rounding mode of the processor: what a call leaves there would change every later number in its last digit."""

from __future__ import annotations

import math
import platform
import sys

import pytest
import torch

from course_lib.cluster import Cluster

UPWARD = {"x86_64": 0x800, "AMD64": 0x800, "aarch64": 0x400000, "arm64": 0x400000}.get(platform.machine())
pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.skipif(sys.platform == "win32" or UPWARD is None, reason="fesetround by other names or numbers"),
]


@pytest.fixture
def ranks():
    with Cluster(2) as cluster:
        yield cluster


def divide(me) -> float:
    return float(torch.tensor(1.0, dtype=torch.float64) / (30 + 0 * me.rank))


def divide_rounding_upward(me, mode) -> float:
    import ctypes

    for name in (None, "libm.so.6", "libm.so"):
        try:
            assert ctypes.CDLL(name).fesetround(mode) == 0
        except (OSError, AttributeError):
            continue
        return divide(me)
    raise RuntimeError("no fesetround")


def test_a_rounding_mode_ends_with_its_call(ranks):
    first = ranks.run(divide_rounding_upward, UPWARD)
    assert list(first) == [math.nextafter(1 / 30, 1)] * 2
    assert "left the processor's rounding at upward" in str(first.leaks), first.leaks
    second = ranks.run(divide)
    assert list(second) == [1 / 30] * 2
    assert second.leaks == ()


def test_threads_that_were_started_in_a_mode_do_not_keep_it(ranks):
    def many(me, mode) -> int:
        if mode is not None:
            divide_rounding_upward(me, mode)
        torch.set_num_threads(2)
        sums = torch.ones(1 << 20, dtype=torch.float64) / 30
        torch.set_num_threads(2 if mode else 1)
        return int((sums != 1 / 30).sum())

    assert min(ranks.run(many, UPWARD)) > 0
    assert list(ranks.run(many, None)) == [0, 0]
