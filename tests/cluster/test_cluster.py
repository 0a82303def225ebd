"""Ranks that work: what a call brings back, and how values, text and surroundings travel."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from course_lib import Cluster, Rank, shared_cluster
from course_lib.cluster import CrowdedWarning, NotSendable, RankFailed

pytestmark = pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning")


def total(me: Rank, value: float) -> float:
    import torch.distributed as dist

    tensor = torch.tensor([value + me.rank])
    dist.all_reduce(tensor)
    return tensor.item()


def test_every_rank_knows_its_place_and_they_reach_each_other(cluster4):
    run = cluster4.run(lambda me: (me.rank, me.world_size, me.device.type, me.backend))
    assert list(run) == [(rank, 4, "cpu", "gloo") for rank in range(4)]
    assert list(cluster4.run(total, 1.0)) == [10.0] * 4


def test_closures_cell_classes_and_keywords_travel(cluster2):
    class Note:  # local, as a class in a cell is: no module to import it from
        def __init__(self, text):
            self.text = text

    prefix = "from the notebook"
    run = cluster2.run(lambda me, *, end: Note(f"{prefix} {me.rank}{end}"), end="!")
    assert [note.text for note in run] == ["from the notebook 0!", "from the notebook 1!"]
    assert all(isinstance(note, Note) for note in run), "the class comes back as the same class"


def test_text_is_caught_by_rank_and_shown_in_rank_order(cluster4, capfd):
    def speak(me):
        time.sleep(0.02 * (me.world_size - me.rank))  # the last rank speaks first
        print("one")
        os.write(1, b"from the file descriptor\n")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
        print("two", file=sys.stderr)

    run = cluster4.run(speak)
    assert run.text[2] == "one\nfrom the file descriptor\nfrom a child\ntwo\n"
    out, err = capfd.readouterr()
    assert [line[:6] for line in out.splitlines()] == [f"rank {rank}" for rank in range(4) for _ in range(4)]
    assert err == "", "a rank never writes to the terminal itself"
    assert cluster4.run(lambda me: None).text == {0: "", 1: "", 2: "", 3: ""}, "text belongs to its own call"


def test_show_false_keeps_the_text_and_prints_nothing(cluster2, capsys):
    run = cluster2.call(lambda me: print("quiet"), show=False)
    assert run.text[1] == "quiet\n"
    assert capsys.readouterr().out == ""


def test_endless_text_is_cut_in_the_middle(cluster2):
    run = cluster2.call(lambda me: print("x" * 1_000_000 + "end"), show=False)
    assert len(run.text[0]) < 300_000
    assert run.text[0].endswith("end\n")
    assert "bytes left out" in run.text[0]


def test_run_reads_well(cluster2):
    run = cluster2.call(lambda me: print("hi <b>") or {"loss": me.rank}, show=False)
    assert repr(run) == "Run on 2 ranks\n  rank 0: {'loss': 0}\n  rank 1: {'loss': 1}"
    assert "<td>1</td>" in run._repr_html_()
    assert "hi &lt;b&gt;" in run._repr_html_()
    assert run.time_s > 0
    assert (run.communication, run.memory, run.timeline) == (None, None, None)
    with pytest.raises(IndexError, match="no result of rank 2"):
        run[2]


def test_tensors_arrive_whole_and_share_what_they_shared(cluster2):
    base = torch.arange(10.0)
    sent = {
        "base": base,
        "view": base[2:5],
        "strided": base[::3],
        "half": base.bfloat16(),
        "none": torch.empty(0, 3),
    }

    def look(me, tensors, layer):
        tensors["base"][2] = 99
        return tensors, layer

    tensors, layer = cluster2.run(look, sent, torch.nn.Linear(3, 2))[1]
    assert base[2] == 2, "the notebook's own tensor is not touched"
    assert tensors["view"].tolist() == [99.0, 3.0, 4.0], "two views of one storage arrive as two views of one"
    assert tensors["strided"].stride() == (3,)
    assert tensors["half"].dtype == torch.bfloat16
    assert tensors["none"].shape == (0, 3)
    assert isinstance(layer.weight, torch.nn.Parameter)
    assert layer.weight.requires_grad
    tensors["base"][0] = 7.0  # what came back can be written to


def test_256_megabytes_travel_both_ways(cluster2):
    big = torch.arange(64 * 2**20, dtype=torch.float32)

    def back(me, tensor):
        tensor[0] = me.rank
        return tensor if me.rank else tensor.sum().item()

    run = cluster2.run(back, big)
    assert run[1].shape == big.shape
    assert run[1][0] == 1
    assert torch.equal(run[1][1:], big[1:])
    assert big[0] == 0


def test_numpy_arrays_arrive_writable(cluster2):
    array = cluster2.run(lambda me, a: a + me.rank, np.arange(50_000))[1]
    array[0] = 5
    assert array[:3].tolist() == [5, 2, 3]


def test_what_cannot_travel_is_named(cluster2):
    lock = threading.Lock()
    with pytest.raises(NotSendable, match=r"argument 'settings'\['lock'\] is a _thread.lock"):
        cluster2.run(lambda me, settings: None, {"size": 3, "lock": lock})
    with pytest.raises(NotSendable, match=r"variable 'lock' is a _thread.lock"):
        cluster2.run(lambda me: lock)
    with Cluster(2) as cluster, pytest.raises(RankFailed, match=r"result of rank 1\['rows'\] is a generator"):
        cluster.run(lambda me: {"rows": (i for i in range(3))} if me.rank else 0)
    assert list(cluster2.run(total, 0.0)) == [1.0, 1.0]


def test_only_functions_can_be_run(cluster2):
    with pytest.raises(TypeError, match="run takes a function first"):
        cluster2.run(42)


@pytest.mark.parametrize(
    ("given", "nearest"), [(0, 1), (-2, 1), (2.5, 2), ("4", 1), (True, 1), (None, 1), (float("nan"), 1)]
)
def test_world_size_must_be_a_whole_number_of_at_least_one(given, nearest):
    with pytest.raises(ValueError, match=rf"world_size=.* whole number of at least 1; use {nearest}"):
        Cluster(given)


@pytest.mark.parametrize("given", [0, -1, "soon", True])
def test_timeout_must_be_a_time(given):
    with pytest.raises(ValueError, match=r"timeout_s=.* seconds above 0"):
        Cluster(2, timeout_s=given)


def test_one_rank_is_a_cluster_too():
    with Cluster(1) as cluster:
        assert list(cluster.run(total, 5.0)) == [5.0]


def test_more_ranks_than_cores_run_and_say_so_once(monkeypatch):
    from course_lib.cluster.api import arguments

    monkeypatch.setattr(arguments, "_has_warned", False)
    many = os.cpu_count() + 1
    with pytest.warns(CrowdedWarning, match=f"{many} ranks share"), Cluster(many) as cluster:
        assert list(cluster.run(total, 0.0)) == [many * (many - 1) / 2] * many
    import warnings

    with warnings.catch_warnings(), Cluster(many):
        warnings.simplefilter("error")


def test_two_clusters_at_once_do_not_meet(cluster2, cluster4):
    answers = {}
    threads = [
        threading.Thread(target=lambda c=c: answers.update({c.world_size: list(c.run(total, 0.0))}))
        for c in (cluster2, cluster4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {2: [1.0] * 2, 4: [6.0] * 4}


def test_threads_of_the_notebook_take_turns_on_one_cluster(cluster2):
    answers = []
    threads = [threading.Thread(target=lambda i=i: answers.append(cluster2.run(total, i)[0])) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [2.0 * i + 1 for i in range(8)]


def test_renewed_ranks_hold_nothing_of_before():
    with Cluster(2) as cluster:
        cluster.push(kept=1)
        before = cluster.run(lambda me: os.getpid())
        cluster.renew()
        assert not cluster.has_variables
        assert not set(before) & set(cluster.run(lambda me: os.getpid()))


def test_a_closed_cluster_says_so():
    cluster = Cluster(2)
    cluster.close()
    cluster.close()
    assert "closed" in repr(cluster)
    with pytest.raises(RuntimeError, match="is closed; make a new one"):
        cluster.run(total, 1.0)


def test_a_rank_cannot_start_ranks(cluster2):
    def nest(me):
        try:
            Cluster(2)
        except RuntimeError as error:
            return str(error)

    assert "this is rank 1 of 2 on cpu (gloo), and a rank cannot start ranks of its own" in cluster2.run(nest)[1]


def test_ranks_see_the_folder_path_and_environment_of_the_call(cluster2, tmp_path, monkeypatch):
    (tmp_path / "beside_the_notebook.py").write_text("def name(me):\n    return f'own module {me.rank}'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SET_AFTER_START", "seen")
    import beside_the_notebook  # type: ignore[import-not-found]

    assert list(cluster2.run(beside_the_notebook.name)) == ["own module 0", "own module 1"]
    assert cluster2.run(lambda me: (os.environ["SET_AFTER_START"], os.getcwd()))[1] == ("seen", str(tmp_path))
    monkeypatch.delenv("SET_AFTER_START")
    assert cluster2.run(lambda me: "SET_AFTER_START" in os.environ)[0] is False


def test_an_edited_module_of_the_user_is_loaded_anew_by_warm_ranks(cluster2, tmp_path, monkeypatch):
    module = tmp_path / "edited_between_calls.py"
    module.write_text("def answer(me):\n    return 'first'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import edited_between_calls  # type: ignore[import-not-found]

    assert list(cluster2.run(edited_between_calls.answer)) == ["first"] * 2
    pids = list(cluster2.run(lambda me: os.getpid()))
    module.write_text("def answer(me):\n    return 'second version'\n")
    assert list(cluster2.run(edited_between_calls.answer)) == ["second version"] * 2
    assert list(cluster2.run(lambda me: os.getpid())) == pids, "the ranks stayed up"


def test_settings_reach_the_ranks():
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MINE", "TORCH_DISTRIBUTED_DEBUG")
    with Cluster(2, env={"MINE": 3}, debug=True, num_threads=2) as cluster:
        assert cluster.run(lambda me: [os.environ[name] for name in names])[1] == [
            "1", "1", "2", "127.0.0.1", "3", "DETAIL",
        ]  # fmt: skip
        assert list(cluster.run(lambda me: torch.get_num_threads())) == [2, 2]
    with Cluster(2) as cluster:
        assert list(cluster.run(lambda me: torch.get_num_threads())) == [1, 1]


def test_code_that_makes_the_process_group_itself():
    def script(me):
        import torch.distributed as dist

        dist.init_process_group("gloo")
        tensor = torch.tensor([dist.get_rank() + 1.0])
        dist.all_reduce(tensor)
        return tensor.item()

    with Cluster(2, process_group=False) as cluster:
        assert list(cluster.run(script)) == [3.0, 3.0]
        assert list(cluster.run(script)) == [3.0, 3.0], "a second call meets at a fresh store"

    def listeners(me, caller):
        import torch.distributed as dist

        dist.init_process_group("gloo")
        dist.barrier()  # one who returned now would leave while the other is still on its way to it
        both = [psutil.Process(), psutil.Process(caller)]
        found = [c for process in both for c in process.net_connections("inet")]
        return [c.laddr.ip for c in found if c.status == psutil.CONN_LISTEN]

    with Cluster(2, process_group=False) as cluster:
        addresses = {address for found in cluster.run(listeners, os.getpid()) for address in found}
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_sockets_of_ranks_listen_on_loopback_alone(cluster2):
    def listeners(me):
        return [c.laddr.ip for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN]

    assert {address for found in cluster2.run(listeners) for address in found} <= {"127.0.0.1", "::1"}


def test_init_process_group_in_a_ready_cluster_is_explained():
    def twice(me):
        import torch.distributed as dist

        dist.init_process_group("gloo")

    with Cluster(2) as cluster, pytest.raises(RankFailed, match="use Cluster\\(n, process_group=False\\)"):
        cluster.run(twice)


@pytest.mark.long
def test_ranks_may_use_data_loader_workers(cluster2):
    def load(me):
        from torch.utils.data import DataLoader

        return [batch.tolist() for batch in DataLoader(torch.arange(6), batch_size=3, num_workers=2)]

    assert list(cluster2.run(load)) == [[[0, 1, 2], [3, 4, 5]]] * 2


def test_shared_cluster_is_kept_and_remade_for_other_settings():
    first = shared_cluster(2)
    assert shared_cluster(2) is first
    other = shared_cluster(2, env={"OTHER": "1"})
    assert other is not first
    assert first.is_closed
    assert shared_cluster(2) is other
    other.close()
    assert not shared_cluster(2).is_closed
    shared_cluster(2).close()


@pytest.mark.long
def test_200_calls_leave_nothing_behind(cluster2):
    """Things are counted, and not bytes: what is resident falls and grows with what else the machine has to do."""

    def state(_rank):
        import gc

        process = psutil.Process()
        gc.collect()
        tensors = [thing for thing in gc.get_objects() if type(thing) is torch.Tensor]
        large = len([tensor for tensor in tensors if tensor.numel() == payload.numel()])
        mapped = len(process.memory_maps(grouped=False)) if sys.platform == "linux" else 0
        return (process.num_fds(), process.num_threads(), large), mapped, sys.getallocatedblocks()

    def measure():
        folders = list(cluster2._team.folder.iterdir())
        family = psutil.Process().children(recursive=True)
        return (len(family), len(folders)), [state(None), *cluster2.call(state, show=False)]

    def call(times):
        for _ in range(times):
            cluster2.call(lambda me, x: x + 1, (payload,), show=False)

    payload = torch.zeros(20_000)  # large enough to go through a file
    call(100)
    then_here, then = measure()
    call(200)
    now_here, now = measure()
    assert all(count <= before for count, before in zip(now_here, then_here, strict=True)), (
        then_here,
        now_here,
    )
    for (counts, mapped, blocks), (counts_then, mapped_then, blocks_then) in zip(now, then, strict=True):
        assert all(count <= before for count, before in zip(counts, counts_then, strict=True)), (then, now)
        assert mapped - mapped_then < 100, "a call keeps no file mapped"
        assert blocks - blocks_then < 3 * 200, "nor objects: Python's blocks of memory"


def test_a_cluster_that_is_forgotten_ends_its_ranks():
    cluster = Cluster(2)
    pids = list(cluster.run(lambda me: os.getpid()))
    folder = cluster._team.folder
    del cluster
    import gc

    gc.collect()
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not folder.exists()


@pytest.mark.long
@pytest.mark.parametrize("launches", [20, pytest.param(100, marks=pytest.mark.long)])
def test_launches_with_a_live_ddp_model_do_not_deadlock(launches):
    """Destroying a gloo group while a DDP object lives deadlocks now and then (pytorch #56297 and its kin)."""

    def train(me):
        import builtins

        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(torch.nn.Linear(4, 4))
        model(torch.ones(2, 4)).sum().backward()
        builtins.kept_alive = model  # the worst habit: it outlives the call
        return model.module.weight.grad.sum().item()

    for _ in range(launches):
        with Cluster(2) as cluster:
            assert len(set(cluster.run(train))) == 1


@pytest.mark.long
def test_a_plain_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "plain.py"
    script.write_text(
        textwrap.dedent(
            """
            from course_lib import Cluster

            def work(me):
                return me.rank * 10

            print("top of the script")
            cluster = Cluster(2)
            print(list(cluster.run(work)))
            """
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout == "top of the script\n[0, 10]\n", "the script ran once, and left without close()"
    assert done.stderr == ""


def test_cluster_runs_after_the_parent_used_many_threads(tmp_path):
    """Forking a process that has run a multi-threaded operation hangs; ranks come from the fork server instead."""
    torch.set_num_threads(2)
    _ = torch.randn(600, 600) @ torch.randn(600, 600)
    with Cluster(2, num_threads=2) as cluster:
        run = cluster.run(lambda me: (torch.ones(500, 500) @ torch.ones(500, 500))[0, 0].item())
        assert list(run) == [500.0, 500.0]


def test_private_folder_is_readable_by_its_owner_alone(cluster2):
    cluster2.run(total, 0.0)
    assert Path(cluster2._team.folder).stat().st_mode & 0o077 == 0
