"""What travels to ranks by its name, and what a function does to the ``me`` that it is handed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.cluster.wire import pack, unpack

pytestmark = pytest.mark.xdist_group("cluster")


def test_a_module_that_only_another_module_leads_to_travels_by_its_name(tmp_path: Path) -> None:
    functions = torch._C._functions
    assert unpack(pack(functions, folder=tmp_path, what="a module")) is functions


def test_a_name_that_is_also_a_submodule_of_torch_does_not_keep_a_function_from_travelling(cluster2) -> None:
    """cloudpickle takes ``config`` beside ``dist`` for torch.distributed.config, which is of a class of its own."""
    code = "import torch.distributed as dist\n\nconfig = 4\n\ndef both(me):\n    return config + dist.get_rank()\n"
    names: dict = {"__name__": "__main__"}
    exec(code, names)
    assert list(cluster2.run(names["both"])) == [4, 5]


def test_a_function_of_autograd_that_is_differentiable_once_travels(cluster2) -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * grad

    def gradient(me):
        x = torch.ones(1, requires_grad=True)
        Double.apply(x).sum().backward()
        return float(x.grad)

    assert list(cluster2.run(gradient)) == [2.0, 2.0]


def test_what_a_function_does_to_its_me_is_gone_in_the_next_call(cluster2) -> None:
    def take_another_place(me):
        object.__setattr__(me, "rank", 7)

    cluster2.run(take_another_place)
    assert list(cluster2.run(lambda me: me.rank)) == [0, 1]
