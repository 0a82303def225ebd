"""Sets of moments, held against counting whole moments one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from course_lib.traces.intervals import common, gaps, length, minus, union


def moments(pairs) -> set[int]:
    """The whole moments in these intervals: [start, end)."""
    return {moment for start, end in pairs for moment in range(int(start), int(end))}


def drawn(seed: int) -> list[tuple[float, float]]:
    draw = random.Random(seed)
    starts = [draw.randrange(60) for _ in range(draw.randrange(12))]
    return [(start, start + draw.randrange(9)) for start in starts]


@pytest.mark.parametrize("seed", range(200))
def test_sets_of_moments_are_those_of_python(seed):
    one, other = drawn(seed), drawn(seed + 1000)
    a, b = union(one), union(other)
    assert moments(a) == moments(one)
    assert moments(common(a, b)) == moments(one) & moments(other)
    assert moments(minus(a, b)) == moments(one) - moments(other)
    assert moments(gaps(a, 5, 50)) == set(range(5, 50)) - moments(one)
    for found in (a, common(a, b), minus(a, b), gaps(a, 5, 50)):
        assert length(found) == len(moments(found)), "one moment is in two intervals"
        assert np.all(found[:, 1] > found[:, 0])


def test_intervals_that_touch_become_one():
    assert union([(3, 5), (1, 3), (7, 7)]).tolist() == [[1, 5]]
