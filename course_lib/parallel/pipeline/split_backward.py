"""A backward pass in two halves: gradients of the inputs now (I), gradients of the weights later (W).

Every operation of a backward pass does two things that have nothing to do with each other: it works out the gradient
of what went in, for which the stage before is waiting, and that of its weights, for which nobody waits until the
optimizer steps. Zero bubble schedules put the second half where a rank would otherwise be idle.

Autograd can be asked for the one without the other. The path from the outputs back to the inputs is the *trunk* of the
graph; weights hang off it by side *branches*. I walks the trunk alone and notes the gradient that arrives wherever a
branch begins; W starts from those places. Nothing is computed twice, except the trunk between two uses of one weight.
The graph, with what it has saved for the weights, lives until W.

The idea: Qi et al., "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241). The way: torch.distributed.pipelining.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

__all__ = ["backward_for_inputs"]


def backward_for_inputs(
    output: GradientEdge, gradient: Tensor | None, inputs: Tensor, parameters: Iterable[Tensor]
) -> tuple[Tensor, Callable[[], None]]:
    """The gradient of ``inputs``, and what to call for those of ``parameters``, which are added to their ``grad``.

    ``output`` is where the backward pass begins and ``gradient`` what it begins with (None: 1, for a loss).
    """
    begin = None if gradient is None else [gradient]
    trunk = _nodes_towards(output.node, get_gradient_edge(inputs).node)
    if not trunk:  # the output does not depend on the inputs: all there is to do is for the weights
        return torch.zeros_like(inputs), lambda: torch.autograd.backward([output], begin)
    leaves = {get_gradient_edge(p).node: p for p in parameters if p.requires_grad}
    branches = {node: _branch_leaves(node, trunk, leaves) for node in trunk}
    branches = {node: found for node, found in branches.items() if found}
    arrived: dict[Node, tuple[Any, ...]] = {}
    hooks = [node.register_prehook(_note(arrived, node)) for node in branches]
    try:
        (of_inputs,) = torch.autograd.grad([output], [inputs], begin, retain_graph=True, materialize_grads=True)
    finally:
        for hook in hooks:
            hook.remove()

    def backward_for_weights() -> None:
        for nodes, found in _groups(branches):
            _add_gradients({node: arrived.pop(node) for node in nodes}, [leaves[leaf] for leaf in found])

    return of_inputs, backward_for_weights


def _add_gradients(arrived: dict[Node, tuple[Any, ...]], parameters: list[Tensor]) -> None:
    """From the places where gradients have arrived to the weights beside them."""
    edges = [(GradientEdge(node, i), g) for node, gs in arrived.items() for i, g in enumerate(gs) if g is not None]
    # Where one weight is used in several places, the walk from one of them passes the others: they keep to what
    # arrived there in I, which has that part in it.
    several = len(arrived) > 1
    hooks = [node.register_prehook(lambda _, noted=noted: noted) for node, noted in arrived.items() if several]
    starts, gradients = [edge for edge, _ in edges], [gradient for _, gradient in edges]
    try:
        torch.autograd.backward(starts, gradients, retain_graph=True, inputs=parameters)
    finally:
        for hook in hooks:
            hook.remove()


def _nodes_towards(start: Node, end: Node) -> dict[Node, None]:
    """The nodes on any path from ``start`` back to ``end``, both among them.

    In an order that the graph alone decides, unlike that of a set: where nodes call collectives, as those of a model
    that is cut inside its layers do, W must come to them in the same order on every rank.
    """
    parents: dict[Node, list[Node]] = {start: []}
    todo = [start]
    while todo:
        node = todo.pop()
        for child, _ in node.next_functions:
            if child is not None:
                if child not in parents:
                    parents[child] = []
                    todo.append(child)
                parents[child].append(node)
    trunk: dict[Node, None] = {}
    todo = [end] if end in parents else []
    while todo:
        node = todo.pop()
        if node not in trunk:
            trunk[node] = None
            todo += parents[node]
    return trunk


def _branch_leaves(node: Node, trunk: Collection[Node], leaves: dict[Node, Tensor]) -> frozenset[Node]:
    """The weights that can be reached from a node without walking along the trunk."""
    found, seen = set[Node](), set[Node]()
    todo = [child for child, _ in node.next_functions if child is not None and child not in trunk]
    while todo:
        child = todo.pop()
        if child not in seen:
            seen.add(child)
            if child in leaves:
                found.add(child)
            todo += [each for each, _ in child.next_functions if each is not None and each not in trunk]
    return frozenset(found)


def _groups(branches: dict[Node, frozenset[Node]]) -> list[tuple[list[Node], frozenset[Node]]]:
    """Places and their weights, those that share a weight together."""
    groups: list[tuple[list[Node], frozenset[Node]]] = []
    for node, found in branches.items():
        mine = ([node], found)
        apart = []
        for nodes, others in groups:
            if others & mine[1]:
                mine = (nodes + mine[0], others | mine[1])
            else:
                apart.append((nodes, others))
        groups = [*apart, mine]
    return groups


def _note(arrived: dict[Node, tuple[Any, ...]], node: Node) -> Callable[[Any], None]:
    def hook(gradients: tuple[Any, ...]) -> None:
        arrived[node] = gradients

    return hook
