"""FullySharded with awkward weights: either it trains them as one process does, or it refuses with a sentence."""

from __future__ import annotations

import pytest
import torch
from awkward_weights import ALIASED, ODD, STRIDED, batch, loss_of, make
from ddp_cases import message_of
from torch import nn

from course_lib.parallel.sharded import FullySharded

pytestmark = [
    pytest.mark.xdist_group("sharded"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NUM_STEPS = 3
ROWS_OF_A_RANK = 2

REFUSED = {
    "zero_dim": "a parameter of shape () has no rows to deal out",
    "mixed_dtypes": "one message has one dtype",
    "tied": "are one tied parameter in 2 units",
    "sparse": "gives sparse gradients",
    "lazy": "ninitialized parameter|has no shape yet",
    "expanded": "is expanded|several numbers in one place of memory",
    "overlaps_itself": "several numbers in one place of memory",
    "overlapping": "shares numbers with another one",
    "same_memory": "shares numbers with another one",
}


def steps(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)
    for _ in range(NUM_STEPS):
        optimizer.zero_grad()
        loss_of(model, x).backward()
        optimizer.step()


def trained(me, names, dtype=torch.float64, **wrapping):
    """For each model how far it is from what one process has trained, or the sentence."""
    found: dict[str, float | str] = {}
    for name in names:
        x = batch(name, ROWS_OF_A_RANK * me.world_size, dtype)
        models: list[FullySharded] = []

        def wrap_and_train(name=name, x=x, models=models) -> None:
            models.append(FullySharded(me, make(name, dtype), **wrapping))
            steps(models[0], x[ROWS_OF_A_RANK * me.rank : ROWS_OF_A_RANK * (me.rank + 1)])

        said = message_of(wrap_and_train)
        if said != "nothing was raised":
            found[name] = said
            continue
        plain = make(name, dtype)
        steps(plain, x)
        state = models[0].full_state_dict()
        apart = [(t - state[n]).abs().max().item() for n, t in plain.state_dict().items() if t.numel()]
        found[name] = max(apart, default=0.0)
    return found


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_it_trains_awkward_weights_as_one_process_does_or_says_why_not(clusters, num_ranks):
    for found in clusters(num_ranks).call(trained, ([*STRIDED, *ODD, *ALIASED],), show=False):
        refused = {name: said for name, said in found.items() if isinstance(said, str)}
        assert refused.keys() == REFUSED.keys()
        for name, said in refused.items():
            assert any(part in said for part in REFUSED[name].split("|")), (name, said)
        assert {name: far for name, far in found.items() if not isinstance(far, str) and far > 1e-12} == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_stay_near_one_process(clusters, dtype):
    names = ["contiguous", "transposed", "views_of_one", "zero_rows"]
    for found in clusters(2).call(trained, (names, dtype), show=False):
        assert {name: far for name, far in found.items() if isinstance(far, str) or far > 0.05} == {}


def is_row_of(me, rows, whole) -> bool:
    """Whether these are this rank's rows, and None beside None."""
    if rows is None or whole is None:
        return rows is whole
    return torch.allclose(rows, whole.chunk(me.world_size)[me.rank], rtol=1e-12, atol=1e-14)


def toggled(me):
    """Frozen after wrapping, and trained again: the gradients of a step each time, and what is kept of a frozen one."""
    model = FullySharded(me, make("contiguous"))
    names = {name.removeprefix("module."): p for name, p in model.named_parameters()}
    plain, whole_x = make("contiguous"), batch("contiguous", ROWS_OF_A_RANK * me.world_size)
    seen = []
    own = whole_x[ROWS_OF_A_RANK * me.rank : ROWS_OF_A_RANK * (me.rank + 1)]
    for frozen in ((), ("0.weight",), (), ("0.weight", "0.bias"), ()):  # at last a whole unit
        for name, p in [*names.items(), *plain.named_parameters()]:
            p.requires_grad_(name not in frozen)
            p.grad = None
        said = message_of(lambda: loss_of(model, own).backward())
        loss_of(plain, whole_x).backward()
        wrong = [n for n, p in plain.named_parameters() if not is_row_of(me, names[n].grad, p.grad)]
        seen.append((said, frozen, wrong))
    return seen


def test_what_is_frozen_after_wrapping_gets_no_gradient_and_again_one_later(clusters):
    for seen in clusters(2).call(toggled, show=False):
        for said, frozen, wrong in seen:
            assert (said, wrong) == ("nothing was raised", []), frozen
