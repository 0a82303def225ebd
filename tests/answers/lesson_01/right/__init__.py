"""Right answers to the exercises of lesson 01 in other styles than the notebook's: a judge that refuses one is wrong.

Not shown to learners.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["MEANS_NOTHING", "RIGHT_ANSWERS", "SAME_FUNCTION"]

Pieces = list[tuple[Tensor, Tensor]]

# -- 01.ledger ---------------------------------------------------------------------------------------------------------


def bytes_by_a_loop(parameters: list) -> Counter[str]:
    """One pass with a set of ids and a counter."""
    seen: set[int] = set()
    total = Counter({"parameter": 0, "gradient": 0, "optimizer state": 0})
    for parameter in parameters:
        if id(parameter) in seen:
            continue
        seen.add(id(parameter))
        size = parameter.numel() * parameter.element_size()
        total["parameter"] += size
        if parameter.requires_grad:
            total["gradient"] += size
            total["optimizer state"] += size + size + 4
    return total


def bytes_by_numpy(parameters: list) -> dict[str, Any]:
    """A table in NumPy, and its whole numbers."""
    unique = list(dict.fromkeys(parameters))
    sizes = np.array([parameter.untyped_storage().nbytes() for parameter in unique], dtype=np.int64)
    learns = np.array([parameter.requires_grad for parameter in unique], dtype=bool)
    gradients = sizes[learns].sum()
    return {
        "parameter": sizes.sum(),
        "gradient": gradients,
        "optimizer state": 2 * gradients + 4 * np.count_nonzero(learns),
    }


def bytes_by_tensors(parameters: list) -> dict[str, Tensor]:
    """Tensors of one number each, by a sum over a comprehension with an index."""
    first = [p for i, p in enumerate(parameters) if not any(p is q for q in parameters[:i])]
    size = torch.tensor([p.nbytes for p in first])
    learns = torch.tensor([int(p.requires_grad) for p in first])
    return {
        "parameter": size.sum(),
        "gradient": (size * learns).sum(),
        "optimizer state": ((2 * size + 4) * learns).sum(),
    }


def bytes_by_empty_twins(parameters: list) -> dict[str, int]:
    """Tensors on the meta device stand for what will exist: sizes without memory."""
    unique = {id(p): p for p in parameters}.values()
    learning = [torch.empty_like(p, device="meta") for p in unique if p.requires_grad]
    moments = [torch.empty_like(p) for p in learning for _ in range(2)]
    steps = [torch.empty((), device="meta") for _ in learning]
    return {
        "parameter": sum(p.nbytes for p in unique),
        "gradient": sum(p.nbytes for p in learning),
        "optimizer state": sum(t.nbytes for t in moments + steps),
    }


# -- 01.accumulate -----------------------------------------------------------------------------------------------------


def step_by_sums(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """Sums over examples; the gradients are divided at the end."""
    model.zero_grad()
    for x, y in pieces:
        F.cross_entropy(model(x), y, reduction="sum").backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(sum(len(y) for _, y in pieces))
    optimizer.step()


def step_backwards_by_weighted_grad(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
    """Last piece first, the weight given to `backward` as the gradient of the loss."""
    optimizer.zero_grad(set_to_none=False)
    count = sum(x.size(0) for x, _ in pieces)
    for x, y in reversed(pieces):
        loss = F.cross_entropy(model(x), y)
        loss.backward(torch.full_like(loss, len(x) / count))
    optimizer.step()
    optimizer.zero_grad()


def step_by_collected_gradients(model: nn.Module, optimizer: torch.optim.Optimizer, pieces: Pieces) -> float:
    """`torch.autograd.grad` for each piece, gradients added up by hand; gives the loss back."""
    learning = [p for p in model.parameters() if p.requires_grad]
    totals = [torch.zeros_like(p) for p in learning]
    count, mean = sum(map(len, (y for _, y in pieces))), 0.0
    for x, y in pieces:
        loss = nn.CrossEntropyLoss(reduction="sum")(model(x), y) / count
        for total, grad in zip(totals, torch.autograd.grad(loss, learning), strict=True):
            total += grad
        mean += loss.item()
    for parameter, total in zip(learning, totals, strict=True):
        parameter.grad = total
    optimizer.step()
    return mean


class StepByLogProbabilities:
    """A class with methods; the loss from log-probabilities, picked out by hand."""

    def __call__(self, model: nn.Module, optimizer: torch.optim.Optimizer, pieces: Pieces) -> None:
        optimizer.zero_grad()
        self.total = len(torch.cat([y for _, y in pieces]))
        for piece in pieces:
            self.backward(model, *piece)
        optimizer.step()

    def backward(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        log_p = model(x).log_softmax(dim=-1)
        (-log_p[torch.arange(len(y)), y].sum() / self.total).backward()


# -- 01.recompute ------------------------------------------------------------------------------------------------------


def again_by_grad(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor:
    """`torch.autograd.grad` for everything, added to `.grad` by hand."""
    now = torch.get_rng_state()
    torch.set_rng_state(rng_state)
    with torch.enable_grad():
        leaf = x.clone().detach().requires_grad_(True)
        y = block(leaf)
    torch.set_rng_state(now)
    learning = [p for p in block.parameters() if p.requires_grad]
    grad_x, *grads = torch.autograd.grad(y, [leaf, *learning], grad_y, allow_unused=True)
    for parameter, grad in zip(learning, grads, strict=True):
        if grad is not None:
            parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
    return grad_x


@torch.enable_grad()
def again_by_decorator(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor | None:
    """Recording switched on by a decorator; backward from a weighed sum."""
    leaf = torch.empty_like(x).copy_(x.detach()).requires_grad_()
    before = torch.random.get_rng_state()
    try:
        torch.random.set_rng_state(rng_state)
        (block(leaf) * grad_y).sum().backward()
    finally:
        torch.random.set_rng_state(before)
    return leaf.grad


def again_by_vjp(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor:
    """A vector-Jacobian product over parameters and input, by `torch.func`."""
    learning = {name: p for name, p in block.named_parameters() if p.requires_grad}

    def run(values: dict[str, Tensor], leaf: Tensor) -> Tensor:
        return torch.func.functional_call(block, values, (leaf,))

    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.set_rng_state(rng_state)
        pull = torch.func.vjp(run, {n: p.detach() for n, p in learning.items()}, x.detach())[1]
        grads, grad_x = pull(grad_y)
    for name, parameter in learning.items():
        parameter.grad = grads[name] + (0 if parameter.grad is None else parameter.grad)
    return grad_x.detach()


def again_by_a_hook(block: nn.Module, x: Tensor, grad_y: Tensor, rng_state: Tensor) -> Tensor:
    """The gradient of the input is caught by a hook."""
    caught: list[Tensor] = []
    leaf = x.detach().requires_grad_()
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(True):
        torch.set_rng_state(rng_state)
        y = block(leaf)
    leaf.register_hook(caught.append)
    y.backward(gradient=grad_y)
    return caught[0]


# -- 01.evaluate -------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def mean_in_inference_mode(model: nn.Module, batches: Pieces) -> Tensor:
    """Inference mode by a decorator, sums over examples, a tensor comes back."""
    model.eval()
    losses = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
    return torch.stack(losses).sum() / sum(len(y) for _, y in batches)


def mean_put_back(model: nn.Module, batches: Pieces) -> float:
    """The mode of every part is put back at the end, and a running mean is kept."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    mean, count = 0.0, 0
    try:
        with torch.no_grad():
            for x, y in batches:
                count += len(x)
                mean += (F.cross_entropy(model(x), y).item() - mean) * len(x) / count
    finally:
        for module, training in modes:
            module.training = training
    return mean


def mean_with_nothing_to_learn(model: nn.Module, batches: Pieces) -> Any:
    """Nothing that learns takes part: detached weights in a functional call; NumPy's weighted mean."""
    model.eval()
    frozen = {name: p.detach() for name, p in model.named_parameters()}
    losses = [F.cross_entropy(torch.func.functional_call(model, frozen, (x,)), y).item() for x, y in batches]
    return np.average(losses, weights=[len(x) for x, _ in batches])


@torch.no_grad()
def mean_by_hand(model: nn.Module, batches: Pieces) -> float:
    """The cross-entropy written out: a log of a sum of exponentials less the score of the label."""
    model.train(False)

    def loss_of(x: Tensor, y: Tensor) -> float:
        scores = model(x)
        return float((scores.logsumexp(1) - scores.gather(1, y[:, None])[:, 0]).sum())

    return sum(loss_of(x, y) for x, y in batches) / sum(len(x) for x, _ in batches)


RIGHT_ANSWERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "01.ledger": (bytes_by_a_loop, bytes_by_numpy, bytes_by_tensors, bytes_by_empty_twins),
    "01.accumulate": (
        step_by_sums,
        step_backwards_by_weighted_grad,
        step_by_collected_gradients,
        StepByLogProbabilities(),
    ),
    "01.recompute": (again_by_grad, again_by_decorator, again_by_vjp, again_by_a_hook),
    "01.evaluate": (mean_in_inference_mode, mean_put_back, mean_with_nothing_to_learn, mean_by_hand),
}

_NO_EXAMPLES = "no page trains or evaluates on nothing, and a mean over nothing has no value"
_NO_HISTORY = "the examples are data, and ask for no gradient"
_IN_ORDER = "the examples come from the data set, in their own order in memory"

MEANS_NOTHING: dict[str, dict[str, str]] = {
    "01.ledger": {"fails-where-nothing-is-to-do": "a model without parameters has no state to count"},
    "01.accumulate": {
        "fails-where-nothing-is-to-do": _NO_EXAMPLES,
        "only-without-requires-grad": _NO_HISTORY,
        "replaces-a-grad": "the step is over, and the next one clears `.grad` before it adds to it",
    },
    "01.recompute": {
        "fails-where-nothing-is-to-do": _NO_EXAMPLES,
        "replaces-a-grad": "autograd itself may put a new tensor there, and the text asks for the sum alone",
    },
    "01.evaluate": {
        "fails-where-nothing-is-to-do": _NO_EXAMPLES,
        "only-contiguous": _IN_ORDER,
        "only-without-requires-grad": _NO_HISTORY,
    },
}

SAME_FUNCTION: dict[str, dict[str, str]] = {
    "01.accumulate": {
        "35: `total = sum((len(x) for x, _ in pieces))` after `optimizer.zero_grad()`": (
            "To count examples and to clear gradients have nothing to do with each other: their order cannot be seen."
        ),
    },
    "01.recompute": {
        "40: `torch.random.fork_rng(devices=[])` -> `torch.random.fork_rng()`": (
            "It puts back the generators of GPUs as well, which nothing here draws from."
        ),
        "gradient_again: gradients switched off": (
            "Autograd calls it with gradients off, and the run of the block switches them on for itself."
        ),
    },
    "01.evaluate": {
        "25: `model.eval()` after `total = 0.0`": "A number set to 0 and a mode: their order cannot be seen.",
        "30: `total += F.cross_entropy(model(x), y).item() * len(x)` -> a new name for a new value": (
            "A float is never changed in place, so `+=` makes a new one too."
        ),
        "30: `F.cross_entropy(model(x), y).item()` -> `F.cross_entropy(model(x), y)`": (
            "Under `no_grad` the sum is then a tensor of one number without a graph, which means the same."
        ),
    },
}
