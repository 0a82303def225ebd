"""What `course nodes` says to type next, where a machine cannot be reached or an option is wrong."""

from __future__ import annotations

import os
import re
import stat

import pytest

from course_lib.base.paths import library_folder
from course_lib.cluster.nodes.addresses import checked_address, where_ssh_goes
from course_lib.cluster.nodes.command import main
from course_lib.cluster.nodes.errors import next_step
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord

A_SSH = """#!/bin/sh
case "$*" in
*nonsense*) echo "unknown option" >&2; exit 255;;
*-G*) echo "user ada"; echo "hostname 127.0.0.1"; exit 0;;
esac
echo "{said}" >&2
exit 255
"""


@pytest.fixture
def ssh(monkeypatch, tmp_path):
    """Has a program ssh that knows each host as 127.0.0.1, and says something when it is to go there."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def that_says(said: str) -> None:
        (tmp_path / "ssh").write_text(A_SSH.format(said=said))
        (tmp_path / "ssh").chmod(0o755)

    that_says("")
    return that_says


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ("Host key verification failed.", "failed. Type `ssh -p22 a true` once, and answer yes"),
        ("ada@a: Permission denied (publickey).", "Go on when `ssh -p22 a true` asks nothing."),
        ("ssh: Could not resolve hostname a: Name or service not known", "Is the name right?"),
        ("ssh: connect to host a port 22: Connection refused", "refused. Is it up, and does ssh listen there?"),
        ("ModuleNotFoundError: No module named 'course_lib'", "Name its folder: --clone FOLDER."),
        ("ModuleNotFoundError: No module named 'psutil'", "/x/python there lacks what the course needs"),
        ("env: '/x/python': No such file or directory", "Name it: --python PATH (now /x/python)."),
    ],
)
def test_what_ssh_says_leads_to_what_to_type(said, helps):
    assert helps in said + next_step(said, "a", ["-p22"], "/x/python")


def test_words_that_nobody_knows_get_no_advice():
    assert next_step("ZeroDivisionError", "a", [], "python") == ""


def test_all_hosts_that_do_not_answer_are_named(ssh, capsys):
    ssh("Host key verification failed.")
    assert main(["up", "--hosts", "a,b"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "node 0 (a) does not answer" in first
    assert "node 1 (b) does not answer" in second
    assert "Type `ssh b true` once" in second


def test_a_host_of_sshs_own_settings_is_looked_up_there(ssh):
    assert where_ssh_goes("a", ["-F/x"]) == "127.0.0.1"
    with pytest.raises(ValueError, match="ssh does not take --nonsense a: unknown option"):
        where_ssh_goes("a", ["--nonsense"])


def test_without_ssh_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="install OpenSSH's client"):
        where_ssh_goes("a")


def test_an_address_of_another_machine_is_refused(ssh, capsys):
    assert checked_address("127.0.0.1") == "127.0.0.1"
    assert main(["up", "--hosts", "a", "--address", "203.0.113.5"]) == 1
    assert "--address 203.0.113.5 is none of this machine's; it has 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--address", "127.0.0.1"], ["--clone", "/x"], ["--python", "/x"]])
def test_local_nodes_take_no_options_of_hosts(ssh, capsys, option):
    assert main(["up", "--local", "2", *option]) == 1
    assert "--local takes no other option" in capsys.readouterr().err


def test_up_says_so_where_notebooks_would_not_take_the_nodes(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "off")
    assert main(["up", "--local", "2"]) == 1
    assert "`unset COURSE_NODES` first" in capsys.readouterr().err


def test_a_record_that_cannot_be_removed_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert main(["down"]) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_a_folder_that_up_makes_for_a_learner_can_be_read_by_the_learner(monkeypatch, tmp_path):
    path = tmp_path / "nodes" / "ada.json"
    monkeypatch.setenv(VARIABLE, str(path))
    old = os.umask(0o022)
    try:
        NodesRecord(("a",), "127.0.0.1").write(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_a_clone_that_is_not_there_is_told_where_its_python_has_the_course(monkeypatch, tmp_path, capsys):
    """By an ssh that goes nowhere: what is to be run there is run here, where Python finds the course by itself."""
    here = library_folder()
    (tmp_path / "ssh").write_text(
        '#!/bin/sh\ncase "$*" in *-G*) echo "hostname 127.0.0.1"; exit 0;; esac\n'
        f'for last; do :; done\ncd {here} && eval "exec $last"\n'
    )
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "up.json"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert main(["up", "--hosts", "a", "--clone", "/no/such/folder"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"--clone /no/such/folder is no folder of the course on \S+; the Python there has the", said)
    assert f"{here}. Name that folder, or leave --clone out" in said
    assert not (tmp_path / "up.json").exists()
    assert main(["up", "--hosts", "a", "--clone", f"{here}/"]) == 0
    assert main(["down"]) == 0
