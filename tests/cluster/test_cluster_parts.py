"""The parts of the cluster that need no ranks, or only a few: seats, messages, magics, torchrun, stories."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest
import torch
from waiting import wait_until

from course_lib.cluster import launch, shared_cluster
from course_lib.cluster.api import magic, shared
from course_lib.cluster.base.backends import BACKENDS, RankDevice, rank_devices, shared_nccl_env
from course_lib.cluster.base.failure import Frame, describe
from course_lib.cluster.failures.rank_status import Operation, RankStatus, parse_stacks
from course_lib.cluster.failures.report import interrupted_story, location_of, status_line, stuck_story
from course_lib.lessons.kernel_sockets import listen_at_files

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")


@pytest.mark.parametrize(
    ("num_gpus", "world_size", "backend", "expected"),
    [
        (0, 3, "auto", [("cpu", "gloo")] * 3),
        (0, 2, "gloo", [("cpu", "gloo")] * 2),
        (1, 1, "auto", [("cuda:0", "nccl")]),
        (1, 3, "auto", [("cuda:0", "gloo")] * 3),
        (1, 2, "nccl-shared", [("cuda:0", "nccl-shared")] * 2),
        (4, 2, "auto", [("cuda:0", "nccl"), ("cuda:1", "nccl")]),
        (2, 4, "auto", [("cuda:0", "gloo"), ("cuda:1", "gloo"), ("cuda:0", "gloo"), ("cuda:1", "gloo")]),
        (4, 2, "gloo", [("cuda:0", "gloo"), ("cuda:1", "gloo")]),
    ],
)
def test_seats_fit_the_machine(num_gpus, world_size, backend, expected):
    assert list(rank_devices(world_size, backend=backend, num_gpus=num_gpus)) == [
        RankDevice(*seat) for seat in expected
    ]


def test_seats_that_this_machine_cannot_give_are_refused_with_the_nearest_that_it_can():
    with pytest.raises(ValueError, match=r"4 ranks, 2 GPUs here. Use at most 2 ranks, or backend='auto'"):
        rank_devices(4, backend="nccl", num_gpus=2)
    with pytest.raises(ValueError, match=r"0 GPUs here. Use backend='auto'"):
        rank_devices(2, backend="nccl", num_gpus=0)
    with pytest.raises(ValueError, match="this machine has no GPU: use 'auto'"):
        rank_devices(2, backend="nccl-shared", num_gpus=0)
    with pytest.raises(ValueError, match=f"not one of {', '.join(BACKENDS)}"):
        rank_devices(2, backend="mpi", num_gpus=0)


def test_each_nccl_has_its_own_way_to_share_a_gpu():
    assert [shared_nccl_env(rank, (2, 29, 7))["NCCL_HOSTID"] for rank in range(2)] == [
        "course-rank-0",
        "course-rank-1",
    ]
    assert shared_nccl_env(1, (2, 30, 3))["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"
    assert "NCCL_HOSTID" not in shared_nccl_env(1, (2, 30, 3))


# -- messages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [False, True, None])
def test_exchange_passes_a_ring_of_messages(cluster4, stage):
    def ring(me, stage):
        from course_lib.cluster.base.point_to_point import exchange, recv, send

        after, before = (me.rank + 1) % me.world_size, (me.rank - 1) % me.world_size
        mine = torch.full((2, 3), float(me.rank), dtype=torch.float64).t()  # not contiguous
        arrived = torch.empty(3, 2, dtype=torch.float64)
        exchange([send(mine.contiguous(), after), recv(arrived, before)], stage=stage)
        exchange([], stage=stage)
        return arrived

    for rank, arrived in enumerate(cluster4.run(ring, stage)):
        assert torch.equal(arrived, torch.full((3, 2), float((rank - 1) % 4), dtype=torch.float64))


def test_staged_messages_copy_through_the_host(cluster2):
    def staged(me):
        from course_lib.cluster.base.point_to_point import exchange, recv, send

        tensor = torch.full((4,), float(me.rank + 1))
        strided = torch.zeros(8)[::2]  # a receive buffer that no back end could fill directly
        exchange([send(tensor, 1 - me.rank), recv(strided, 1 - me.rank)], stage=True)
        return strided.tolist()

    assert list(cluster2.run(staged)) == [[2.0] * 4, [1.0] * 4]


# -- %%ranks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cells(monkeypatch):
    monkeypatch.setattr(magic, "_world_size", 2)
    yield magic
    for cluster in shared._clusters.values():
        cluster.close()


def test_a_cell_runs_on_every_rank_and_its_names_last(cells, capsys):
    cells.ranks("-n 3", "x = torch.full((2,), float(rank))\ndist.all_reduce(x)\nprint('hi')\nx.tolist()")
    assert capsys.readouterr().out == "".join(f"rank {r} | hi\nrank {r} | [3.0, 3.0]\n" for r in range(3))
    cells.ranks("", "def double(t):\n    return t * 2\ny = double(x)[0].item() + me.rank")
    assert capsys.readouterr().out == ""
    cells.ranks("--only 0,2", "y")
    assert capsys.readouterr().out == "rank 0 | 6.0\nrank 2 | 8.0\n"
    assert cells.pull("y") == [6.0, 7.0, 8.0]
    cells.push("a b", {"a": torch.ones(1), "b": "text"})
    cells.ranks("", "(a + rank).item(), b, world_size")
    assert "rank 1 | (2.0, 'text', 3)" in capsys.readouterr().out


def test_cells_run_on_the_shared_ranks_and_each_number_of_ranks_keeps_its_variables(cells, capsys):
    cells.ranks("", "z = rank")
    assert list(shared_cluster(2).pull("z")) == [0, 1]
    cells.ranks("-n 3", "'z' in globals()")
    out = capsys.readouterr().out
    assert "now on 3 other ranks; the variables of the 2 ranks stay with those" in out
    assert out.count("False") == 3
    cells.ranks("-n 2", "z")
    assert capsys.readouterr().out.endswith("rank 0 | 0\nrank 1 | 1\n")


def test_what_the_magics_cannot_take_is_said(cells):
    with pytest.raises(ValueError, match="It takes -n 4, --only 0,2 and --timeout 30"):
        cells.ranks("--number 3", "1")
    with pytest.raises(ValueError, match="rank 5 is not one of the ranks 0 to 1"):
        cells.ranks("--only 5", "1")
    with pytest.raises(SyntaxError):
        cells.ranks("", "for")
    with pytest.raises(NameError, match="the notebook has no variable 'nothing'"):
        cells.push("nothing", {})
    with pytest.raises(NameError, match="%push needs the name"):
        cells.push("", {})


NOTEBOOK_CELLS = [
    "from course_lib import Cluster, Rank\nimport torch\nimport torch.distributed as dist\ncluster = Cluster(2)",
    "class Point:\n    pass\ndef make(me):\n    p = Point(); p.x = me.rank; return p\nrun = cluster.run(make)\n"
    "print([p.x for p in run], isinstance(run[0], Point))",
    "def step(me):\n    t = torch.ones(1)\n    if me.rank == 1:\n        raise ValueError('from the cell')\n"
    "    dist.all_reduce(t)\ncluster.run(step)",
    "%%ranks\nv = rank + 1\nv",
    "%%ranks\nassert rank == 0, 'only the first'",
    "%pull v",
    "import pathlib, time\ndef sleep(me):\n    if me.rank == 0: pathlib.Path({began!r}).touch(); time.sleep(600)\n"
    "    dist.all_reduce(torch.ones(1))\ncluster.run(sleep)",
    "print(list(cluster.run(lambda me: me.rank)))",
]


@pytest.mark.long
def test_a_real_kernel_shows_cell_lines_and_survives_an_interrupt(sockets: Path):
    from jupyter_client.manager import KernelManager

    manager = KernelManager()
    listen_at_files(manager, sockets / "kernel")
    manager.start_kernel(env={**os.environ, "PYTHONWARNINGS": "ignore"})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=200)
        texts = []
        for number, source in enumerate(NOTEBOOK_CELLS):
            if number == 6:
                client.execute(source.format(began=str(sockets / "began")))
                wait_until((sockets / "began").exists, "rank 0 has begun")
                manager.interrupt_kernel()
                texts.append(collect(client, None))
            else:
                texts.append(collect(client, source))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert texts[1] == "[0, 1] True\n"
    assert "RankFailed: rank 1 of 2 failed: ValueError: from the cell" in texts[2]
    assert "cell, line 4, in step" in texts[2]
    assert "raise ValueError('from the cell')" in texts[2]
    assert "rank 0  waits in all_reduce #1 (float32, 1), at cell, line 5, in step" in texts[2]
    assert "supervisor" not in texts[2], "the library's own stack is not shown"
    assert texts[3] == "rank 0 | 1\nrank 1 | 2\n"
    assert "rank 1 of 2 failed: AssertionError: only the first" in texts[4]
    assert "cell, line 1" in texts[4]
    assert texts[5] == "[1, 2]"
    assert "RankInterrupted: interrupted; the 2 ranks have been stopped" in texts[6]
    assert texts[7] == "[0, 1]\n"


def collect(client, source: str | None) -> str:
    """Everything that one cell shows."""
    if source is not None:
        client.execute(source)
    shown = []
    while True:
        message = client.get_iopub_msg(timeout=200)
        content = message["content"]
        if message["msg_type"] == "stream":
            shown.append(content["text"])
        elif message["msg_type"] == "execute_result":
            shown.append(content["data"]["text/plain"])
        elif message["msg_type"] == "error":
            shown.append("\n".join(content["traceback"]))
        elif message["msg_type"] == "status" and content["execution_state"] == "idle":
            return "".join(shown)


# -- torchrun ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_same_function_runs_under_torchrun_with_two_agents(tmp_path):
    (tmp_path / "job.py").write_text(
        textwrap.dedent(
            """
            import torch
            import torch.distributed as dist

            def total(me, *, start=0, name="none"):
                tensor = torch.tensor([float(me.rank + start)])
                dist.all_reduce(tensor)
                return f"{name}: {tensor.item()} over {me.world_size} ranks, {me.backend}"

            def places(me):
                found = [None] * me.world_size
                dist.all_gather_object(found, (me.rank, me.node, me.local_rank))
                return sorted(found)
            """
        )
    )
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    agent = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    agent += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    env = {
        **os.environ,
        "RES_OPTIONS": "timeout:1 attempts:1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    agents = [
        subprocess.Popen(
            [*agent, "--node-rank", str(node), "-m", "course_lib.cluster.launch", "job:places"],
            cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for node in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=200) for process in agents]
    assert [process.returncode for process in agents] == [0, 0], outputs
    assert "[(0, 0, 0), (1, 1, 0)]" in outputs[0][0]


def test_torchrun_entry_explains_what_it_is_not_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_job_here.py").write_text("def go(me): pass\n")
    with pytest.raises(ValueError, match="RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set"):
        launch.rank_from_env({})
    with pytest.raises(ValueError, match="name it as MODULE:FUNCTION"):
        launch.main([])
    with pytest.raises(ValueError, match="does not name a function"):
        launch.resolve("a_job_here")
    with pytest.raises(ValueError, match="has no function 'gone'; it has go"):
        launch.resolve("a_job_here:gone")
    assert launch.resolve("a_job_here:go").__name__ == "go"
    assert launch.parse_options(["steps=100", "name=ring", "lr=0.1"]) == {
        "steps": 100,
        "name": "ring",
        "lr": 0.1,
    }
    with pytest.raises(ValueError, match="not of the form name=value"):
        launch.parse_options(["--steps"])
    me = launch.rank_from_env(
        {
            "RANK": "3",
            "WORLD_SIZE": "4",
            "LOCAL_RANK": "1",
            "GROUP_RANK": "1",
            "MASTER_ADDR": "x",
            "MASTER_PORT": "1",
        }
    )
    assert (me.rank, me.world_size, me.local_rank, me.node) == (3, 4, 1, 1)


# -- stories ----------------------------------------------------------------------------------------------------


def standing(rank, *, name="all_reduce", number=1, done=False, frames=(), **kwargs):
    operation = Operation(name, number, "0", False, done, ((3, 4),), ("float32",))
    return RankStatus(rank, operation, tuple(frames), **{"num_collectives": number, **kwargs})


TORCH_FRAME = Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 100, "all_reduce")


def test_lines_about_ranks_read_as_sentences():
    cell = Frame("/tmp/ipykernel_12/345.py", 8, "step")
    assert status_line(standing(0, frames=[cell, TORCH_FRAME])) == (
        "waits in all_reduce #1 (float32, 3 x 4), at cell, line 8, in step"
    )
    assert status_line(standing(0, frames=[cell])).startswith("has not finished all_reduce #1")
    assert status_line(standing(0, done=True, frames=[cell])) == "runs on, at cell, line 8, in step"
    assert location_of(Frame("<cell of ranks 3>", 2, "<module>")) == "cell, line 2"
    assert location_of(Frame("/home/me/train.py", 2, "main")) == "train.py, line 2, in main"


def test_the_story_says_who_never_came_and_what_differs():
    waits = [standing(0, number=3, frames=[TORCH_FRAME]), standing(1, number=2, done=True)]
    assert "Rank 1 never called all_reduce #3." in stuck_story(dict(enumerate(waits)), 2, timeout_s=5)
    differ = [standing(0, frames=[TORCH_FRAME]), standing(1, name="broadcast", frames=[TORCH_FRAME])]
    assert "same operation on every rank: all_reduce, broadcast" in stuck_story(dict(enumerate(differ)), 2, timeout_s=5)
    fine = [standing(0, done=True), standing(1, done=True)]
    assert "pass a larger timeout_s" in stuck_story(dict(enumerate(fine)), 2, timeout_s=5)


def test_one_rank_that_was_interrupted_is_one():
    waits = [standing(rank, frames=[TORCH_FRAME]) for rank in range(2)]
    assert interrupted_story({0: waits[0]}, 1).startswith("interrupted; the rank has been stopped. It stood here:")
    both = interrupted_story(dict(enumerate(waits)), 2)
    assert both.startswith("interrupted; the 2 ranks have been stopped. They stood here:")


def test_faulthandler_stacks_are_read_back():
    text = textwrap.dedent(
        """
        Thread 0x1 (most recent call first):
          File "/lib/python3.11/threading.py", line 1 in run

        Current thread 0x2 (most recent call first):
          File "/lib/python3.11/site-packages/torch/distributed/x.py", line 10 in all_reduce
          File "/tmp/ipykernel_1/2.py", line 4 in step
        """
    )
    read = parse_stacks(text, 1, "silent")
    assert [frame.function for frame in read.frames] == ["step", "all_reduce"]
    assert read.where == Frame("/tmp/ipykernel_1/2.py", 4, "step")


@pytest.mark.parametrize(
    ("error", "is_echo"),
    [
        (RuntimeError("[..] Connection closed by peer [127.0.0.1]:311"), True),
        (RuntimeError("Connection reset by peer"), True),
        (ValueError("Connection closed by peer"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_only_what_is_heard_of_a_peer_is_an_echo(error, is_echo):
    assert describe(error, rank=0).is_echo is is_echo


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ({"is_kept_waiting": True}, "keeps /shared/seats locked, .* went on without its turn.* COURSE_SEATS=off none"),
        ({"is_crowded": True}, "/shared/seats, .* holds more than 1,024: .* chosen its GPUs and threads by those"),
    ],
)
def test_a_folder_of_seats_that_somebody_keeps_from_us_is_told_once(monkeypatch, kept, words):
    from course_lib.cluster.api import placement

    kept = placement.seats.Survey(placement.seats.Others(), "/shared/seats", **kept)
    monkeypatch.setattr(placement.seats, "survey", lambda: kept)
    monkeypatch.setattr(placement, "_warned", set())
    with pytest.warns(match=words):
        placement.choose_devices(1, on_cpu=True, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        placement.choose_devices(1, on_cpu=True, num_threads=1)
