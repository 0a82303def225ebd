"""Hosted notebooks where hosts' versions are: installed by their first cell, run, interrupted, run again.

For each host an environment is made that has its packages and not the course. The notebook lies alone in a folder of a
user who is not root, where that can be had; the kernel has two cores. Runs with ``--long``. The hosts themselves are
not reached: their pages, their Python and their GPUs are not what is tried here.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from course_lib.authoring.notebooks.hosted.folder import hosted_files
from course_lib.authoring.notebooks.hosted.repository import repository_at
from course_lib.lessons.info import source_files

pytestmark = [
    pytest.mark.long,
    pytest.mark.limit_s(3600),
    pytest.mark.skipif(os.name == "nt", reason="POSIX"),
]

ROOT = Path(__file__).resolve().parents[2]
TRIAL = ROOT / "tests" / "support" / "hosted_trial.py"
COMMON = [
    f"torch=={version('torch')}", "numpy==2.0.2", "scipy==1.16.3", "scikit-learn==1.6.1", "matplotlib==3.10.0",
    "psutil==5.9.5", "cloudpickle>=3", "platformdirs", "tqdm", "nvidia-ml-py>=12.535", "packaging", "nbconvert",
    "nbclient", "ipykernel==6.17.1", "ipython==7.34.0", "traitlets==5.7.1",
]  # fmt: skip
HOSTS = {
    "Colab": [
        "ipywidgets==7.7.1",
        "notebook==6.5.7",
        "jupyter-client==7.4.9",
        "tornado==6.4.2",
        "pyzmq==26.2.1",
    ],
    "Kaggle": ["ipywidgets==8.1.5", "notebook==6.5.4", "jupyter-client==8.6.3"],
}
SEEN = {"Colab": "7.7.1", "Kaggle": "8.1.5"}
NOBODY = 65534


def shared_python() -> str:
    """This version of Python, in a place that other users can read; this very one where nobody else is asked."""
    own = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    if os.geteuid() != 0:
        return str(own)
    for path in (own, Path("/usr/bin") / own.name, Path("/usr/local/bin") / own.name):
        if path.exists() and all(one.stat().st_mode & stat.S_IXOTH for one in path.resolve().parents):
            return str(path)
    pytest.skip(f"no {own.name} lies where another user than root can read it")


def done_or_skipped(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        pytest.skip(f"{what} cannot be made here: {' / '.join(done.stdout.strip().splitlines()[-3:])}")


def installer(python: Path) -> list[str]:
    """uv where it is, since it is quick; else pip. Both take the settings of pip that name places of packages."""
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    tool = shutil.which("uv", path=own)
    if tool is None:
        return [str(python), "-m", "pip", "install", "--quiet"]
    places = [word for place in os.environ.get("PIP_FIND_LINKS", "").split() for word in ("--find-links", place)]
    return [tool, "pip", "install", "--quiet", "--python", str(python), *places]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """A wheel of this copy of the course: what the tag of a repository would give."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True)
    if names.returncode:
        pytest.skip("this is no clone: which files belong to a wheel is not known")
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(out), str(copy)], check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module", params=HOSTS)
def host(request) -> Iterator[tuple[str, Path]]:
    """A folder that everybody can read, which holds a host's environment; it belongs to the user who learns."""
    folder = Path(tempfile.mkdtemp(prefix="course-host-"))  # pytest's own folders are closed to others
    try:
        folder.chmod(0o755)
        done_or_skipped([shared_python(), "-m", "venv", str(folder / "env")], "an environment with pip")
        command = [*installer(folder / "env" / "bin" / "python"), *COMMON, *HOSTS[request.param]]
        done_or_skipped(command, f"{request.param}'s environment")
        yield request.param, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tried(folder: Path, stem: str, wheel: Path) -> dict[str, Any]:
    """Run a hosted notebook, alone in a folder, as another user where this one is root."""
    work, home, trial = folder / f"work-{stem}", folder / "home", folder / "trial.py"
    work.mkdir()
    home.mkdir(exist_ok=True)
    for file in (wheel, TRIAL):
        shutil.copyfile(file, folder / (trial.name if file == TRIAL else file.name))
    source = [path for path in source_files(ROOT) if path.stem == stem]
    repository = repository_at("https://github.com/owner/course", "v1")
    made = hosted_files(source, ROOT, repository, (folder / wheel.name).as_uri())
    (work / f"{stem}.ipynb").write_text(made[f"hosted/{stem}.ipynb"], encoding="utf-8")
    user = None
    if os.geteuid() == 0:
        user = NOBODY
        subprocess.run(["chown", "-R", str(user), str(folder)], check=True)
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_", "REQUESTS_"))}
    env = {"HOME": str(home), "PATH": f"{folder / 'env' / 'bin'}:/usr/bin:/bin", "LANG": "C.UTF-8"} | kept
    command = [str(folder / "env" / "bin" / "python"), str(trial), f"{stem}.ipynb"]
    if tool := shutil.which("taskset"):
        command = [tool, "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])), *command]
    done = subprocess.run(command, cwd=work, env=env, user=user, capture_output=True, text=True)
    told = [line for line in done.stdout.splitlines() if line.startswith("TRIAL ")]
    assert told, done.stdout + done.stderr
    return json.loads(told[-1].removeprefix("TRIAL "))


@pytest.mark.parametrize("stem", ["05c_what_stays_whole", "00_start_here", "05b_whole_for_a_moment"])
def test_a_part_runs_where_a_hosts_versions_are(host, wheel, stem):
    name, folder = host
    found = tried(folder, stem, wheel)
    assert found["errors"] == []
    assert found["widgets"] > 0
    assert "KeyboardInterrupt" in found["install_interrupted"] or "The course is here" in found["installed"]
    assert found["installed"].splitlines()[-1].endswith(f"PyTorch is {version('torch')}.")
    assert "was replaced" not in found["installed"] or "nothing was replaced" in found["installed"]
    assert f"'ipywidgets': '{SEEN[name]}'" in found["versions"]
    assert "RankInterrupted" in found["interrupted"]
    assert "ranks: {0: 0, 1: 1}" in found["after_interrupt"] or "ranks: {1: 1, 0: 0}" in found["after_interrupt"]
    assert found["fresh"].strip() == "False"
    assert found["errors_after_restart"] == []
    assert found["after_restart"].startswith("The course is here")
