"""Usual wrong answers to 10.once_a_node, each of which runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from torch import Tensor

from course_lib.learn.exercises.lesson_10.once_a_node.cases import right

__all__ = [
    "a_list_a_node",
    "choices_not_tokens",
    "dealt_round",
    "divided_by_nodes",
    "falling",
    "first_choice",
    "full_nodes_only",
    "neighbours_only",
    "not_the_first_node",
    "not_without_tokens",
    "one_a_choice",
    "one_node_a_token",
    "sizes_of_choices",
    "token_after_token",
]

Pair = tuple[list[int], list[int]]


def _flat(of_nodes: Iterable[list[int]]) -> Pair:
    lists = list(of_nodes)
    return [token for tokens in lists for token in tokens], [len(tokens) for tokens in lists]


def _nodes_of(chosen: Tensor, num_experts: int, num_nodes: int) -> list[list[int]]:
    return (chosen // (num_experts // num_nodes)).tolist()


def _by_set(nodes: list[list[int]], num_nodes: int) -> Pair:
    return _flat([token for token, own in enumerate(nodes) if node in own] for node in range(num_nodes))


def one_a_choice(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """A row for each choice."""
    nodes = _nodes_of(chosen, num_experts, num_nodes)
    return _flat([t for t, own in enumerate(nodes) for one in own if one == node] for node in range(num_nodes))


def neighbours_only(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Of a token's choices on one node those left out that stand beside another of them."""
    nodes = [[key for key, _ in groupby(own)] for own in _nodes_of(chosen, num_experts, num_nodes)]
    return _flat([t for t, own in enumerate(nodes) for one in own if one == node] for node in range(num_nodes))


def not_the_first_node(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Nothing for node 0, as if it were the own one."""
    tokens, sizes = right(chosen, num_experts, num_nodes)
    return tokens[sizes[0] :], [0, *sizes[1:]]


def dealt_round(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Experts dealt to the nodes like cards."""
    return _by_set((chosen % num_nodes).tolist(), num_nodes)


def divided_by_nodes(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """An expert's number divided by the number of nodes."""
    return _by_set((chosen // num_nodes).tolist(), num_nodes)


def first_choice(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """The node of each token's first expert."""
    return _by_set([own[:1] for own in _nodes_of(chosen, num_experts, num_nodes)], num_nodes)


def one_node_a_token(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Of a token's nodes the lowest."""
    return _by_set([[min(own)] for own in _nodes_of(chosen, num_experts, num_nodes)], num_nodes)


def token_after_token(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """The right tokens, in the order of the tokens."""
    tokens, sizes = right(chosen, num_experts, num_nodes)
    return sorted(tokens), sizes


def falling(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Within a node by choice: whose first expert lies there, then whose second does."""
    nodes = _nodes_of(chosen, num_experts, num_nodes)
    top_k = chosen.size(1)

    def of_node(node: int) -> list[int]:
        return list(dict.fromkeys(t for c in range(top_k) for t, own in enumerate(nodes) if own[c] == node))

    return _flat(map(of_node, range(num_nodes)))


def sizes_of_choices(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Tokens once, sizes as many as choices."""
    return right(chosen, num_experts, num_nodes)[0], one_a_choice(chosen, num_experts, num_nodes)[1]


def full_nodes_only(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """No size for a node that gets nothing."""
    tokens, sizes = right(chosen, num_experts, num_nodes)
    return tokens, [size for size in sizes if size]


def choices_not_tokens(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Each token's first choice there, as its number t k + c."""
    nodes, top_k = _nodes_of(chosen, num_experts, num_nodes), chosen.size(1)
    return _flat(
        [t * top_k + own.index(node) for t, own in enumerate(nodes) if node in own] for node in range(num_nodes)
    )


def a_list_a_node(chosen: Tensor, num_experts: int, num_nodes: int) -> tuple[list[list[int]], list[int]]:
    """A list of lists."""
    tokens, sizes = right(chosen, num_experts, num_nodes)
    return [tokens[sum(sizes[:node]) : sum(sizes[: node + 1])] for node in range(num_nodes)], sizes


def not_without_tokens(chosen: Tensor, num_experts: int, num_nodes: int) -> Pair:
    """Right, but for a rank without tokens."""
    _: Callable[..., Any] | list[int] = chosen[0].tolist()
    return right(chosen, num_experts, num_nodes)
