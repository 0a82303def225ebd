"""The files with which a class runs somewhere: scripts run dry, and values held against the image that they start."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import yaml  # jupyterlab brings it

from course_lib.base import paths
from course_lib.devices.lock_files import VARIABLE
from course_lib.lab.hub import settle
from course_lib.take_along import read_sbatch

ROOT = paths.project_root()
HUB = ROOT / "docs" / "instructor" / "hub"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
IGNORED = (ROOT / ".dockerignore").read_text()
VALUES = yaml.safe_load((HUB / "zero-to-jupyterhub.yaml").read_text())
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def run(script: str, *words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script with stand-ins first on the PATH, and none of this machine's variables but that."""
    env = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder), "USER": "ada", **variables}
    words = ("bash", str(HUB / script), *words)
    return subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, timeout=60)


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def noting(name: str) -> str:
    return f'#!/bin/bash\necho "{name} $*" >> "$NOTES"\n'


# --- The Littlest JupyterHub ------------------------------------------------------------------------------------------


@pytest.fixture
def tljh(tmp_path: Path) -> Path:
    """A folder with what the script calls; each of them notes its words."""
    for name in ("git", "tljh-config"):
        write_program(tmp_path / "bin" / name, noting(name))
    python = f'#!/bin/bash\nif [[ $1 == - ]]; then exec {sys.executable} "$@"; fi\necho "python $*" >> "$NOTES"\n'
    write_program(tmp_path / "user" / "bin" / "python", python)
    return tmp_path


def run_tljh(folder: Path, *words: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    notes = folder / "notes"
    own = {
        "NOTES": str(notes),
        "COURSE_DIR": str(folder / "course"),
        "TLJH_USER_ENVIRONMENT": str(folder / "user"),
    }
    done = run("tljh.sh", *words, folder=folder, **own, **variables)
    return done, notes.read_text().splitlines() if notes.exists() else []


@needs_bash
def test_the_hub_gets_the_course_limits_and_a_culler(tljh: Path) -> None:
    done, notes = run_tljh(tljh, "https://example.org/many-gpus.git")
    assert done.returncode == 0, done.stderr
    course = tljh / "course"
    assert f"git clone --branch main https://example.org/many-gpus.git {course}" in notes
    assert f"python -m pip install -r {course}/requirements.txt nbgitpuller" in notes
    assert f"python -m pip install --no-deps --editable {course}" in notes
    assert notes.index("python -m course_lib.lab.hub") > notes.index(
        f"python -m pip install --no-deps --editable {course}"
    )
    assert "tljh-config set limits.memory 3G" in notes
    assert "tljh-config set services.cull.timeout 3600" in notes
    assert notes[-1] == "tljh-config reload"
    link = done.stdout.split()[-1]
    assert "git-pull?repo=https%3A%2F%2Fexample.org%2Fmany-gpus.git&branch=main" in link
    assert link.endswith("urlpath=lab%2Ftree%2Fmany-gpus%2Fnotebooks%2F00_start_here.ipynb")


ADDRESSES = {
    "https://example.org/many-gpus.git": "many-gpus",
    "https://example.org/many-gpus": "many-gpus",
    "https://example.org/many-gpus/": "many-gpus",
    "https://example.org/many-gpus.git/": "many-gpus",
    "git@example.org:many-gpus.git": "many-gpus",
    "ssh://git@example.org:22/a/many-gpus.git": "many-gpus",
    "/srv/git/many gpus.git": "many-gpus",
    "https://example.org/many-gpus.git?token=a": "many-gpus",
    "https://example.org/.git": "one-model-many-gpus",
}


@needs_bash
def test_the_link_opens_the_lesson_in_the_folder_that_nbgitpuller_makes(tljh: Path) -> None:
    for address, folder in ADDRESSES.items():
        done, _ = run_tljh(tljh, address)
        query = parse_qs(done.stdout.split()[-1].partition("?")[2])
        assert query["repo"] == [address]
        assert query["targetpath"] == [folder]
        assert query["urlpath"] == [f"lab/tree/{folder}/notebooks/00_start_here.ipynb"]


def test_servers_of_a_hub_are_told_what_course_lab_is_and_keep_their_other_settings(tmp_path: Path) -> None:
    settle(tmp_path)
    servers = tmp_path / "etc" / "jupyter" / "jupyter_server_config.json"
    pages = tmp_path / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    told, news = json.loads(servers.read_text()), "@jupyterlab/apputils-extension:notification"
    assert told["LanguageServerManager"] == {"autodetect": False}
    assert told["LabApp"] == {"custom_css": True, "expose_app_in_browser": True}
    assert told["ServerApp"] == {"jpserver_extensions": {"course_lib.lab.hub": True}}
    assert json.loads(pages.read_text())[news] == {"fetchNews": "false"}
    theirs = {
        "ServerApp": {"x": 1, "jpserver_extensions": {"y": True}},
        "LanguageServerManager": {"autodetect": True},
    }
    servers.write_text(json.dumps(theirs))
    pages.write_text(json.dumps({news: {"fetchNews": "true", "checkForUpdates": False}, "z": {}}))
    for _ in range(2):
        settle(tmp_path)
        again, seen = json.loads(servers.read_text()), json.loads(pages.read_text())
        assert again["ServerApp"] == {"x": 1, "jpserver_extensions": {"y": True, "course_lib.lab.hub": True}}
        assert again["LanguageServerManager"] == {"autodetect": False}
        assert (seen["z"], seen[news]) == ({}, {"fetchNews": "false", "checkForUpdates": False})


@pytest.mark.parametrize(("text", "said"), [("{", "is no JSON"), ("[]", "holds list, not settings")])
def test_a_settings_file_that_cannot_be_read_is_named_and_left(tmp_path: Path, text: str, said: str) -> None:
    servers = tmp_path / "etc" / "jupyter" / "jupyter_server_config.json"
    servers.parent.mkdir(parents=True)
    servers.write_text(text)
    with pytest.raises(ValueError, match=said):
        settle(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [servers]
    assert servers.read_text() == text


@needs_bash
def test_a_second_run_pulls_and_limits_can_be_told(tljh: Path) -> None:
    (tljh / "course" / ".git").mkdir(parents=True)
    _, notes = run_tljh(tljh, "https://example.org/many-gpus.git", LEARNER_MEMORY="5G")
    assert notes[0] == f"git -C {tljh / 'course'} pull --ff-only"
    assert "tljh-config set limits.memory 5G" in notes


@needs_bash
def test_without_a_hub_or_a_repository_nothing_is_changed(tljh: Path) -> None:
    done, notes = run_tljh(tljh)
    assert done.returncode != 0
    assert "Say where the course is" in done.stderr
    (tljh / "user" / "bin" / "python").unlink()
    done, more = run_tljh(tljh, "https://example.org/many-gpus.git")
    assert done.returncode == 2
    assert "install The Littlest JupyterHub first" in done.stderr
    assert notes == more == []


# --- Slurm ------------------------------------------------------------------------------------------------------------

SBATCH = (HUB / "course-lab.sbatch").read_text()


def test_slurm_reads_its_lines() -> None:
    options = read_sbatch(SBATCH)
    assert options["ntasks"] == options["nodes"] == "1"
    assert "gpus" not in options, "a job without a GPU waits less; the learner takes one # away"
    assert read_sbatch(SBATCH.replace("##SBATCH", "#SBATCH"))["gpus"] == "1"


@needs_bash
def test_a_job_starts_the_course_and_its_log_is_private(tmp_path: Path) -> None:
    write_program(tmp_path / "course" / "course", '#!/bin/bash\necho "course $*"\n')
    log = tmp_path / "log"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "USER": "ada", "SLURM_JOB_ID": "7"}
    env |= {"SLURM_SUBMIT_HOST": "login1", "COURSE": str(tmp_path / "course")}
    with log.open("w") as file:
        words = ["bash", str(HUB / "course-lab.sbatch")]
        subprocess.run(words, env=env, cwd=tmp_path, stdout=file, check=True, timeout=60)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    text = log.read_text()
    assert "-J ada@login1" in text
    assert text.splitlines()[-1] == "course lab --no-browser"


@needs_bash
def test_a_job_says_what_is_missing(tmp_path: Path) -> None:
    done = run("course-lab.sbatch", folder=tmp_path)
    assert "hand this file to Slurm" in done.stderr
    done = run("course-lab.sbatch", folder=tmp_path, SLURM_JOB_ID="7")
    assert done.returncode == 2
    assert f"There is no {tmp_path}/one-model-many-gpus/course" in done.stderr


# --- The image, and Kubernetes ----------------------------------------------------------------------------------------


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions: each a word and the rest, on one line."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def test_the_image_runs_as_a_learner_who_cannot_change_the_course() -> None:
    words = [word for word, _ in instructions()]
    users = [rest for word, rest in instructions() if word == "USER"]
    assert users == ["1000"]
    assert words.index("USER") > max(number for number, word in enumerate(words) if word in ("COPY", "RUN"))
    assert "--uid 1000" in DOCKERFILE
    assert "go+rX,go-w /opt/course" in DOCKERFILE


@needs_bash
@pytest.mark.parametrize(("torch", "code"), [("cpu", 0), ("cuda", 0), ("rocm", 2)])
def test_the_images_torch_is_for_cpus_or_cuda(torch: str, code: int, tmp_path: Path) -> None:
    install = next(rest for word, rest in instructions() if word == "RUN" and "$TORCH" in rest)
    write_program(tmp_path / "bin" / "pip", '#!/bin/bash\necho "pip $*"\n')
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "TORCH": torch,
        "TORCH_CPU_INDEX": "https://cpu",
    }
    done = subprocess.run(["sh", "-c", install], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert ("--extra-index-url https://cpu" in done.stdout) == (torch == "cpu")
    assert code == 0 or "TORCH is cpu or cuda, not rocm" in done.stderr


def test_the_image_is_made_of_what_git_has() -> None:
    ignored = IGNORED.replace("[(]", "(").replace("[)]", ")").split()
    for line in (ROOT / ".gitignore").read_text().split():
        name = line.strip("/").removeprefix("*")
        assert any(name in entry for entry in ignored) or name == ".pyc", f"{line} would go into the image"


@pytest.mark.parametrize("special", [".$", ".+()|{}$"], ids=["older builders", "newer builders"])
def test_no_lesson_is_left_out_of_the_image(special: str) -> None:
    """A builder makes regular expressions of .dockerignore; older ones left brackets as they were."""
    words = {"**/": "(.*/)?", "*": "[^/]*"} | {one: re.escape(one) for one in special}
    parts = re.compile("|".join(map(re.escape, words)))
    patterns = [re.compile(parts.sub(lambda found: words[found[0]], line)) for line in IGNORED.split()]

    def is_left_out(path: str) -> bool:
        return any(pattern.fullmatch(path) for pattern in patterns)

    kept = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]
    assert [path for path in kept if "(" not in path and is_left_out(path)] == []
    assert not any(map(is_left_out, ("course_lib", "notebooks/src", "notebooks/solutions", "assets", "README.md")))
    assert all(map(is_left_out, (".git", ".venv", "notebooks/00_start_here (2).ipynb", "course_lib/__pycache__")))


def test_pods_fit_the_image() -> None:
    singleuser = VALUES["singleuser"]
    assert f"--uid {singleuser['uid']}" in DOCKERFILE
    home = singleuser["storage"]["homeMountPath"]
    assert f"WORKDIR {home}" in DOCKERFILE
    assert singleuser["extraEnv"]["COURSE_FOLDER"].startswith(home)
    assert singleuser["defaultUrl"].endswith("/notebooks/00_start_here.ipynb")
    assert "JUPYTERHUB" in DOCKERFILE, "a pod starts jupyterhub-singleuser, which that argument installs"


def test_shared_memory_is_mounted_and_counts_towards_the_limit() -> None:
    storage = VALUES["singleuser"]["storage"]
    (volume,), (mount,) = storage["extraVolumes"], storage["extraVolumeMounts"]
    assert volume["name"] == mount["name"]
    assert mount["mountPath"] == "/dev/shm"
    assert volume["emptyDir"]["medium"] == "Memory"
    number = {"G": 1e9, "Gi": 2**30}

    def size_bytes(text: str) -> float:
        found = re.fullmatch(r"(\d+)(Gi?)", text)
        assert found
        return int(found[1]) * number[found[2]]

    memory = VALUES["singleuser"]["memory"]
    assert size_bytes(volume["emptyDir"]["sizeLimit"]) < size_bytes(memory["limit"])
    assert size_bytes(memory["guarantee"]) <= size_bytes(memory["limit"])


def uncommented(text: str, start: str, end: str) -> object:
    """The YAML that stands in comments between two lines, as it is once the # are taken away."""
    lines = text[text.index(start) : text.index(end)].splitlines()
    return yaml.safe_load("\n".join(line.removeprefix("#") for line in lines))


def test_pods_that_share_a_gpu_get_one_folder_of_the_node() -> None:
    """The lines to take in, for clusters where one GPU goes to several pods: they fit each other and the course."""
    text = (HUB / "zero-to-jupyterhub.yaml").read_text()
    added = uncommented(text, "#     extraVolumes:", "# Every pod then")
    assert isinstance(added, dict)
    (volume,), (mount,) = added["extraVolumes"], added["extraVolumeMounts"]
    assert volume["name"] == mount["name"] != "shared-memory"
    assert f"mkdir -p {volume['hostPath']['path']} && chmod 1777 {volume['hostPath']['path']}" in text
    assert volume["hostPath"]["type"] == "Directory"  # one that Kubernetes made would be root's alone
    taken_in = yaml.safe_load(re.sub(r"# (environment: \{[^}]*\})", r"\1", text))
    shared = [one["kubespawner_override"] for one in taken_in["singleuser"]["profileList"][1:]]
    named = [one["environment"] for one in shared if "environment" in one]
    assert named == [{VARIABLE: mount["mountPath"]}]
    assert VALUES["singleuser"]["extraEnv"].get(VARIABLE) is None, "pods on the CPU have cores of their own"


def test_profiles_have_one_default_and_gpus_by_their_names() -> None:
    profiles = VALUES["singleuser"]["profileList"]
    assert [profile.get("default", False) for profile in profiles].count(True) == 1
    for profile in profiles:
        override = profile.get("kubespawner_override", {})
        gpus = override.get("extra_resource_limits", {}).get("nvidia.com/gpu")
        assert (gpus is not None) == ("GPU" in profile["display_name"] and "Without" not in profile["display_name"])
        assert gpus is None or override["image"].endswith("-cuda")


def test_links_of_the_page_lead_somewhere() -> None:
    page = ROOT / "docs" / "instructor" / "where-it-runs.md"
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
