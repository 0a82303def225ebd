"""Values of predictions and runs, as the progress file holds them."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import torch

from course_lib.learn.predictions.stored_value import kept_value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None), (True, True), (3, 3), (2.5, 2.5), (np.int64(7), 7), (np.float64(0.5), 0.5), (1 << 80, 2.0**80),
        (float("nan"), "nan"), (("b", 1), ["b", "1"]), ("x" * 500, "x" * 200), (Fraction(1, 4), 0.25), ({1}, "{1}"),
        (torch.tensor(3.0), 3.0), (torch.ones(2), "tensor([1., 1.])"), (10**400, None),
    ],
)  # fmt: skip
def test_a_value_is_kept_as_json_has_it_everywhere(value, plain):
    found = kept_value(value)
    assert found == plain or (plain is None and isinstance(found, str))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
