"""What a function changes in its process and does not put back is put back, and said."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import numpy
import pytest
import torch
import torch.distributed as dist

from course_lib.cluster import Cluster, RankFailed

pytestmark = [
    pytest.mark.filterwarnings("ignore::course_lib.cluster.CrowdedWarning"),
    pytest.mark.limit_s(120.0),
]


@pytest.fixture(scope="module")
def ranks():
    with Cluster(2, timeout_s=20) as cluster:
        yield cluster


def state(me):
    """All that the functions below change, as a later call finds it."""
    modules = torch.nn.modules.module
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        str(torch.get_default_dtype()),
        str(torch.get_default_device()),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_float32_matmul_precision(),
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._autograd._top_saved_tensors_default_hooks(True) is None,
        len(modules._global_forward_hooks),
        dist.all_reduce.__name__,
        str(torch.tensor(1 / 3)),
        sorted(os.environ.items()),
        os.getcwd(),
        tuple(sys.path),
        sys.getrecursionlimit(),
        signal.getitimer(signal.ITIMER_REAL)[0],
    )


class _Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def _patch():
    dist.all_reduce = lambda *_, **__: None


def _environment():
    os.environ["PLANTED"] = "1"
    del os.environ["WORLD_SIZE"]


CHANGES = {
    "gradients switched off": lambda: torch.set_grad_enabled(False),
    "the default dtype at torch.float64": lambda: torch.set_default_dtype(torch.float64),
    "the default device at meta": lambda: torch.set_default_device("meta"),
    "the number of threads at 2": lambda: torch.set_num_threads(2),
    "deterministic algorithms on": lambda: torch.use_deterministic_algorithms(True),
    "anomaly detection on": lambda: torch.autograd.set_detect_anomaly(True),
    "autocast on": lambda: torch.set_autocast_enabled("cpu", True),
    "the precision of matrix products at medium": lambda: torch.set_float32_matmul_precision("medium"),
    "a function mode on": lambda: _Mode().__enter__(),
    "hooks on saved tensors": lambda: torch.autograd.graph.save_on_cpu().__enter__(),
    "_global_forward_hooks replaced by its own": lambda: torch.nn.modules.module.register_module_forward_hook(
        lambda *_: None
    ),
    "torch.distributed.all_reduce replaced by its own": _patch,
    "the environment changed (os.environ)": _environment,
    "the working folder at '/'": lambda: os.chdir("/"),
    "sys.path changed": lambda: sys.path.insert(0, "/planted"),
    "an alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 60),
}


@pytest.mark.parametrize("sentence", CHANGES)
def test_a_change_is_said_and_put_back_on_the_same_ranks(ranks, sentence):
    before, pids = list(ranks.run(state)), list(ranks.run(lambda me: os.getpid()))
    change = CHANGES[sentence]
    run = ranks.call(lambda me: change() and None if me.rank else None, show=False)
    assert run.leaks == (f"rank 1 left {sentence}",)
    assert list(ranks.run(state)) == before
    assert list(ranks.run(lambda me: os.getpid())) == pids


def test_a_change_by_all_ranks_is_said_once_and_printed(ranks, capsys):
    ranks.run(lambda me: torch.set_grad_enabled(False) and None)
    assert "Left over from this call:\n  ranks 0, 1 left gradients switched off\n" in capsys.readouterr().out


def test_a_change_before_an_error_is_put_back_too(ranks):
    def fail(me):
        torch.set_grad_enabled(False)
        raise ValueError("slip")

    with pytest.raises(RankFailed):
        ranks.run(fail)
    assert ranks.run(state)[0][0] is True


def test_what_cannot_be_put_back_costs_the_ranks(ranks):
    pids = list(ranks.run(lambda me: os.getpid()))

    def enter(me):
        import builtins

        builtins.kept = torch.inference_mode()
        builtins.kept.__enter__()

    run = ranks.run(enter)
    assert "ranks 0, 1 left inference mode on" in run.leaks
    assert ranks.run(state)[0][1] is False
    assert not set(pids) & set(ranks.run(lambda me: os.getpid()))


def draws(me):
    return random.random(), float(numpy.random.rand()), float(numpy.random.randn()), torch.rand(1).item()


def test_random_numbers_begin_anew_in_each_run_and_nothing_is_said(ranks):
    first = ranks.run(draws)
    again = ranks.run(draws)
    assert list(first) == list(again)
    assert (first.leaks, again.leaks) == ((), ())
    ranks.run(lambda me: [seed(1) and None for seed in (torch.manual_seed, numpy.random.seed, random.seed)])
    assert list(ranks.run(draws)) == list(first)


def test_a_seed_inside_the_function_gives_what_it_always_gave(ranks):
    def seeded(me):
        torch.manual_seed(7)
        return torch.rand(2).tolist()

    expected = torch.rand(2, generator=torch.Generator().manual_seed(7)).tolist()
    assert list(ranks.run(seeded)) == list(ranks.run(seeded)) == [expected] * 2


def test_cells_keep_what_they_set_and_runs_do_not_see_it():
    with Cluster(2, timeout_s=20) as cluster:
        plain = list(cluster.run(state))
        cluster.cell("torch.set_default_dtype(torch.float64); torch.manual_seed(3); a = torch.rand(1)", show=False)
        assert list(cluster.run(state)) == plain
        run = cluster.cell("str(torch.rand(1).dtype), torch.rand(1).item()", show=False)
        assert run.leaks == ()
        generator = torch.Generator().manual_seed(3)
        numbers = [torch.rand(1, generator=generator, dtype=torch.float64).item() for _ in range(3)]
        assert run[0] == repr(("torch.float64", numbers[2]))
        cluster.cell("torch.set_default_dtype(torch.float32)", show=False)


def test_a_new_environment_of_the_notebook_is_no_change_of_the_function(ranks, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_NOTEBOOK", "1")
    run = ranks.run(lambda me: (os.environ["OF_THE_NOTEBOOK"], os.getcwd()))
    assert (run[0], run.leaks) == (("1", str(tmp_path)), ())
    assert ranks.run(lambda me: os.environ["OF_THE_NOTEBOOK"])[1] == "1"


def test_a_store_for_env_leaves_no_variable():
    def script(me):
        dist.init_process_group("gloo")
        dist.barrier()

    with Cluster(2, process_group=False, timeout_s=20) as cluster:
        assert cluster.run(script).leaks == ()
        assert cluster.run(script).leaks == ()


def test_what_cannot_be_put_back_costs_the_variables_of_cells_too():
    with Cluster(2, timeout_s=20) as cluster:
        cluster.cell("kept = 1", show=False)

        def enter(me):
            import builtins

            builtins.kept = torch.inference_mode()
            builtins.kept.__enter__()

        run = cluster.run(enter)
        assert "variables of your %%ranks cells with them" in run.leaks[-1]
        assert cluster.run(state)[0][1] is False


@pytest.mark.long
def test_what_torch_changes_when_a_part_of_it_is_loaded_late_is_nobodys_fault():
    code = (
        "import torch, torch.utils._device\n"
        "from course_lib.cluster.state.process_state import ProcessState; s = ProcessState()\n"
        "plain = torch.manual_seed\n"
        "import torch._dynamo\n"
        "assert torch.manual_seed is not plain, 'else this test shows nothing'\n"
        "print(s.tidy()); torch.manual_seed = print; print(s.tidy())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert run.stdout == "()\n('left torch.manual_seed replaced by its own',)\n", run.stderr
