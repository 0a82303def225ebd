"""Nodes without a launch: command lines, sentences for what cannot be, events and causes from made-up records."""

from __future__ import annotations

import itertools
import pickle
import re
import socket
from pathlib import Path

import pytest

from course_lib.cluster.base.failure import describe
from course_lib.layouts.link import Link
from course_lib.nodes import Nodes, arguments, events, failures, link_bytes, ports, records, reports
from course_lib.nodes.command import AgentCommand
from course_lib.nodes.launch import path_of
from course_lib.nodes.outcome import JobOutcome
from course_lib.nodes.records import AttemptStart
from course_lib.nodes.supervisor import namespaces
from course_lib.nodes.supervisor.capabilities import Capabilities, find_capabilities
from course_lib.nodes.supervisor.counters import read_counts

LOOPBACK = Capabilities(False, reason="loopback was asked for")
SHAPED = Capabilities(True, has_netem=True, has_tbf=True)


def plan(folder: Path = Path("/nowhere"), capabilities: Capabilities = LOOPBACK, **changes) -> AgentCommand:
    settings = {
        "num_nodes": 2, "min_nodes": 2, "ranks_per_node": 2, "max_restarts": 0, "port": 4321, "name": "job0",
        "program": ("train.py", "--steps", "4"), "env": {}, "rendezvous_s": 30.0,
    }  # fmt: skip
    return AgentCommand(capabilities=capabilities, folder=folder, **{**settings, **changes})


# -- the port ---------------------------------------------------------------------------------------------------------


def test_agents_meet_at_a_port_that_the_system_gives_to_nobody():
    # Given by the system: 32768 to 60999 on Linux, 49152 to 65535 on macOS.
    found = {ports.free_port() for _ in range(20)}
    assert len(found) > 1
    assert all(10_000 <= port < 30_000 for port in found)


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch):
    first = ports.free_port()
    with socket.create_server(("", first)):
        monkeypatch.setattr(ports._dice, "sample", lambda *_: [first, first + 1, first + 2])
        assert ports.free_port() in (first + 1, first + 2)
        monkeypatch.setattr(ports._dice, "sample", lambda *_: [first])
        with pytest.raises(OSError, match="from 10000 to 29999 are all taken"):
            ports.free_port()


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command_is_torchruns_own_and_torchrun_reads_it():
    from torch.distributed.run import parse_args

    first, second = (parse_args(plan().argv(node)[3:]) for node in (0, 1))
    assert (first.nnodes, first.nproc_per_node, first.max_restarts) == ("2", "2", 0)
    assert first.rdzv_endpoint == second.rdzv_endpoint == "127.0.0.1:4321"
    assert (first.local_addr, second.local_addr) == ("127.0.0.1", "127.0.0.2")
    assert "is_host=true" in first.rdzv_conf
    assert "is_host=false" in second.rdzv_conf
    assert first.module
    assert first.training_script == "course_lib.nodes.launch"
    assert first.training_script_args == ["/nowhere", "train.py", "--steps", "4"]


def test_fewer_nodes_than_all_become_a_range_and_a_store_apart_is_nobodys():
    words = plan(min_nodes=1, host=-1, capabilities=SHAPED)
    assert "--nnodes=1:2" in words.options(0)
    assert "--rdzv-endpoint=10.77.0.100:4321" in words.options(1)
    assert not any("is_host=true" in option for node in (0, 1) for option in words.options(node))
    assert words.argv(-1)[2:] == ["course_lib.nodes.rendezvous_server", "10.77.0.100", "4321"]


def test_the_command_to_type_names_the_program_and_not_what_stands_around_it():
    text = plan().in_words(1)
    assert text.startswith("torchrun --nnodes=2 --nproc-per-node=2 ")
    assert text.endswith(" train.py --steps 4")
    assert "course_lib" not in text
    assert "--log-dir" not in text


def test_addresses_sort_as_the_nodes_do():
    for capabilities in (LOOPBACK, SHAPED):
        addresses = [capabilities.address(node) for node in range(arguments.MOST_NODES)]
        assert addresses == sorted(addresses)
        assert len(set(addresses)) == len(addresses)


def test_the_environment_is_for_one_network_and_for_no_other_job(monkeypatch):
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    env = plan(capabilities=SHAPED, env={"STEPS": "4"}).environment(1)
    assert env["GLOO_SOCKET_IFNAME"] == env["COURSE_LINK"] == "eth0"
    assert (env["COURSE_NODE"], env["OMP_NUM_THREADS"], env["STEPS"]) == ("1", "1", "4")
    assert not {"RANK", "TORCHELASTIC_RUN_ID"} & env.keys()
    assert plan().environment(0)["COURSE_LINK"] == ""
    assert plan(env={"OMP_NUM_THREADS": "2"}).environment(0)["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    ("latency_s", "bytes_per_s", "has_netem", "words"),
    [
        (0, None, True, []),
        (1e-3, None, False, []),
        (0, 25e6, False, ["root handle 1: tbf rate 200000000bit burst 25000 limit 67108864"]),
        (1e-3, None, True, ["root netem delay 1000us limit 100000"]),
        (2e-3, 1e6, True, [
            "root handle 1: tbf rate 8000000bit burst 4000 limit 67108864",
            "parent 1:1 handle 10: netem delay 2000us limit 100000",
        ]),
    ],
)  # fmt: skip
def test_what_tc_is_told(latency_s, bytes_per_s, has_netem, words):
    told = namespaces.shape_words(latency_s, bytes_per_s, has_netem=has_netem)
    assert [" ".join(line) for line in told] == words


# -- what was found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capabilities", "link", "words"),
    [
        (LOOPBACK, Link(), "on 127.0.0.1 and 127.0.0.2 (no namespaces here: loopback was asked for); nothing slows"),
        (LOOPBACK, Link(1e-3), "the course slows messages between nodes"),
        (Capabilities(False, reason="x", has_second_loopback=False), Link(), "on 127.0.0.1 (no namespaces here: x)"),
        (SHAPED, Link(0, 25e6), "each in a network namespace of its own, 25 MB/s between them (tc tbf)"),
        (SHAPED, Link(2e-3, 1e9), "1 GB/s between them (tc tbf), 2 ms late each way (tc netem)"),
        (SHAPED, Link(), "of its own, nothing slows the link between them"),
        (Capabilities(True, has_tbf=True), Link(1e-3, 1e6), "1 MB/s between them (tc tbf), no delay (this kernel has"),
        (Capabilities(True), Link(0, 1e6), "no rate (this kernel has no tbf)"),
    ],
)
def test_it_says_what_it_found_and_what_it_lacks(capabilities, link, words):
    assert words in capabilities.in_words(2, link)


def test_loopback_can_be_asked_for_by_the_environment(monkeypatch):
    monkeypatch.setenv("COURSE_NODES", "loopback")
    assert not find_capabilities().has_namespaces
    assert find_capabilities().reason == "loopback was asked for"


def test_without_the_tools_the_reason_is_told(monkeypatch):
    monkeypatch.setattr(namespaces.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(namespaces.process_tree, "end_all_below", lambda pid: None)
    found = namespaces.try_out()
    assert not found["namespaces"]
    assert found["reason"] == "the program ip (of iproute2) is not installed"


def test_bytes_of_a_link_are_the_kernels_and_none_on_loopback(monkeypatch, tmp_path):
    assert link_bytes() is None
    assert read_counts(10**9) is None
    text = "Inter-| ...\n face |bytes\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 1234 5 0 0 0 0 0 0 5678 5 0\n"
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert read_counts("self") == (5678, 1234)


# -- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Nodes(0), "num_nodes=0 does not work.*nearest that works is 1"),
        (lambda: Nodes(2.5), "num_nodes=2.5 does not work"),
        (lambda: Nodes(9), "num_nodes is at most 8. Use 8"),
        (lambda: Nodes(2, ranks_per_node=0), "ranks_per_node=0 does not work"),
        (lambda: Nodes(4, ranks_per_node=8), "are 32 processes.*Use ranks_per_node=4"),
        (lambda: Nodes(2, link=5), "link=5 must be a Link"),
        (lambda: Nodes(2, network="lopback"), "Did you mean 'loopback'"),
        (lambda: arguments.check_restarts(-1, 2, 2), "max_restarts=-1 does not work"),
        (lambda: arguments.check_restarts(0, 3, 2), "min_nodes=3 is more than there are nodes, 2"),
        (lambda: arguments.check_restarts(0, 0, 2), "min_nodes=0 does not work"),
        (lambda: arguments.check_seconds(timeout_s=0), "timeout_s=0 must be a number of seconds above 0"),
        (lambda: arguments.check_seconds(timeout_s="5"), "timeout_s='5' must be"),
        (lambda: arguments.check_index("rank", 4, 4), "rank=4 is not there: ranks are 0 to 3, the nearest is 3"),
        (lambda: arguments.check_index("node", True, 2), "node=True is not there"),
        (lambda: arguments.check_env({"STEPS": 4}), r"env\['STEPS'\]=4 must be a text.*'4'"),
        (lambda: arguments.check_env(["STEPS"]), "must say which variable"),
        (lambda: arguments.program_file(7), "7 cannot run on nodes"),
        (lambda: arguments.program_file("/no/such/folder/train.py"), "there is no file '/no/such/folder/train.py'"),
    ],
)
def test_what_cannot_be_gets_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_missing_program_is_told_with_what_is_there(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"there is no file 'trian.py' \(the folder has train.py\)"):
        arguments.program_file("trian.py")
    assert arguments.program_file("train.py") == tmp_path / "train.py"


# -- records, events, causes -----------------------------------------------------------------------------------------

_pids = itertools.count(10**7)


def began(rank: int, node: int, rendezvous: str, at: float, *, world_size: int = 4, restarts: int = 0) -> AttemptStart:
    return AttemptStart(at, rank, world_size, rank % 2, node, node, restarts, next(_pids), rendezvous)


def rendezvous(name: str, at: float, nodes: tuple[int, ...] = (0, 1), restarts: tuple[int, ...] = (0, 0)):
    size = 2 * len(nodes)
    return [
        began(2 * place + local, node, name, at + local, world_size=size, restarts=restarts[place])
        for place, node in enumerate(nodes)
        for local in range(2)
    ]


def test_a_rank_notes_what_torchrun_tells_it(tmp_path):
    (tmp_path / "began").mkdir()
    env = {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "GROUP_RANK": "1", "COURSE_NODE": "1",
        "TORCHELASTIC_RESTART_COUNT": "2", "MASTER_ADDR": "10.77.0.101", "MASTER_PORT": "5",
    }  # fmt: skip
    noted = records.note(tmp_path, env)
    assert records.read(tmp_path) == [noted]
    assert (noted.rank, noted.node, noted.restart_count) == (3, 1, 2)


def test_events_tell_of_meetings_that_were_whole_and_of_who_came_and_went():
    began_ = [
        *rendezvous("a/4", 10),
        *rendezvous("b/4", 20, restarts=(0, 1)),
        *rendezvous("c/2", 30, nodes=(0,), restarts=(1,)),
        *rendezvous("d/4", 40, restarts=(1, 0)),
        *rendezvous("e/4", 50)[:3],
    ]
    told = events.of_rounds(records.rounds(began_), 10.0)
    assert [event.what for event in told] == ["met", "restarted", "left", "restarted", "joined", "restarted"]
    assert [event.restart_count for event in told if event.ranks] == [0, 1, 1, 1]
    assert told[0].text == "ranks 0 to 3 began on nodes 0 and 1"
    assert told[1].text == "ranks 0 to 3 began anew on nodes 0 and 1, restart count 0 (node 0) and 1 (node 1)"
    assert told[3].text == "ranks 0 and 1 began anew on node 0, restart count 1"
    assert (told[4].node, told[4].time_s) == (1, 31)


def error(kind: type[Exception], words: str):
    try:
        raise kind(words)
    except kind as caught:
        return caught


def made_outcome(
    folder: Path, raised: dict[int, Exception], agents: dict[int, str]
) -> tuple[JobOutcome, list[AttemptStart]]:
    """Four ranks that began; ``raised``: by rank, in this order. ``{pid3}`` in an agent's text: rank 3's process."""
    import json
    from dataclasses import asdict

    ranks = rendezvous("10.77.0.101:5/4", 10)
    for name in ("began", "failure", "stacks", "node0", "node1"):
        (folder / name).mkdir()
    for one in ranks:
        (folder / "began" / f"{one.rank}.json").write_text(json.dumps(asdict(one)))
    for place, (rank, caught) in enumerate(raised.items()):
        body = pickle.dumps((20.0 + place, describe(caught, rank=rank)))
        path_of(folder, "failure", ranks[rank]).write_bytes(body)
    for node, text in agents.items():
        filled = re.sub(r"\{pid(\d)\}", lambda found: str(ranks[int(found[1])].pid), text)
        (folder / f"node{node}" / "agent.log").write_text(filled)
    return JobOutcome(plan(folder), is_function=True), ranks


ECHO = error(RuntimeError, "Connection closed by peer [10.77.0.102]:17055")


def test_the_cause_is_who_raised_by_itself_even_when_it_was_seen_later(tmp_path):
    outcome, _ = made_outcome(tmp_path, {0: ECHO, 1: ECHO, 3: error(ValueError, "no such thing")}, {})
    told = reports.failed(outcome, killed=[], codes={0: 1, 1: 1}, host=0)
    assert told.startswith("The job failed: rank 3 (node 1) raised ValueError: no such thing (")
    assert "Ranks 0 and 1 lost their connections by that." in told


def test_a_death_by_signal_is_read_from_the_agent(tmp_path):
    line = "E1122 21:18:36.060000 15110 torch/api.py:1002] failed (exitcode: {}) local_rank: 1 (pid: {}) of binary: x\n"
    outcome, ranks = made_outcome(tmp_path, {0: ECHO}, {1: "W1122 words\n" + line.format(-9, "{pid3}")})
    fault = failures.first(outcome.faults)
    assert str(fault) == "rank 3 (node 1) was killed by SIGKILL"
    assert fault.pid == ranks[3].pid
    assert fault.time > ranks[3].time
    assert "rank 3 (node 1) was killed by SIGKILL.\nRank 0 lost" in reports.failed(
        outcome, killed=[], codes={0: 1, 1: 1}, host=0
    )


def test_a_killed_host_of_the_store_is_the_cause_and_the_way_out_is_named(tmp_path):
    outcome, _ = made_outcome(tmp_path, {2: ECHO, 3: ECHO}, {1: "... RendezvousConnectionError ..."})
    told = reports.failed(outcome, killed=[0], codes={0: -9, 1: 1}, host=0)
    assert "node 0 was killed, and its agent held the store" in told
    assert 'rendezvous="apart"' in told
    assert "Ranks 2 and 3 lost" in told
    assert "raised" not in told
    assert "could not reach the store" in told


def test_a_closed_rendezvous_is_told_with_how_the_others_ended(tmp_path):
    outcome, _ = made_outcome(tmp_path, {0: ECHO}, {0: "... RendezvousClosedError ...", 1: ""})
    told = reports.failed(outcome, killed=[], codes={0: 1, 1: 0}, host=0)
    assert "node 0 found the rendezvous closed" in told
    assert "; the agent of node 1 left with exit code 0; " in told
    assert "could not reach the store" not in told


def test_a_killed_node_without_which_the_rest_could_not_meet(tmp_path):
    outcome, _ = made_outcome(tmp_path, {0: ECHO}, {0: "RendezvousTimeoutError"})
    told = reports.failed(outcome, killed=[1], codes={0: 1, 1: -9}, host=0)
    assert "node 1 had been killed." in told
    assert "The nodes did not meet again: node 0 waited for the other nodes until its timeout" in told


def test_an_agent_that_fails_by_itself_speaks_for_itself(tmp_path):
    outcome, _ = made_outcome(tmp_path, {}, {1: "Traceback ...\nOSError: disk is full\n"})
    told = reports.failed(outcome, killed=[], codes={0: 0, 1: 1}, host=0)
    assert "the agent of node 1 left with exit code 1." in told
    assert "OSError: disk is full" in told


def test_who_hangs_is_told_with_the_line_where_it_stands(tmp_path):
    outcome, ranks = made_outcome(tmp_path, {}, {})
    for rank, line in (
        (0, 'File "/home/me/train.py", line 12 in step'),
        (1, 'File "/x/site-packages/a.py", line 1 in b'),
    ):
        text = f'Current thread:\n  File "/x/site-packages/torch/d.py", line 5 in wait\n  {line}\n'
        path_of(tmp_path, "stacks", ranks[rank]).write_text(text)
    told = reports.not_ended(outcome, 15, num_ranks=4)
    assert "still ran after 15 s" in told
    assert 'rank 0 (node 0) stood in "/home/me/train.py", line 12 in step' in told
    assert 'rank 1 (node 0) stood in "/x/site-packages/torch/d.py", line 5 in wait' in told
    assert "rank 3 (node 1) did not say where it stood" in told


def test_a_clock_that_has_passed_midnight_is_tomorrows():
    from datetime import datetime

    begun = datetime(2026, 1, 1, 23, 59, 59).timestamp()
    assert failures._timestamp("00:00:01.5", begun) == begun + 2.5
    assert failures._timestamp("23:59:59.5", begun) == begun + 0.5
    assert failures._timestamp("", begun) == begun
