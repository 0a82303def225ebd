"""What needs a GPU: several ranks on one device, messages through the host, results that come home; NCCL on many.

Run with ``pytest -m gpu`` or ``pytest -m multigpu`` on a machine that has them; elsewhere these tests are skipped.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from course_lib import Cluster, machine
from course_lib.cluster import RankFailed

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")

one_gpu = pytest.mark.skipif(len(machine().devices) < 1, reason="needs a GPU")
two_gpus = pytest.mark.skipif(len(machine().devices) < 2, reason="needs two GPUs")


def total(me):
    import torch.distributed as dist

    number = torch.tensor([me.rank + 1.0], device=me.device)
    dist.all_reduce(number)
    return number.item(), str(me.device), me.backend


@pytest.mark.gpu
@one_gpu
def test_several_ranks_share_one_gpu_by_gloo():
    with Cluster(len(machine().devices) + 1) as cluster:
        results = list(cluster.run(total))
    n = len(results)
    assert [value for value, _, _ in results] == [n * (n + 1) / 2] * n
    assert all(device.startswith("cuda:") and backend == "gloo" for _, device, backend in results)


@pytest.mark.gpu
@one_gpu
def test_messages_between_ranks_of_one_gpu_go_through_the_host():
    def ring(me):
        from course_lib.cluster.base.point_to_point import exchange, recv, send

        arrived = torch.empty(4, device=me.device)
        mine = torch.full((4,), float(me.rank), device=me.device)
        exchange([send(mine, (me.rank + 1) % me.world_size), recv(arrived, (me.rank - 1) % me.world_size)])
        return arrived.tolist()

    with Cluster(2, backend="gloo") as cluster:
        assert list(cluster.run(ring)) == [[1.0] * 4, [0.0] * 4]


@pytest.mark.gpu
@one_gpu
def test_a_result_on_a_gpu_arrives_on_the_cpu_and_the_notebook_opens_no_context():
    code = (
        "import torch\nfrom course_lib import Cluster\n"
        "with Cluster(1) as cluster:\n"
        "    value = cluster.run(lambda me: torch.ones(3, device=me.device) * 2)[0]\n"
        "print(value.device, value.tolist(), torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "cpu [2.0, 2.0, 2.0] False\n"


@pytest.mark.gpu
@one_gpu
def test_ranks_run_after_cuda_was_used_in_the_parent():
    torch.ones(1, device="cuda:0").item()
    with Cluster(1) as cluster:
        assert cluster.run(total)[0][0] == 1.0


@pytest.mark.gpu
@one_gpu
def test_an_error_of_a_kernel_belongs_to_the_call_that_launched_it():
    def out_of_bounds(me):
        table = torch.zeros(4, device=me.device)
        return table[torch.tensor([9], device=me.device)].shape

    with Cluster(1) as cluster:
        with pytest.raises(RankFailed, match="CUDA error"):
            cluster.run(out_of_bounds)
        assert cluster.run(total)[0][0] == 1.0, "fresh ranks, a fresh context"


@pytest.mark.gpu
@one_gpu
def test_nccl_shares_one_gpu_where_it_was_asked_to():
    with Cluster(2, backend="nccl-shared", timeout_s=60) as cluster:
        assert [value for value, _, _ in cluster.run(total)] == [3.0, 3.0]


@pytest.mark.multigpu
@two_gpus
def test_each_rank_has_a_gpu_of_its_own_under_nccl():
    with Cluster(2) as cluster:
        assert list(cluster.run(total)) == [(3.0, "cuda:0", "nccl"), (3.0, "cuda:1", "nccl")]


@pytest.mark.multigpu
@two_gpus
def test_nccl_messages_pass_in_a_batch():
    def swap(me):
        from course_lib.cluster.base.point_to_point import exchange, recv, send

        arrived = torch.empty(2, device=me.device)
        exchange(
            [
                send(torch.full((2,), me.rank + 1.0, device=me.device), 1 - me.rank),
                recv(arrived, 1 - me.rank),
            ]
        )
        return arrived.tolist()

    with Cluster(2) as cluster:
        assert list(cluster.run(swap)) == [[2.0, 2.0], [1.0, 1.0]]
