"""What ``course bench gpu`` runs on ranks, on a device that is not the CPU: a tensor made in the wrong place fails."""

from __future__ import annotations

import pytest
import torch
from fake_device import HAS_FAR, far

from course_lib.authoring.bench.gpu.measurements import meter
from course_lib.authoring.bench.strategies import collectives, ddp, pipeline, tensor
from course_lib.cluster import Cluster

pytestmark = [
    pytest.mark.xdist_group("device_discipline"),
    pytest.mark.limit_s(300),
    pytest.mark.skipif(not HAS_FAR, reason="this torch has no Python back end for foreign devices"),
]


@pytest.fixture(scope="module")
def there():
    """Two ranks of this file's own: PyTorch must hear of the device before the first backward pass of a process."""
    with Cluster(2, backend="gloo") as cluster:
        cluster.call(far(lambda me: None))
        yield cluster


def course_ddp(me, name):
    from course_lib.parallel.data import DistributedDataParallel

    step = ddp.training(me, name, lambda model: DistributedDataParallel(me, model))
    step()
    step()


def torch_ddp(me, name):
    from torch.nn.parallel import DistributedDataParallel

    step = ddp.training(me, name, DistributedDataParallel)
    step()
    step()


def course_pipeline(me, kind):
    step = pipeline._course_step(me, kind, 2 if kind == "interleaved" else 1)
    tokens = torch.randint(256, (16, 65), device=me.device)
    step(tokens[:, :-1] if me.rank == 0 else None, tokens[:, 1:] if me.rank else None)


@pytest.mark.first_cases(1)
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (meter.each_collective, ()),
        (meter.ddp_step, ()),
        (course_ddp, (ddp.MODELS[0],)),
        (course_ddp, (ddp.MODELS[1],)),
        (torch_ddp, (ddp.MODELS[0],)),
        (course_pipeline, ("1f1b",)),
        (collectives.paired, ("all_reduce, ring", 4096, 1)),
        (tensor.paired, (16, 8, False, 1)),
        (tensor.paired, (16, 8, True, 1)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_it_runs_where_the_rank_computes(there, function, arguments):
    there.call(far(function), arguments, show=False)


def ledger_of_a_step(me):
    """By moment and label, the bytes that the ledger finds."""
    from course_lib.meter import MemoryLedger

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).to(me.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    x = torch.ones(8, 16, device=me.device)
    with MemoryLedger(model, optimizer, inputs=(x,)) as ledger:
        loss = model(x).square().mean()
        ledger.mark("after forward")
        loss.backward()
        ledger.mark("after backward")
        optimizer.step()
        ledger.mark("after the step")
    return {name: balance.by_label for name, balance in ledger.marks.items()}


def test_a_ledger_finds_the_same_bytes_on_another_device(there):
    (far_away, _), (here, _) = (there.call(f, show=False) for f in (far(ledger_of_a_step), ledger_of_a_step))
    assert far_away == here
