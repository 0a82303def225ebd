"""10.once_a_node: the choices on which it is tried, and how tokens and sizes are compared."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.learn.judging.compare import short

__all__ = ["CASES", "compare", "right"]


# Few enough numbers for one thread: this runs at import, and a process in which OpenMP has threads cannot be forked.
def _random(num_tokens: int, num_experts: int, top_k: int, seed: int = 0) -> Tensor:
    dice = torch.rand(num_tokens, num_experts, generator=torch.Generator().manual_seed(seed))
    return dice.topk(top_k).indices


CASES: dict[str, tuple[Tensor, int, int]] = {  # chosen, experts, nodes
    "4 tokens, 2 choices": (torch.tensor([[0, 5], [4, 7], [3, 0], [6, 1]]), 8, 2),
    "experts of one token on one node": (torch.tensor([[8, 11, 9], [2, 8, 6]]), 12, 3),
    "all choices on one node": (torch.tensor([[5, 4], [7, 6], [4, 5]]), 8, 2),
    "all choices on the first node": (torch.tensor([[1, 0], [3, 2], [0, 1]]), 8, 2),
    "a node in the middle that nobody chose": (torch.tensor([[0, 11], [10, 1], [9, 3]]), 12, 3),
    "one choice": (torch.tensor([[7], [0], [3], [0], [5]]), 8, 4),
    "one token": (torch.tensor([[6, 1, 0]]), 8, 4),
    "one node": (torch.tensor([[2, 0], [1, 3], [3, 0]]), 4, 1),
    "an expert on each node": (torch.tensor([[2, 0], [1, 3], [3, 0]]), 4, 4),
    "every expert chosen": (torch.tensor([[3, 1, 0, 2], [0, 1, 2, 3]]), 4, 2),
    "no tokens": (torch.zeros(0, 3, dtype=torch.int64), 8, 4),
    "9 tokens, 8 of 32 experts": (_random(9, 32, 8), 32, 4),
    "40 tokens, 3 of 24 experts": (_random(40, 24, 3, seed=1), 24, 3),
    "512 experts": (torch.tensor([[511, 255, 319], [256, 63, 383]]), 512, 8),
    "300 tokens, 6 of 96 experts": (_random(300, 96, 6, seed=2), 96, 8),
}


def right(chosen: Tensor, num_experts: int, num_nodes: int) -> tuple[list[int], list[int]]:
    """By a set of tokens for each node."""
    of_nodes: list[set[int]] = [set() for _ in range(num_nodes)]
    for token, experts in enumerate(chosen.tolist()):
        for expert in experts:
            of_nodes[expert * num_nodes // num_experts].add(token)
    return [token for tokens in of_nodes for token in sorted(tokens)], [len(tokens) for tokens in of_nodes]


def _whole(given: Any) -> list[int] | None:
    """A list of whole numbers, whether it came as one, as a tuple, a range, a tensor or an array; else None."""
    if hasattr(given, "tolist"):
        given = given.tolist() if getattr(given, "ndim", 1) == 1 else None
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        return None
    try:
        return None if any(isinstance(one, bool) for one in given) else [operator.index(one) for one in given]
    except (TypeError, ValueError):
        return None


def _pair(given: Any) -> tuple[Any, Any] | None:
    is_pair = isinstance(given, Sequence) and not isinstance(given, str | bytes) and len(given) == 2
    return (given[0], given[1]) if is_pair else None


def compare(expected: Any, got: Any) -> str:
    """How two pairs of tokens and sizes differ, in words; the first may be another wrong answer's."""
    if got is None:
        return "nothing came back (`None`); a function gives its result with `return`"
    pair, wanted = _pair(got), _pair(expected)
    if pair is None or isinstance(got, Mapping):
        return f"expected two things, tokens and sizes; got {short(got)}"
    tokens, sizes = map(_whole, pair)
    if tokens is None:
        return f"expected tokens as one row of whole numbers, (S,); got {short(pair[0])}"
    if sizes is None:
        return f"expected sizes as a list of whole numbers; got {short(pair[1])}"
    right_tokens, right_sizes = map(_whole, wanted or (None, None))
    if right_tokens is None or right_sizes is None:
        return "not alike"
    if len(sizes) != len(right_sizes):
        return f"there are {len(right_sizes)} nodes, and you give {len(sizes)} sizes: {short(sizes)}"
    if sum(sizes) != len(tokens):
        return f"your sizes {short(sizes)} add up to {sum(sizes)}, and you give {len(tokens)} tokens: {short(tokens)}"
    if (tokens, sizes) == (right_tokens, right_sizes):
        return ""
    for node in range(len(sizes)):
        have, want = (_of_node(node, *one) for one in ((tokens, sizes), (right_tokens, right_sizes)))
        if have != want:
            return f"node {node} is to get the tokens {short(want)}; yours gets {short(have)}"
    return "not alike"


def _of_node(node: int, tokens: list[int], sizes: list[int]) -> list[int]:
    start = sum(sizes[:node])
    return tokens[start : start + sizes[node]]
