"""A real JupyterHub with three users, set up by the course's script: its link clicked, lesson 00 run by two at once."""

from __future__ import annotations

import json
import re
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hub_here import LIMIT_S, NAME, HubHere, hub_here, why_no_hub
from web_kernel import Server, first_cells, kernel_of

from course_lib.authoring.bench.class_of_users.users import User, processes_of, unix_users
from course_lib.authoring.testing.browser_lab import BROWSER_OPTIONS, chromium, missing
from course_lib.lab.folder import FIRST_LESSON

WHY_NOT = why_no_hub()
NO_BROWSER = WHY_NOT or missing()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "never"),
    pytest.mark.xdist_group("hub"),
    pytest.mark.limit_s(1500),
]
LESSON = f"{NAME}/{FIRST_LESSON}"
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def hub() -> Iterator[HubHere]:
    """A hub for three new users, who have never been there."""
    with tempfile.TemporaryDirectory(prefix="hub-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with unix_users(3, folder) as users:
            with hub_here(folder, users) as hub:
                yield hub
            assert [hub.processes(), *map(processes_of, users)] == [[], [], [], []]


def fetched(server: Server, path: str) -> str:
    """A page of a user's server."""
    request = urllib.request.Request(f"{server.url}/{path}", headers={"Authorization": f"token {server.token}"})
    with _direct.open(request, timeout=LIMIT_S) as answer:
        return answer.read().decode()


def click(hub: HubHere, user: User) -> Server:
    """Follow the link by HTTP alone: nbgitpuller's page, what it asks for, and where it goes."""
    server, query = hub.of(user), hub.link.partition("?")[2]
    page = fetched(server, f"git-pull?{query}")
    told = {name: urllib.parse.unquote(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', page)}
    asks = {name: told[name] for name in ("repo", "branch", "targetpath")}
    events = [
        json.loads(line.removeprefix("data: "))
        for line in fetched(server, f"git-pull/api?{urllib.parse.urlencode(asks)}").splitlines()
        if line.startswith("data: ")
    ]
    assert events[-1]["phase"] == "finished", events
    goes_to = told["path"].split("/tree/", 1)[1]
    assert server.asked(f"api/contents/{goes_to}?content=0")["type"] == "notebook"
    assert goes_to == LESSON
    return server


def test_the_script_told_the_hub_limits_and_a_culler(hub: HubHere) -> None:
    told = (hub.folder / "notes").read_text()
    for words in ("set limits.memory 3G", "set limits.cpu 2", "set services.cull.enabled true", "reload"):
        assert words in told
    assert (hub.folder / NAME / "course").stat().st_uid == 0


@pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER or "never")
def test_a_first_click_on_the_link_ends_at_the_open_lesson(hub: HubHere) -> None:
    """In a browser: the link, the form to log in, a server that starts, nbgitpuller's page, and the lesson."""
    from playwright.sync_api import sync_playwright

    user = hub.users[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=BROWSER_OPTIONS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(LIMIT_S * 1000)
        page.goto(hub.link.replace("https://YOUR-HUB", hub.url))
        page.fill("#username_input", user.name)
        page.fill("#password_input", hub.password)
        page.click("#login_submit")
        page.wait_for_url(f"**/lab/tree/{LESSON}*")
        page.wait_for_selector(".jp-NotebookPanel .jp-MarkdownCell h1")
        looks_like_a_page_of_course_lab(page)
        browser.close()
    assert (user.home / NAME / FIRST_LESSON).owner() == user.name


def looks_like_a_page_of_course_lab(page: Any) -> None:
    assert "Cannot open" not in page.inner_text("body")
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path") == LESSON
    page.evaluate("() => window.jupyterapp.restored")
    pictures = page.locator(".jp-RenderedMarkdown img")
    pictures.first.wait_for()
    assert page.evaluate(
        """async () => {
          const pictures = [...document.querySelectorAll(".jp-RenderedMarkdown img")];
          await Promise.all(pictures.map((one) => one.decode().catch(() => 0)));
          return pictures.filter((one) => !one.naturalWidth).map((one) => one.alt);
        }"""
    ) == []  # fmt: skip
    assert page.get_by_text("official Jupyter news").count() == 0


def test_two_users_run_ranks_at_the_same_time(hub: HubHere) -> None:
    """Through the hub's proxy and the API of kernels, with a third server that runs beside them."""
    hub.of(hub.users[0])

    def work(user: User) -> list[str]:
        server = click(hub, user)
        with kernel_of(server, LESSON) as kernel:
            shown = [kernel.run(cell) for cell in first_cells(server.notebook(LESSON))]
            shown.append(kernel.run("import os, getpass; print(getpass.getuser())"))
        return shown

    two = hub.users[1:]
    with ThreadPoolExecutor(len(two)) as pool:
        for user, shown in zip(two, pool.map(work, two), strict=True):
            assert all(f"I am rank {rank} of 4" in "".join(shown) for rank in range(4)), shown
            assert shown[-1].strip() == user.name


def test_pages_and_kernels_are_those_of_course_lab(hub: HubHere) -> None:
    """No pop-up about news, the course's style sheet, the texts of pictures, kernels on private sockets."""
    user = hub.users[1]
    server = hub.of(user)
    news = server.asked("lab/api/settings/@jupyterlab/apputils-extension:notification")
    assert news["schema"]["properties"]["fetchNews"]["default"] == "false"
    assert ".course-form" in fetched(server, "custom/custom.css")
    page = fetched(server, "lab")
    config = json.loads(re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert config["exposeAppInBrowser"] is True
    assert "custom.css" in page
    click(hub, user)
    with kernel_of(server, LESSON) as kernel:
        files = "from ipykernel.connect import get_connection_info as info; print(info(unpack=True)['transport'])"
        assert kernel.run(files).strip() == "ipc"
    assert server.asked("lsp/status")["sessions"] == {}


def test_a_second_click_keeps_what_a_learner_has_changed(hub: HubHere) -> None:
    user = hub.users[2]
    click(hub, user)
    lesson = user.home / LESSON
    mine = lesson.read_text().replace("One", "Mine", 1)
    lesson.write_text(mine)
    click(hub, user)
    assert lesson.read_text() == mine
