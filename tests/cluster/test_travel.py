"""What travels to ranks by its name, and what a function does to the ``me`` that it is handed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from course_lib.cluster.process import serialization
from course_lib.cluster.process.serialization import pack, unpack

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


# -- tensors ---------------------------------------------------------------------------------------------------------


def test_a_tensor_with_attributes_travels_as_bytes_and_keeps_them(tmp_path: Path) -> None:
    """Not in torch's own way, which brings a tensor back to the GPU that it comes from."""
    weight = torch.nn.Parameter(torch.arange(6.0))
    row = weight.detach()[2:4]
    buffer = torch.nn.Buffer(torch.ones(2), persistent=False)
    weight.of_layer, weight.itself, row.whole = "first", weight, weight  # type: ignore[attr-defined]
    parcel = pack([weight, row, buffer], folder=tmp_path, what="tensors")
    assert parcel.inline is not None
    assert b"_rebuild" not in parcel.inline[0]
    assert len(parcel.sizes) == 3, "the pickle, and two storages"
    weight, row, buffer = unpack(parcel)
    assert isinstance(weight, torch.nn.Parameter)
    assert (weight.of_layer, weight.itself) == ("first", weight)  # type: ignore[attr-defined]
    assert row.whole is weight
    assert isinstance(buffer, torch.nn.Buffer)
    assert not buffer.persistent
    row.fill_(7)
    assert weight.tolist() == [0, 1, 7, 7, 4, 5]


def test_a_sparse_tensor_on_a_gpu_travels_as_a_copy_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in: one tensor of the CPU counts as lying on a GPU."""
    there = torch.eye(3).to_sparse().requires_grad_()
    there.name_of_it = "unit"  # type: ignore[attr-defined]
    asked = []

    def is_on_gpu(tensor: torch.Tensor) -> bool:
        asked.append(tensor is there)
        return tensor is there

    monkeypatch.setattr(serialization, "_is_on_gpu", is_on_gpu)
    back = unpack(pack({"there": there}, folder=tmp_path, what="a tensor"))["there"]
    assert asked == [True, False], "it, and then its copy"
    assert torch.equal(back.to_dense(), torch.eye(3))
    assert back.is_sparse
    assert back.requires_grad
    assert back.name_of_it == "unit"


def test_an_attribute_that_cannot_travel_is_named(tmp_path: Path) -> None:
    tensor = torch.ones(1)
    tensor.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(serialization.NotSendable, match=r"^argument 'x'\.lock is a _thread.lock"):
        pack(tensor, folder=tmp_path, what="argument 'x'")
