"""10.room: a whole number, rounded up once."""

from __future__ import annotations

import math

import numpy as np
from answer_table import Row


def right_room(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts))


def whole_number_of_numpy(num_tokens, num_experts, top_k, factor):
    return np.int64(min(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts)))


def gives_a_float(num_tokens, num_experts, top_k, factor):
    return float(min(num_tokens, math.ceil(factor * num_tokens * top_k / num_experts)))


def whole_before_the_ceiling(num_tokens, num_experts, top_k, factor):
    return min(num_tokens, -(-int(factor * num_tokens * top_k) // num_experts))


ROWS = [
    Row(answer=right_room, verdict="passed", why="the definition"),
    Row(answer=whole_number_of_numpy, verdict="passed", why="a whole number"),
    Row(answer=gives_a_float, verdict="not yet", why="`capacity=1.0` is refused by the next cell", words=("float",)),
    Row(answer=whole_before_the_ceiling, verdict="not yet", why="16.25 rows need 3 places at each of 8 experts"),
]
