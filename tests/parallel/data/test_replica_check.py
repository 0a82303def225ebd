"""What ranks were given is compared to the last bit, whatever kind of tensor it is."""

from __future__ import annotations

import pytest
import torch
from ddp_cases import message_of
from torch import nn

from course_lib.parallel.collectives.members import Members
from course_lib.parallel.data.replica_check import check_replicas

pytestmark = [
    pytest.mark.xdist_group("forgotten_seeds"),
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
]

NOTHING = "nothing was raised"


def compared(me, kind: str, is_other: bool) -> str:
    """One parameter of a kind; on rank 1 another one."""
    is_other = is_other and me.rank == 1
    shape, dtype, device, grad = (3, 2), torch.float32, "cpu", True
    if kind in ("float64", "float16", "bfloat16", "complex128"):
        dtype = getattr(torch, kind)
    values = torch.arange(6.0).reshape(shape).to(dtype)
    if kind == "zero size":
        values = torch.empty(0, 3 + is_other)
    elif kind == "a number":
        values = torch.tensor(1.0 + is_other)
    elif kind == "frozen":
        grad = not is_other
    elif kind == "frozen values":
        grad, values = False, values + is_other
    elif kind == "dtype":
        values = values.to(torch.float64 if is_other else torch.float32)
    elif kind == "meta":
        device, shape = "meta", (3, 2 + is_other)
        values = torch.empty(shape, device=device)
    elif kind == "lazy":
        values = nn.LazyLinear(3, bias=False).weight if not is_other else values
    elif kind == "strides":
        values = values.T.contiguous().T if me.rank == 1 else values
        values = values + is_other
    elif is_other:  # the last bit of a number
        with torch.no_grad():
            values.view(-1).view(torch.uint8)[0] ^= 1
    tensor = values if isinstance(values, nn.Parameter) else nn.Parameter(values, requires_grad=grad)
    named = {"before": nn.Parameter(torch.ones(2)), "weight": tensor}
    return message_of(lambda: check_replicas(me, Members.of(me, None), "a strategy", named))


@pytest.mark.parametrize(
    "kind", ["float64", "float16", "bfloat16", "complex128", "a number", "frozen values", "strides"]
)
def test_every_bit_of_every_kind_is_compared(cluster2, kind):
    assert list(cluster2.call(compared, (kind, False))) == [NOTHING] * 2
    for said in cluster2.call(compared, (kind, True)):
        assert said.startswith("ranks 0 and 1 differ in weight: a strategy needs the same model")


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("zero size", "weight (0, 3) torch.float32, trained", "weight (0, 4) torch.float32, trained"),
        ("frozen", "weight (3, 2) torch.float32, trained", "weight (3, 2) torch.float32, fixed"),
        ("dtype", "weight (3, 2) torch.float32, trained", "weight (3, 2) torch.float64, trained"),
        ("meta", "weight (3, 2) torch.float32, trained", "weight (3, 3) torch.float32, trained"),
        ("lazy", "weight without a shape", "weight (3, 2) torch.float32, trained"),
    ],
)
def test_other_models_are_told_in_ddps_words(cluster2, kind, one, other):
    assert list(cluster2.call(compared, (kind, False))) == [NOTHING] * 2
    for said in cluster2.call(compared, (kind, True)):
        assert said == f"rank 0 has {one} where rank 1 has {other}; build the same model on all ranks"
