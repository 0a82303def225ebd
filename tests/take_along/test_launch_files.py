"""The files that start a program on a cluster: read by bash, torchrun's parser and a schema, and run dry."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml  # jupyterlab brings it
from torch.distributed.run import get_args_parser
from waiting import all_ended

from course_lib.nodes.ports import free_port
from course_lib.take_along import (
    dry_run,
    dry_run_limit,
    dry_run_sbatch,
    dry_run_ssh,
    launch_file,
    read_sbatch,
)
from course_lib.take_along.stand_ins import write_stand_ins

SBATCH, SSH = (launch_file(name).read_text() for name in ("slurm.sbatch", "ssh.sh"))
PROGRAM = ["-m", "train_ddp", "--out", "two words"]
SCHEMA = json.loads(Path(__file__).with_name("trainjob.schema.json").read_text())
TRAINJOB = yaml.safe_load(launch_file("trainjob.yaml").read_text())

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

_LIMIT_S = 240  # against hangs alone; a loaded machine takes its time


@pytest.mark.parametrize("name", ["slurm.sbatch", "ssh.sh"])
def test_bash_can_read_it(name):
    subprocess.run(["bash", "-n", str(launch_file(name))], check=True)


def test_there_is_no_other_file():
    with pytest.raises(ValueError, match=r"'slurm\.sh' is none of the launch files: slurm\.sbatch, ssh\.sh, train"):
        launch_file("slurm.sh")


# -- Slurm -----------------------------------------------------------------------------------------------------------


def test_slurm_starts_one_torchrun_a_node():
    found = dry_run_sbatch(SBATCH, PROGRAM)
    assert (found.exit_code, found.text) == (0, "")
    assert [agent.host for agent in found.agents] == ["node1", "node2"]
    assert found.num_ranks == 16
    for number, agent in enumerate(found.agents):
        read = agent.read
        assert (read.nnodes, read.nproc_per_node, read.max_restarts) == ("2", "8", 3)
        assert (read.rdzv_backend, read.rdzv_endpoint, read.rdzv_id) == ("c10d", "node1:24711", "4711.0")
        assert read.rdzv_conf == f"is_host={1 - number}"
        assert (read.local_addr, read.numa_binding) == (agent.host, "node")
        assert (read.module, read.training_script) == (True, "train_ddp")
        assert read.training_script_args == ["--out", "two words"]
        assert agent.environment["OMP_NUM_THREADS"] == "12"
        assert agent.environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
        assert agent.environment["NCCL_DEBUG"] == "WARN"
    assert str(found).startswith("node1: torchrun --nnodes 2 --nproc-per-node 8")


def test_a_task_for_each_gpu_as_well_starts_all_of_them_eight_times():
    found = dry_run_sbatch(SBATCH.replace("ntasks-per-node=1", "ntasks-per-node=8"), PROGRAM)
    assert len(found.agents) == 16
    assert found.num_ranks == 128
    assert [agent.host for agent in found.agents].count("node1") == 8
    assert sum(agent.read.rdzv_conf == "is_host=1" for agent in found.agents) == 1


def test_few_cores_are_one_thread_a_rank():
    found = dry_run_sbatch(SBATCH.replace("cpus-per-task=96", "cpus-per-task=2"), PROGRAM)
    assert found.agents[0].environment["OMP_NUM_THREADS"] == "1"


def test_a_flag_that_torchrun_does_not_know_is_told():
    found = dry_run_sbatch(SBATCH.replace("--max-restarts", "--most-restarts"), PROGRAM)
    with pytest.raises(ValueError, match=r"torchrun refuses --nnodes 2 .*: unrecognized arguments: --most-restarts$"):
        _ = found.num_ranks


SAVED = "every process of the step got SIGTERM: ranks save, and leave"
TO_SRUN = SBATCH.replace('scancel --signal=TERM "$SLURM_JOB_ID"', 'kill -TERM "$step"')


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGUSR1")
@pytest.mark.parametrize(
    ("script", "seen"),
    [
        (SBATCH, (SAVED, "the script ends with exit code 143", "the job waits in line again")),
        (
            TO_SRUN,
            (
                "srun got SIGTERM: it kills its step at once",
                "the script ends with exit code 137",
                "the job waits in line again",
            ),
        ),
        (
            SBATCH.replace("    scontrol requeue", "    true"),
            (SAVED, "the script ends with exit code 143", "the job is over"),
        ),
    ],
    ids=["as it is", "to srun", "without a requeue"],
)
def test_what_a_script_does_when_its_time_is_nearly_up(script, seen):
    assert dry_run_limit(script) == seen


WRONG = {
    'scancel "$SLURM_JOB_ID"': ("scancel without a signal has ended the job", "the job is over"),
    'scancel -s USR1 "$SLURM_JOB_ID"': (
        "every process of the step got SIGUSR1: the ranks know nothing",
        "again",
    ),
    "scancel --signal=TERM": ("scancel: [] is not this job", "the job is over"),
    'kill -USR1 "$step"': ("srun hands SIGUSR1 on", "again"),
    'kill -9 "$step"': ("srun ended without a signal to the ranks", "again"),
    "kill -TERM 0": ("srun got SIGTERM", "the job is over"),  # its own processes, and not these tests
    "exit 0": ("the script has ended, and Slurm ends what it has started", "the job is over"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGUSR1")
@pytest.mark.parametrize("line", WRONG)
def test_another_line_in_its_place_is_told_what_becomes_of_it(line):
    text = "\n".join(dry_run_limit(SBATCH.replace('scancel --signal=TERM "$SLURM_JOB_ID"', line)))
    said, end = WRONG[line]
    assert said in text
    assert text.endswith(end)
    assert "/tmp" not in text


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGUSR1")
@pytest.mark.parametrize("words", ["--signal=SIGTERM", "--signal TERM", "-s 15", "--signal=TERM --full"])
def test_any_way_to_say_sigterm_will_do(words):
    line = f'scancel {words} "$SLURM_JOB_ID"'
    assert dry_run_limit(SBATCH.replace('scancel --signal=TERM "$SLURM_JOB_ID"', line))[0] == SAVED


def test_a_script_that_calls_no_srun_and_one_that_never_ends(monkeypatch):
    assert dry_run_limit("#!/bin/bash\necho hello\n")[:2] == ("hello", "srun was not called: nothing runs")
    monkeypatch.setattr(dry_run, "_LIMIT_S", 1)
    with pytest.raises(RuntimeError, match="the script has not ended within 1 s"):
        dry_run_limit("#!/bin/bash\nsleep 300\n")


@pytest.mark.parametrize(
    ("words", "change", "said"),
    [
        ([], {}, "Say what to start: sbatch slurm.sbatch"),
        (["x.py"], {}, "SLURM_JOB_NODELIST: is not set: hand this file to Slurm"),
        (["x.py"], {"SLURM_JOB_NODELIST": "a", "SLURM_JOB_ID": "1"}, "The job has no GPUs: ask for some"),
        (["x.py"], {"SLURM_JOB_NODELIST": "a", "SLURM_JOB_ID": "1"}, "sbatch --gpus-per-node=0"),
        (
            ["x.py"],
            {"SLURM_JOB_NODELIST": "a", "SLURM_JOB_ID": "1", "RANKS_PER_NODE": "2"},
            "SLURM_CPUS_PER_TASK: is not set: --cpus-per-task is missing",
        ),
    ],
)
def test_the_slurm_script_says_what_it_misses(tmp_path, words, change, said):
    write_stand_ins(tmp_path)
    done = subprocess.run(
        ["bash", str(launch_file("slurm.sbatch")), *words], env={"PATH": f"{tmp_path}:{os.defpath}", **change},
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("gpus", "given", "numa"),
    [("8", {}, "node"), ("0", {}, None), ("8", {"NUMA": ""}, None), ("0", {"NUMA": "socket"}, "socket")],
)
def test_only_a_job_with_gpus_ties_ranks_to_the_cores_beside_them(monkeypatch, gpus, given, numa):
    """A cluster without GPUs is asked for none, and for ranks by their number; the head of the file says so."""
    assert "Invalid generic resource (gres) specification" in SBATCH.partition("#SBATCH")[0]
    assert "RANKS_PER_NODE=4 sbatch --gpus-per-node=0 --cpus-per-task=4" in SBATCH.partition("#SBATCH")[0]
    settings = "".join(f"export {name}={value}\n" for name, value in {"RANKS_PER_NODE": "4", **given}.items())
    asked = SBATCH.replace("--gpus-per-node=8", f"--gpus-per-node={gpus}")
    found = dry_run_sbatch(asked.replace("set -euo pipefail", f"set -euo pipefail\n{settings}", 1), PROGRAM)
    assert [agent.num_ranks for agent in found.agents] == [4, 4]
    assert {agent.read.numa_binding for agent in found.agents} == {numa}


def test_a_script_without_its_options_is_no_job():
    assert read_sbatch(SBATCH) == {
        "job-name": "train",
        "nodes": "2",
        "ntasks-per-node": "1",
        "gpus-per-node": "8",
        "cpus-per-task": "96",
        "mem": "0",
        "exclusive": "",
        "time": "24:00:00",
        "signal": "B:USR1@300",
        "requeue": "",
        "open-mode": "append",
        "output": "%x-%j.log",
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "--nodes=2",
            "--node=2",
            r"line \d+: --node is not one of sbatch's options .*; the nearest is --nodes$",
        ),
        ("--nodes=2", "--nodes=two", r"--nodes was given 'two'"),
        ("--nodes=2", "--nodes=", r"--nodes was given ''"),
        ("--requeue", "--requeue=yes", r"--requeue was given 'yes'; a value of it takes no value"),
        ("--time=24:00:00", "--time=24h", r"--time was given '24h'"),
        ("--nodes=2", "-N2", r"'-N2' is no long option; write --name=value"),
        ("#SBATCH --nodes=2", "#SBATCH", r"has no option, such as --nodes=2"),
        ("#SBATCH --nodes=2", "echo hello\n#SBATCH --nodes=2", r"stands after line \d+, a command"),
        ("#!/bin/bash\n", "\n", r"first line begins with '#!'"),
    ],
)
def test_a_line_that_sbatch_would_refuse_or_pass_over_is_told(old, new, said):
    assert old in SBATCH
    with pytest.raises(ValueError, match=said):
        read_sbatch(SBATCH.replace(old, new, 1))


# -- ssh -------------------------------------------------------------------------------------------------------------


def test_ssh_starts_one_torchrun_a_host():
    found = dry_run_ssh(SSH, ["first", "second", "third"], 4, PROGRAM)
    assert found.exit_code == 0
    assert [agent.host for agent in found.agents] == ["first", "second", "third"]
    for number, agent in enumerate(found.agents):
        read = agent.read
        assert (read.nnodes, read.nproc_per_node, read.max_restarts) == ("3", "4", 3)
        assert (read.rdzv_backend, read.rdzv_endpoint) == ("c10d", "first:29400")
        assert read.rdzv_conf == f"is_host={int(number == 0)}"
        assert read.local_addr == agent.host
        assert read.training_script_args == ["--out", "two words"]
        assert agent.environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
        assert agent.environment["NCCL_DEBUG"] == "WARN"
    assert len({agent.read.rdzv_id for agent in found.agents}) == 1


def test_ssh_without_a_program_says_how_to_call_it():
    found = dry_run_ssh(SSH, ["first"], 4, [])
    assert found.exit_code == 2
    assert "usage: ./ssh.sh" in found.text
    assert str(found) == "no torchrun would start"


def test_hosts_are_a_list_and_ranks_a_number():
    with pytest.raises(ValueError, match=r"hosts=\[\] must name at least one host"):
        dry_run_ssh(SSH, [], 1, PROGRAM)
    with pytest.raises(ValueError, match="hosts='ant' does not work"):
        dry_run_ssh(SSH, "ant", 1, PROGRAM)
    with pytest.raises(ValueError, match="ranks=0 must be at least 1"):
        dry_run_ssh(SSH, ["ant"], 0, PROGRAM)
    with pytest.raises(ValueError, match="script=None"):
        dry_run_sbatch(None, PROGRAM)


def stand_in_ssh(folder: Path, torchrun: str) -> dict[str, str]:
    """An ssh that runs the command here, and a torchrun; what the script needs in its environment."""
    write_stand_ins(folder, ("ssh",))
    (folder / "torchrun").write_text(torchrun)
    (folder / "torchrun").chmod(0o755)
    return {"PATH": f"{folder}:{os.defpath}", "HOME": str(folder)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["", "2", "x.py"], "names no host"),
        (["  ", "2", "x.py"], "names no host"),
        (["a,b", "2", "x.py"], 'a blank, no comma: "a b"'),
        (["a b", "-m", "train"], "Ranks on each host were '-m'"),
        (["a b", "0", "x.py"], "Ranks on each host were '0'"),
        (["a b", "two", "x.py"], "a number, such as 8"),
    ],
)
def test_words_that_ssh_cannot_take_are_told(tmp_path, words, said):
    done = subprocess.run(
        [str(launch_file("ssh.sh")), *words], env=stand_in_ssh(tmp_path, ""), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "usage: ./ssh.sh" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_ranks_of_an_agent_that_was_killed_are_killed(tmp_path):
    torchrun = "#!/bin/bash\nsetsid sleep 300 & echo $! >rank; kill -9 $$\n"
    environment = stand_in_ssh(tmp_path, torchrun)
    done = subprocess.run(
        [str(launch_file("ssh.sh")), "here", "1", "x.py"], env=environment, cwd=tmp_path, check=False,
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, timeout=_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert "here has failed, exit code 137" in done.stderr
    assert all_ended([int((tmp_path / "rank").read_text())]), "the rank lives on"


def test_ssh_ends_all_when_one_host_fails(tmp_path):
    torchrun = "#!/bin/bash\n[[ $STAND_IN_HOST == bad ]] && exit 3\nexec sleep 900\n"
    environment = stand_in_ssh(tmp_path, torchrun)
    done = subprocess.run(
        [str(launch_file("ssh.sh")), "good bad", "1", "x.py"], env=environment, cwd=tmp_path, check=False,
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, timeout=_LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 1
    assert "bad has failed, exit code 3" in done.stderr
    assert "The others are ended." in done.stderr


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.limit_s(300)
def test_ssh_starts_two_agents_that_meet(tmp_path):
    """For real: two agents of one rank, each on a loopback address of its own."""
    if sys.platform != "linux":
        pytest.skip("127.0.0.2 is there on Linux alone")
    environment = stand_in_ssh(tmp_path, f'#!/bin/bash\nexec {sys.executable} -m torch.distributed.run "$@"\n')
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "RES_OPTIONS": "timeout:1 attempts:1", "OMP_NUM_THREADS": "1"}
    environment |= {"PORT": str(free_port()), "FOLDER": str(tmp_path)}
    (tmp_path / "meet.py").write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "one = torch.ones(1)\n"
        "dist.all_reduce(one)\n"
        "place = [os.environ[name] for name in ('RANK', 'LOCAL_RANK', 'GROUP_RANK', 'WORLD_SIZE')]\n"
        "words = ['met', *place, int(one), sys.argv[1:]]\n"
        "os.write(1, (' '.join(map(str, words)) + '\\n').encode())  # one write: lines of two hosts stay whole\n"
        "dist.destroy_process_group()\n"
    )
    done = subprocess.run(
        [str(launch_file("ssh.sh")), "127.0.0.1 127.0.0.2", "1", "meet.py", "two words"], env=environment,
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    met = sorted(line for line in done.stdout.splitlines() if line.startswith("met"))
    assert met == ["met 0 0 0 2 2 ['two words']", "met 1 0 1 2 2 ['two words']"]


# -- Kubernetes ------------------------------------------------------------------------------------------------------


def test_the_trainjob_is_one():
    jsonschema.validate(TRAINJOB, SCHEMA)


def test_torchrun_finds_in_the_environment_what_trainer_puts_there(monkeypatch):
    trainer = TRAINJOB["spec"]["trainer"]
    assert trainer["command"] == ["torchrun"]
    names = {"NNODES": "2", "NPROC_PER_NODE": "8", "NODE_RANK": "1", "MASTER_ADDR": "train-node-0-0.train"}
    for name, value in (names | {"MASTER_PORT": "29400"}).items():
        monkeypatch.setenv(f"PET_{name}", value)
    read = get_args_parser().parse_args(trainer["args"])
    assert (read.nnodes, read.nproc_per_node, read.node_rank) == ("2", "8", 1)
    assert (read.master_addr, read.master_port) == ("train-node-0-0.train", 29400)
    assert (read.module, read.training_script) == (True, "train_ddp")
    assert trainer["numNodes"] == 2
    assert trainer["numProcPerNode"] == trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == 8


@pytest.mark.parametrize(
    "change",
    [
        lambda job: job.update(apiVersion="kubeflow.org/v1"),
        lambda job: job["spec"].pop("runtimeRef"),
        lambda job: job["spec"]["trainer"].update(numNodes="2"),
        lambda job: job["spec"]["trainer"].update(nodes=2),
        lambda job: job["spec"]["trainer"]["env"].append({"name": "OMP_NUM_THREADS", "value": 8}),
        lambda job: job["spec"]["runtimePatches"][0].pop("manager"),
        lambda job: job["metadata"].update(name="Train"),
    ],
)
def test_the_schema_refuses_what_the_cluster_would(change):
    job = copy.deepcopy(TRAINJOB)
    change(job)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(job, SCHEMA)


def test_every_volume_that_is_mounted_is_there():
    job = TRAINJOB["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    pod = job["template"]["spec"]["template"]["spec"]
    mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", ["slurm.sbatch", "ssh.sh", "trainjob.yaml"])
def test_no_file_holds_a_secret(name):
    text = launch_file(name).read_text().lower()
    assert not [word for word in ("token=", "password=", "api_key", "secretkey:") if word in text]
