"""The verb `lab`: a real JupyterLab on loopback behind its token, and what it says and refuses."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from jupyter_server.serverapp import ServerApp
from small_lessons import small_course
from waiting import all_ended, wait_until

from course_lib import lab
from course_lib.base import paths
from course_lib.lab import command, welcome
from course_lib.lab import options as options_module
from course_lib.lab.folder import LessonFolder
from course_lib.lab.port import KeepsItsPort

HANG_LIMIT_S = 300
EMPTY_NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
# What a learner's own settings may hold, against which the course keeps its own.
HOSTILE_SETTINGS = """
c.ServerApp.ip = "0.0.0.0"
c.ServerApp.port_retries = 0
c.IdentityProvider.token = ""
c.ServerApp.open_browser = True
"""


@dataclass(frozen=True)
class Lab:
    """A running `course lab`: its process, all it printed up to its address, and the parts of the address."""

    process: psutil.Process
    text: str
    port: int
    path: str
    token: str
    busy_port: int

    def get(self, path: str) -> tuple[int, str]:
        """The status and the final address of a request; redirects are followed."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
                return answer.status, answer.url
        except urllib.error.HTTPError as error:
            return error.code, error.url or ""


def lessons(folder: Path) -> Path:
    (folder / "notebooks").mkdir(parents=True)
    (folder / lab.FIRST_LESSON).write_text(EMPTY_NOTEBOOK)
    return folder


def settings(folder: Path) -> dict[str, str]:
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "jupyter_server_config.py").write_text(HOSTILE_SETTINGS)
    own = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    return {**{key: value for key, value in os.environ.items() if key != "JUPYTER_TOKEN"}, **own}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    root = folder / "mine"
    command._prepare(LessonFolder(small_course(folder / "course"), root))  # as for a learner beside a course of others
    with socket.create_server(("127.0.0.1", 0)) as busy:
        busy_port = busy.getsockname()[1]
        options = ["--no-browser", f"--port={busy_port}", f"--ServerApp.root_dir={root}"]
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "course_lib.cli", "lab", *options],
            cwd=root,
            env=settings(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert child.stdout is not None
            text = ""
            for line in child.stdout:
                text += line
                if line.startswith("The address holds a token"):
                    break
            found = re.search(r"http://127\.0\.0\.1:(\d+)(/\S*)\?token=(\w+)", text)
            assert found, text
            yield Lab(psutil.Process(child.pid), text, int(found[1]), found[2], found[3], busy_port)
        finally:
            child.terminate()
            try:
                child.wait(HANG_LIMIT_S)
            finally:
                child.kill()
                child.stdout.close()


pytestmark = pytest.mark.xdist_group("lab")


def test_address_with_the_token_answers(running: Lab) -> None:
    assert running.path == "/lab/tree/notebooks/00_start_here.ipynb"
    status, url = running.get(f"{running.path}?token={running.token}")
    assert status == 200
    assert "/login" not in url
    assert running.get(f"/api/contents/{lab.FIRST_LESSON}?token={running.token}")[0] == 200


def test_it_opens_the_first_lesson(running: Lab) -> None:
    """The bare address, which is what a browser is sent to, leads to the lesson."""
    status, url = running.get(f"/?token={running.token}")
    assert status == 200
    assert url.split("?")[0].endswith("/lab/tree/notebooks/00_start_here.ipynb")


@pytest.mark.parametrize("query", ["", "?token=", "?token=0000"])
def test_without_the_token_it_refuses(running: Lab, query: str) -> None:
    assert running.get(f"/api/contents{query}")[0] == 403
    status, url = running.get(f"/lab{query}")
    assert status == 403 or "/login" in url


def test_it_listens_on_loopback_alone(running: Lab) -> None:
    listening = [link.laddr for link in running.process.net_connections() if link.status == psutil.CONN_LISTEN]
    assert running.port in {address.port for address in listening}
    assert {address.ip for address in listening} == {"127.0.0.1"}


def test_a_browser_gets_the_pictures_and_opens_the_solutions(running: Lab) -> None:
    """JupyterLab fetches a picture as a file, and the server gives no file that a link has outside of its folder."""
    for path in (
        "files/assets/00_loop.png",
        "api/contents/notebooks/solutions/00_start_here.ipynb?content=0",
    ):
        sign = "&" if "?" in path else "?"
        assert running.get(f"/{path}{sign}token={running.token}")[0] == 200, path


def test_the_glossary_opens_as_a_page_and_no_news_are_asked_for(running: Lab) -> None:
    url = f"http://127.0.0.1:{running.port}/lab/api/settings/{{}}?token={running.token}"
    found = {}
    for name in ("docmanager-extension", "apputils-extension"):
        plugin = "plugin" if name == "docmanager-extension" else "notification"
        with urllib.request.urlopen(url.format(f"@jupyterlab/{name}:{plugin}"), timeout=30) as answer:
            found |= json.loads(answer.read())["schema"]["properties"]
    assert found["defaultViewers"]["default"] == {"markdown": "Markdown Preview"}
    assert found["fetchNews"]["default"] == "false"


def test_no_language_server_waits_for_a_page(running: Lab) -> None:
    """With one, each open page of a class has a process of 130 MiB beside it."""
    url = f"http://127.0.0.1:{running.port}/lsp/status?token={running.token}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        told = json.loads(answer.read())
    assert told["specs"] == told["sessions"] == {}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each kernel starts by itself")
def test_its_kernels_begin_as_forks_of_one_process(running: Lab) -> None:
    def asked(method: str, path: str) -> bytes:
        url = f"http://127.0.0.1:{running.port}/api/kernels{path}?token={running.token}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=HANG_LIMIT_S) as answer:
            return answer.read()

    (server,) = [one for one in running.process.children() if "fork_server.py" in " ".join(one.cmdline())]
    words = server.cmdline()
    folder = Path(words[next(number for number, word in enumerate(words) if "fork_server.py" in word) + 2])
    wait_until((folder / "loaded.json").exists, "its imports")  # on a busy machine a kernel waits no longer than 10 s
    number = json.loads(asked("POST", ""))["id"]
    wait_until(server.children, "the kernel begins as its fork")
    (first,) = server.children()
    asked("POST", f"/{number}/restart")
    wait_until(lambda: server.children() and server.children() != [first], "another kernel after the restart")
    assert all_ended([first.pid])
    asked("DELETE", f"/{number}")
    wait_until(lambda: not server.children(), "the kernel ends")


def test_a_busy_port_is_passed_over(running: Lab) -> None:
    assert running.port != running.busy_port


def test_a_port_that_was_found_is_kept_until_the_server_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six learners began at once, one found a free port, and it was another's when the server came to bind it."""
    server = KeepsItsPort(ip="127.0.0.1", port=0, port_retries=0)
    server._find_http_port()
    with pytest.raises(OSError, match="in use"), socket.create_server(("127.0.0.1", server.port)):
        pass
    given: list[socket.socket] = []
    monkeypatch.setattr(server, "_http_server", SimpleNamespace(add_sockets=given.extend), raising=False)
    assert server._bind_http_server_tcp()
    assert [one.getsockname() for one in given] == [("127.0.0.1", server.port)]
    for one in given:
        one.close()


def test_a_port_that_is_taken_at_the_last_moment_is_given_up_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        found = iter([taken.getsockname()[1], free])
        server = KeepsItsPort(ip="127.0.0.1")
        monkeypatch.setattr(ServerApp, "_find_http_port", lambda self: setattr(self, "port", next(found)))
        server._find_http_port()
    assert server.port == free
    for one in server._kept:
        one.close()


def test_the_token_is_on_no_command_line(running: Lab) -> None:
    assert running.token not in " ".join(running.process.cmdline())


def test_it_says_what_to_do_without_a_browser(running: Lab) -> None:
    assert "No browser opens, as you asked" in running.text
    assert f"ssh -N -L {running.port}:127.0.0.1:{running.port} " in running.text


# --- Options ----------------------------------------------------------------------------------------


def options(*argv: str) -> list[str]:
    return options_module.lab_options(argv, root=Path("/clone"), token="secret")


def test_it_opens_at_the_first_lesson_or_at_the_one_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb" in options()
    named = options_module.lab_options([], root=Path("/clone"), token="secret", first="notebooks/04b_batches.ipynb")
    assert "--LabApp.default_url=/lab/tree/notebooks/04b_batches.ipynb" in named
    assert lab.main(["--open", "99"]) == 2
    assert "course lab: there is no lesson '99'" in capsys.readouterr().err


def test_options_that_are_not_ours_pass_through() -> None:
    own = ["--no-browser", "--KernelManager.autorestart=False", "--collaborative"]
    assert options(*own)[-len(own) :] == own


@pytest.mark.parametrize(
    ("own", "ours"),
    [
        ("--ip=0.0.0.0", "--ServerApp.ip="),
        ("--ServerApp.ip=::1", "--ServerApp.ip=127"),
        ("--port=9000", "--ServerApp.port="),
        ("--notebook-dir=/data", "--ServerApp.root_dir="),
        ("--ServerApp.default_url=/lab", "--LabApp.default_url="),
        ("--debug", "--log-level="),
        ("--LanguageServerManager.autodetect=True", "--LanguageServerManager.autodetect=False"),
        ("--LabApp.expose_app_in_browser=False", "--LabApp.expose_app_in_browser=True"),
        ("--IdentityProvider.token=mine", "--IdentityProvider.token=secret"),
    ],
)
def test_own_option_takes_the_place_of_ours(own: str, ours: str) -> None:
    """JupyterLab refuses an option that is given twice."""
    assert any(option.startswith(ours) for option in options())
    assert not any(option.startswith(ours) for option in options(own))
    assert own in options(own)


@pytest.mark.parametrize(
    "argv",
    [["--IdentityProvider.token="], ["--ServerApp.token=''"], ["--NotebookApp.token", ""]],
)
def test_the_token_cannot_be_switched_off(
    argv: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="empty token"):
        options(*argv)
    monkeypatch.setattr(command, "find_place", lambda asked: LessonFolder(Path("/clone"), Path("/clone")))
    assert lab.main(argv) == 2
    assert "course lab: an empty token" in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--help"]) == 0
    assert lab.FIRST_LESSON in capsys.readouterr().out


# --- Where the lessons are, and whether a browser is -------------------------------------------------


def test_lessons_of_the_checkout_come_before_those_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, checkout = lessons(tmp_path / "here"), tmp_path / "checkout"
    monkeypatch.chdir(here)
    monkeypatch.setattr(paths, "project_root", lambda: checkout)
    assert lab.lessons_folder() == here
    lessons(checkout)
    assert lab.lessons_folder() == checkout


def test_no_lessons_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "project_root", lambda: tmp_path / "checkout")
    assert lab.main([]) == 2
    err = capsys.readouterr().err
    assert str(tmp_path / "checkout") in err
    assert "course build" in err


def no_browser(*_: object) -> webbrowser.BaseBrowser:
    raise webbrowser.Error("could not locate runnable browser")


@pytest.mark.usefixtures("no_kernels_are_prepared")
@pytest.mark.parametrize(
    ("get", "says", "adds"),
    [
        (no_browser, "no browser to open", True),
        (lambda *_: webbrowser.GenericBrowser("/usr/bin/w3m"), "The only browser here is w3m", True),
        (lambda *_: webbrowser.BackgroundBrowser("firefox"), "", False),
    ],
)
def test_machine_with_and_without_a_browser(
    get: object, says: str, adds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = {}

    def serve(options: list[str], *, no_browser: str) -> int:
        served["options"], served["says"] = options, no_browser
        return 0

    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setattr(command, "_serve", serve)
    monkeypatch.setattr(command, "find_place", lambda asked: LessonFolder(Path("/clone"), Path("/clone")))
    assert lab.main([]) == 0
    assert ("--no-browser" in served["options"]) is adds
    assert says in served["says"]
    assert bool(served["says"]) is adds


def test_welcome_speaks_of_ssh_only_where_no_browser_opens() -> None:
    opened = welcome.welcome("http://127.0.0.1:8888/lab?token=x", port=8888, no_browser="")
    assert "ssh" not in opened
    assert "http://127.0.0.1:8888/lab?token=x" in opened
    assert "token" in opened


def test_a_home_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file, in which no folder can be made")
    env = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "XDG"))}
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "course_lib.cli", "lab", "--no-browser"],
        env={**env, "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=HANG_LIMIT_S,
    )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]  # JupyterLab's own log may have more to say before it
    assert last.startswith("course lab: JupyterLab cannot start: ")
    assert "set HOME to a folder that you can write" in last


def test_a_user_without_a_name_is_welcome_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(welcome.getpass, "getuser", nameless)
    assert " USER@" in welcome.welcome("http://127.0.0.1:8888/lab?token=t", port=8888, no_browser="No browser")
