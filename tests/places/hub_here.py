"""A JupyterHub on this machine, set up by the course's script for The Littlest JupyterHub, and a git server beside it.

The hub is real, with its proxy, a Unix user for each learner, and a server of Jupyter's for each of them. What the
script finds of TLJH are stand-ins: an environment for users, made of the packages of the tests, and a ``tljh-config``
that notes its words. Everything is on loopback, and in one folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import subprocess
import sys
import sysconfig
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from ends_with_us import end, ends_with_us, processes_with
from shared_course import course_files, python_of_all
from shared_course import why_not as why_not_shared
from small_projects import ROOT
from waiting import holds_in_time, wait_until
from web_kernel import Server

from course_lib.authoring.bench.class_of_users.users import User
from course_lib.nodes.ports import free_port

LIMIT_S = 600
NAME = "one-model-many-gpus"
_MARK = "COURSE_TEST_HUB"
_PROXY = "configurable-http-proxy"


def why_no_hub() -> str:
    """Why there can be no hub here; empty where there can."""
    for package in ("jupyterhub", "nbgitpuller"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed: pip install -e .[hub]"
    for program, source in ((_PROXY, f"npm install --global {_PROXY}"), ("git", "apt-get install git")):
        if shutil.which(program) is None:
            return f"no {program} here: {source}"
    if importlib.util.find_spec("pip") is None:
        return "the script for the hub uses pip, which this Python does not have"
    return why_not_shared()


@dataclass
class HubHere:
    """A running hub: where it answers, who may log in by which password, and what the script has said."""

    url: str
    password: str
    token: str
    users: Sequence[User]
    link: str
    folder: Path
    environment: Path

    def of(self, user: User) -> Server:
        """The user's server, once it runs; started here if nobody did before."""
        hub = Server(f"{self.url}/hub", self.token)
        if not hub.asked(f"api/users/{user.name}")["servers"]:
            hub.asked(f"api/users/{user.name}/server", "POST")

        def is_ready() -> bool:
            return hub.asked(f"api/users/{user.name}")["servers"].get("", {}).get("ready", False)

        assert holds_in_time(is_ready, LIMIT_S), f"no server of {user.name}: {self.said()}"
        token = hub.asked(f"api/users/{user.name}/tokens", "POST", {"note": "a test"})["token"]
        return Server(f"{self.url}/user/{user.name}", token)

    def said(self) -> str:
        """The last that the hub, its proxy and the servers have written."""
        return (self.folder / "hub.log").read_text(errors="replace")[-8000:]

    def processes(self) -> list[psutil.Process]:
        """All of the hub's, by a mark in their environment; servers of users have it from the hub."""
        return processes_with(_MARK, str(self.folder))


@contextlib.contextmanager
def hub_here(folder: Path, users: Sequence[User]) -> Iterator[HubHere]:
    """A hub for these users in the folder, which everybody can enter."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        address = _git_server(folder, running)
        environment = _environment_of_users(folder)
        link = _link_that_the_script_prints(folder, environment, address)
        url, password, token = f"http://127.0.0.1:{free_port()}", secrets.token_hex(8), secrets.token_hex(16)
        hub = HubHere(url, password, token, users, link, folder, environment)
        routes = Server(f"http://127.0.0.1:{free_port()}", secrets.token_hex(16))
        behind = Server(f"http://127.0.0.1:{free_port()}/hub", token)
        (folder / "hub_config.py").touch(0o600)
        (folder / "hub_config.py").write_text(_config(hub, routes, behind))
        running.append(_proxy(hub, routes))
        is_up(hub, running[-1], routes, "api/routes")
        command = [environment / "bin" / "python", "-m", "jupyterhub", "--config", folder / "hub_config.py"]
        running.append(_started(command, folder, "hub.log"))
        # Through the proxy only after the hub itself, for it writes down each "not yet".
        for way in (behind, Server(f"{url}/hub", token)):
            is_up(hub, running[-1], way, "api/")
        yield hub
    finally:
        end(running, processes_with(_MARK, str(folder)))


def is_up(hub: HubHere, process: subprocess.Popen[bytes], server: Server, path: str) -> None:
    """Wait until the process answers there; ``AssertionError`` with what all have said where it ends instead."""

    def answers() -> bool:
        try:
            server.asked(path)
            return True
        except (AssertionError, OSError):
            return False

    assert holds_in_time(lambda: answers() or process.poll() is not None, LIMIT_S), hub.said()
    assert process.poll() is None, hub.said()


def _proxy(hub: HubHere, routes: Server) -> subprocess.Popen[bytes]:
    """A server of its own, as TLJH has it: one that the hub starts must answer in ten seconds, or the hub ends."""
    front, back = (urllib.parse.urlsplit(url) for url in (hub.url, routes.url))
    where = ["--ip", front.hostname, "--port", front.port, "--api-ip", back.hostname, "--api-port", back.port]
    command = [shutil.which(_PROXY), *where, "--log-level", "warn"]
    return _started(list(map(str, command)), hub.folder, "hub.log", CONFIGPROXY_AUTH_TOKEN=routes.token)


def _started(command: Sequence[str | Path], folder: Path, log: str, **variables: str) -> subprocess.Popen[bytes]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "JUPYTER"))}
    with (folder / log).open("ab") as said:
        return subprocess.Popen(
            ends_with_us(command), env={**env, **variables, _MARK: str(folder)}, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip


def _git_server(folder: Path, running: list[subprocess.Popen[bytes]]) -> str:
    """Serve the course as it lies here, with what nobody has committed yet; the address that ends in .git."""
    work, bare = folder / "work", folder / "git" / f"{NAME}.git"
    course_files(work)
    git = ["git", "-c", "user.name=a test", "-c", "user.email=test@localhost", "-C", str(work)]
    for words in ("init --quiet --initial-branch=main", "add --all", "commit --quiet --message=all"):
        subprocess.run([*git, *words.split()], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
    subprocess.run(["git", "clone", "--quiet", "--bare", work, bare], check=True, timeout=LIMIT_S)
    shutil.rmtree(work)
    port = free_port()
    told = ("--listen=127.0.0.1", f"--port={port}", "--export-all", f"--base-path={bare.parent}")
    running.append(_started(["git", "daemon", *told, bare.parent], folder, "git.log"))
    address = f"git://127.0.0.1:{port}/{bare.name}"
    asks = ["git", "ls-remote", "--exit-code", address, "main"]

    def answers() -> bool:
        return subprocess.run(asks, capture_output=True, timeout=LIMIT_S).returncode == 0

    wait_until(answers, f"git's answer: {(folder / 'git.log').read_text()}")
    return address


def _environment_of_users(folder: Path) -> Path:
    """What TLJH has at /opt/tljh/user: a Python that everybody can start, with JupyterHub in it, and pip."""
    environment = folder / "user"
    python = python_of_all()
    assert python is not None
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True, timeout=LIMIT_S)
    (packages,) = (environment / "lib").glob("python*/site-packages")
    ours = [path for path in sys.path if Path(path).is_dir() and "site-packages" in path]
    (packages / "of_the_tests.pth").write_text("\n".join([*ours, sysconfig.get_path("purelib")]) + "\n")
    for name in ("share", "etc"):
        source = Path(sys.prefix) / name / "jupyter"
        if source.is_dir():
            shutil.copytree(source, environment / name / "jupyter")
    subprocess.run(["chmod", "-R", "a+rX", environment], check=True)
    return environment


def _link_that_the_script_prints(folder: Path, environment: Path, address: str) -> str:
    """Run tljh.sh as root would. pip finds every package there, and asks no index."""
    config = folder / "bin" / "tljh-config"
    config.parent.mkdir()
    config.write_text('#!/bin/sh\necho "$*" >> "$NOTES"\n')
    config.chmod(0o755)
    done = subprocess.run(
        ["bash", ROOT / "docs" / "instructor" / "hub" / "tljh.sh", address],
        env={
            "PATH": f"{config.parent}:{os.environ['PATH']}", "HOME": str(folder), "NOTES": str(folder / "notes"),
            "COURSE_DIR": str(folder / NAME), "TLJH_USER_ENVIRONMENT": str(environment),
            "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        },
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (link,) = re.findall(r"https://YOUR-HUB\S+", done.stdout)
    return link


def _config(hub: HubHere, routes: Server, behind: Server) -> str:
    """What TLJH's own configuration comes to, with passwords of a test and servers that are plain processes.

    ``routes`` is where the hub tells the proxy, and ``behind`` where the proxy finds the hub.
    """
    python = hub.environment / "bin" / "python"
    names = [user.name for user in hub.users]
    scopes = ["admin:users", "admin:servers", "tokens", "list:users", "read:hub"]
    values = {
        "JupyterHub.bind_url": hub.url,
        "JupyterHub.hub_bind_url": behind.url.removesuffix("/hub"),
        "ConfigurableHTTPProxy.should_start": False,
        "ConfigurableHTTPProxy.api_url": routes.url,
        "ConfigurableHTTPProxy.auth_token": routes.token,
        "JupyterHub.db_url": f"sqlite:///{hub.folder}/hub.sqlite",
        "JupyterHub.cookie_secret_file": str(hub.folder / "cookie_secret"),
        "JupyterHub.authenticator_class": "dummy",
        "DummyAuthenticator.password": hub.password,
        "Authenticator.allowed_users": set(names),
        "JupyterHub.spawner_class": "jupyterhub.spawner.LocalProcessSpawner",
        "Spawner.cmd": [str(python), "-m", "jupyterhub.singleuser"],
        "Spawner.default_url": "/lab",  # user_environment.default_app jupyterlab
        "Spawner.env_keep": ["PATH", "LANG", _MARK],
        "Spawner.http_timeout": LIMIT_S,
        "Spawner.start_timeout": LIMIT_S,
        "JupyterHub.tornado_settings": {"slow_spawn_timeout": 0, "slow_stop_timeout": 60},
        "JupyterHub.services": [{"name": "tests", "api_token": hub.token}],
        "JupyterHub.load_roles": [{"name": "tests", "services": ["tests"], "scopes": scopes}],
    }
    return "".join(f"c.{name} = {value!r}\n" for name, value in values.items())


if __name__ == "__main__":  # says why there can be none, and with which code
    sys.exit(why_no_hub() or 0)
