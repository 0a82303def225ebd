"""A transformer trained on a mesh, and alone in one process, for the tests of the combined strategies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from course_lib.cluster import Rank
from course_lib.layouts.mesh import Mesh
from course_lib.models import Transformer, TransformerConfig, next_token_loss
from course_lib.parallel.mesh import OnMesh, boxes_of, clip_gradients

# 13 and 11 divide by nothing.
CONFIG = TransformerConfig(vocab_size=13, context_length=6, num_layers=2, width=8, num_heads=4, hidden=11, bias=True)
CONFIGS = {
    "plain": CONFIG,
    "tied": replace(CONFIG, tied=True),
    # In four stages the slices of two ranks would be cut at other places: 27 and 26 tokens, 5 and 4 hidden units.
    "uneven": replace(CONFIG, num_layers=4, vocab_size=53, hidden=9),
}
MAX_NORM = 0.5  # below the norm of most steps
State = dict[str, torch.Tensor]


def whole(name: str, seed: int = 0) -> Transformer:
    """In float64, with biases and norms that are not at 0 and 1, and a frozen matrix."""
    torch.manual_seed(seed)
    model = Transformer(CONFIGS[name]).double()
    for key, parameter in model.named_parameters():
        if "norm" in key or key.endswith("bias"):
            nn.init.normal_(parameter, mean=float("norm" in key), std=0.3)
        else:
            nn.init.normal_(parameter, std=0.3)
    model.blocks[1].mlp.w_up.weight.requires_grad_(False)
    return model


def batches(count: int, num_rows: int, first: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    tokens = [torch.randint(13, (num_rows, 7), generator=generator) for _ in range(first + count)]
    return [(one[:, :-1], one[:, 1:]) for one in tokens[first:]]


def optimizer_for(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=1e-2, weight_decay=0.1)


def alone(name: str, num_steps: int, num_rows: int) -> dict[str, Any]:
    """Losses, gradient norms and the weights after all steps, of the plain model with the whole batch."""
    model = whole(name)
    optimizer = optimizer_for(list(model.parameters()))
    seen: dict[str, Any] = {"losses": [], "norms": []}
    for x, y in batches(num_steps, num_rows):
        optimizer.zero_grad()
        loss = next_token_loss(model(x), y)
        loss.backward()
        seen["norms"].append(nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM).item())
        optimizer.step()
        seen["losses"].append(loss.item())
    return seen | {"state": model.state_dict()}


def train(
    model: OnMesh, optimizer: torch.optim.Optimizer, num_steps: int, num_rows: int, first: int = 0
) -> dict[str, Any]:
    seen: dict[str, Any] = {"losses": [], "norms": []}
    for batch in batches(num_steps, num_rows, first):
        optimizer.zero_grad()
        seen["losses"].append(model.step(*model.data.deal(*batch)).item())
        seen["norms"].append(clip_gradients(model, MAX_NORM).item())
        optimizer.step()
    return seen | {"held": held(model)}


def on_mesh(me: Rank, mesh: Mesh, name: str, num_steps: int, num_rows: int, **options: Any) -> dict[str, Any]:
    """The same on a mesh. The model of rank 0 counts: the others build another one."""
    model = OnMesh(me, mesh, whole(name, seed=me.rank), **options)
    seen = train(model, optimizer_for(model.parameters()), num_steps, num_rows)
    model.close()
    return seen


def held(model: OnMesh) -> list[tuple[str, tuple[int, ...], torch.Tensor, bool]]:
    """What this rank holds: name, where it begins in the whole, its numbers, whether it counts."""
    return [(box.name, box.offsets, box.parameter.detach().clone(), box.counts) for box in boxes_of(model)]


def assert_same(state: State, ranks: list[dict[str, Any]]) -> None:
    """Every rank holds the right numbers, and together they count each number of the model once."""
    first_names: dict[int, str] = {}
    times = {
        name: torch.zeros(t.shape) for name, t in state.items() if first_names.setdefault(t.data_ptr(), name) == name
    }
    for rank in ranks:
        for name, offsets, values, counts in rank["held"]:
            place = tuple(slice(o, o + size) for o, size in zip(offsets, values.shape, strict=True))
            torch.testing.assert_close(
                values, state[name][place], rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
            )
            if counts:
                times[name][place] += 1
    assert all((count == 1).all() for count in times.values())
