"""What lies around hosted notebooks: a page with the badges of all, and the files by which two hosts make a machine.

Binder reads the folder ``binder`` at the root of a repository, Codespaces ``.devcontainer``. Both get PyTorch's small
build for CPUs: neither gives a GPU for nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from course_lib.authoring.notebooks.hosted.cells import FOLDER
from course_lib.authoring.notebooks.hosted.first_cell import NEEDS
from course_lib.authoring.notebooks.hosted.repository import HOSTS, Repository
from course_lib.lessons.info import LessonInfo

__all__ = ["PYTHON", "SCRIPTS", "badge_page", "surroundings"]

PYTHON = "3.12"
SCRIPTS = ("binder/postBuild",)
"""What is to be executable."""

_CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
_WRITTEN = "# Written by `course build --hosted`."


def surroundings(root: Path, course: str) -> dict[str, str]:
    """The text of each file, by its path below the root of the repository. ``course`` is what pip installs."""
    return {
        "binder/requirements.txt": _requirements(root),
        "binder/runtime.txt": f"python-{PYTHON}\n",
        "binder/postBuild": _post_build(course),
        ".devcontainer/devcontainer.json": _dev_container(),
    }


def badge_page(lessons: list[LessonInfo], repository: Repository) -> str:
    """The page that a reader of the folder meets: each part, and a badge for each host that can open it."""
    rows = []
    badges = {one.stem: repository.badges(f"{FOLDER}/{one.stem}.ipynb") for one in lessons}
    hosts = [host for host in HOSTS if any(badge.host == host for made in badges.values() for badge in made)]
    for one in lessons:
        by_host = {badge.host: badge.markdown for badge in badges[one.stem]}
        cells = [f"[{one.label} · {one.title}]({one.stem}.ipynb)", one.minutes_text]
        rows.append("| " + " | ".join([*cells, *(by_host[host] for host in hosts)]) + " |")
    head = ["| part | minutes | " + " | ".join(hosts) + " |", "| --- " * (len(hosts) + 2) + "|"]
    others = "" if repository.is_on_github else f"\n{_NOT_ON_GITHUB}\n"
    about = repository.page_of("docs/hosted.md")
    tell = f" [What each host gives, and what it does not]({about})." if about else ""
    table = "\n".join([*head, *rows])
    return f"# The lessons, hosted\n\n{_ABOUT.format(tag=repository.tag)}{tell}\n{others}\n{table}\n"


_ABOUT = """\
Each badge opens a lesson at a host, with nothing to install on your machine. The first code cell installs the course
({tag}); run it first. No host keeps what you do there for ever: download your notebook, or save it where the host lets
you."""
_NOT_ON_GITHUB = """\
Colab, Kaggle and Codespaces open notebooks of GitHub by an address. For Colab and Kaggle, download a notebook from this
folder, and upload it there."""


def _requirements(root: Path) -> str:
    """Direct dependencies alone, pinned as the course's tests had them: the host brings its own Jupyter."""
    try:
        text = (root / "requirements.txt").read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""
    pins = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, flags=re.MULTILINE))
    lines = []
    for need in NEEDS:
        name = re.split(r"[<>=!~]", need)[0]
        lines.append(f"{name}=={pins[name]}" if name in pins else need)
    return "\n".join([_WRITTEN, f"--extra-index-url {_CPU_BUILDS}", *lines]) + "\n"


def _post_build(course: str) -> str:
    return f"""\
#!/bin/bash
{_WRITTEN}
set -e
python -m pip install --no-cache-dir --no-deps "{course}"
# Fonts are looked for once, and not in the first lesson.
python -c "import matplotlib.font_manager"
"""


def _dev_container() -> str:
    install = "python -m pip install ipykernel -r binder/requirements.txt && bash binder/postBuild"
    settings = {
        "name": "One Model, Many GPUs",
        "image": f"mcr.microsoft.com/devcontainers/python:{PYTHON}",
        "runArgs": ["--shm-size=2g"],
        "postCreateCommand": install,
        "customizations": {"vscode": {"extensions": ["ms-python.python", "ms-toolsai.jupyter"]}},
    }
    return json.dumps(settings, indent=2) + "\n"
