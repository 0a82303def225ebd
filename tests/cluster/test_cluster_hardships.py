"""What functions and machines do to ranks without meaning harm; the next call must find everything in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest
import torch
from waiting import all_ended, is_running, wait_until

from course_lib.cluster import Cluster, NotSendable, RankFailed

pytestmark = pytest.mark.limit_s(120.0)


@pytest.fixture
def cluster():
    with Cluster(2, timeout_s=20) as cluster:
        yield cluster


def pid(me):
    return os.getpid()


def meet(me):
    import torch.distributed as dist

    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    print("met")
    return tensor.item()


def all_is_well(cluster) -> bool:
    run = cluster.run(meet)
    return list(run) == [2.0, 2.0] and run.text == {0: "met\n", 1: "met\n"}


# -- what a function leaves behind ------------------------------------------------------------------------------


def test_a_fork_that_comes_back_does_not_answer_for_its_rank(cluster):
    def fork(me):
        return os.fork() and "the rank"

    assert list(cluster.run(fork)) == ["the rank", "the rank"]
    assert all_is_well(cluster)


def _set_to_none(me):
    sys.stdout = sys.stderr = None


def _replace(me):
    class Sink:
        def write(self, text):
            pass

    sys.stdout = Sink()


def _close_the_stream(me):
    sys.stdout.close()


def _close_the_descriptors(me):
    os.close(1)
    os.close(2)


def _give_the_descriptor_to_a_file(me):
    os.close(1)
    me_too = os.open(os.devnull, os.O_WRONLY)
    assert me_too == 1


@pytest.mark.parametrize(
    "function",
    [_set_to_none, _replace, _close_the_stream, _close_the_descriptors, _give_the_descriptor_to_a_file],
)
def test_text_is_caught_again_whatever_a_function_did_to_its_streams(cluster, function):
    before = list(cluster.run(pid))
    assert list(cluster.run(function)) == [None, None]
    assert all_is_well(cluster)
    assert list(cluster.run(pid)) == before


@pytest.mark.parametrize("who", [{0, 1}, {0}])
def test_a_function_may_destroy_the_process_group_as_scripts_do_at_their_end(cluster, who):
    def end(me, who):
        import torch.distributed as dist

        if me.rank in who:
            dist.destroy_process_group()
        return "done"

    assert list(cluster.run(end, who)) == ["done", "done"]
    assert all_is_well(cluster)


def test_variables_of_cells_outlive_a_destroyed_process_group(cluster):
    cluster.cell("x = rank + 10")
    cluster.cell("dist.destroy_process_group()")
    assert all_is_well(cluster)
    assert list(cluster.cell("x")) == ["10", "11"]


def _child(me):
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL).pid


def test_children_of_a_rank_end_when_the_cluster_is_closed(cluster):
    children = list(cluster.run(_child))
    assert all(map(is_running, children))
    cluster.close()
    assert all_ended(children)


def test_children_of_a_rank_that_died_end_too(cluster):
    children = list(cluster.run(_child))
    with pytest.raises(RankFailed, match="exit code 3"):
        cluster.run(lambda me: os._exit(3))
    assert all_ended(children)


def test_a_result_that_cannot_be_made_again_is_named_and_costs_no_ranks(cluster):
    class OnlyThere:
        def __reduce__(self):
            return int, ("no number",)

    before = list(cluster.run(pid))
    with pytest.raises(NotSendable, match=r"result of rank [01] arrived, but .*ValueError: invalid literal"):
        cluster.run(lambda me: OnlyThere())
    assert list(cluster.run(pid)) == before


def test_a_deadline_of_years_is_a_deadline(cluster):
    assert list(cluster.call(meet, timeout_s=1e9)) == [2.0, 2.0]


# -- what a machine does ----------------------------------------------------------------------------------------

_SCRIPT = """
    import os, random, sys, tempfile
    import torch, torch.distributed as dist
    from course_lib import Cluster

    sys.path.insert(0, os.getcwd())  # as in a notebook, and after the imports that a kernel has made

    def meet(me):
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        return tensor.item(), random.__file__ == place

    place = random.__file__
    cluster = Cluster(2)
    print(list(cluster.run(meet)), sys.path[0] == os.getcwd(), os.environ.get("PYTHONSAFEPATH"))
"""


def _run_script(tmp_path, folder, **env) -> str:
    """Run the script in ``folder``; it lies elsewhere, so that Python itself does not look for modules there."""
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(textwrap.dedent(_SCRIPT))
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    ended = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**settings, **env},
        capture_output=True,
        text=True,
        timeout=200,
    )
    return ended.stdout or ended.stderr


@pytest.mark.long
def test_modules_beside_the_notebook_may_be_named_like_the_librarys(tmp_path):
    for name in ("random", "queue", "selectors"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    assert _run_script(tmp_path, tmp_path) == "[(2.0, True), (2.0, True)] True None\n"


@pytest.mark.long
def test_a_temporary_folder_with_a_long_path_will_do(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    assert _run_script(tmp_path, tmp_path, TMPDIR=str(folder)) == "[(2.0, True), (2.0, True)] True None\n"
    assert not list(folder.glob("pymp-*"))


@pytest.mark.long
def test_a_cleaner_of_temporary_folders_costs_the_ranks_and_no_call(tmp_path):
    body = """
        import os, shutil
        from course_lib import Cluster
        old = Cluster(2)
        for _ in range(3):
            print([list(cluster.run(lambda me: me.rank)) for cluster in (old, Cluster(2))])
            for folder in os.scandir(os.environ["TMPDIR"]):
                shutil.rmtree(folder)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ended.stdout == "[[0, 1], [0, 1]]\n" * 3, ended.stderr


@pytest.mark.long
def test_a_program_ends_though_a_temporary_folder_was_made_before_the_course_came_in():
    body = """
        import tempfile
        folder = tempfile.TemporaryDirectory()
        from course_lib import Cluster
        cluster = Cluster(2)
        print(list(cluster.run(lambda me: me.rank)))
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(body)], capture_output=True, text=True, timeout=100)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("[0, 1]\n", "", 0)


@pytest.mark.long
def test_a_stopped_rank_does_not_outlive_a_parent_that_is_killed():
    body = textwrap.dedent("""
        import os, time
        from course_lib import Cluster
        cluster = Cluster(2)
        print(*cluster.run(lambda me: os.getpid()), flush=True)
        time.sleep(60)
    """)
    with subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE, text=True) as process:
        ranks = [int(word) for word in process.stdout.readline().split()]
        os.kill(ranks[1], signal.SIGSTOP)
        wait_until(lambda: psutil.Process(ranks[1]).status() == psutil.STATUS_STOPPED, "the rank is stopped")
        process.kill()
        process.wait(60)
    try:
        assert len(ranks) == 2
        assert all_ended(ranks)
    finally:
        for number in filter(is_running, ranks):
            os.kill(number, signal.SIGKILL)
