"""Hosted notebooks: what is written, where its links lead, what its first cell does, and whose files are kept."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from fake_nvml import FakeGpu, FakeNvml
from packaging.requirements import Requirement
from small_course import small_course

import course_lib
from course_lib.authoring.notebooks.cli import main
from course_lib.authoring.notebooks.hosted.first_cell import NEEDS, OLDEST_WIDGETS, first_cell
from course_lib.authoring.notebooks.hosted.folder import MANIFEST, hosted_files, write_hosted
from course_lib.authoring.notebooks.hosted.repository import Repository, need_tag, need_wheel, repository_at
from course_lib.devices import look
from course_lib.devices.torch_builds import TorchBuild
from course_lib.lessons.info import LessonError, lesson_info, source_files

ROOT = Path(__file__).resolve().parents[2]
SOURCES = source_files(ROOT)
GITHUB = "https://github.com/owner/the-course"
ELSEWHERE = "https://code.example.org/owner/the-course"
TYPED = ["--hosted", "--repository", GITHUB, "--tag", "v1.2"]


def at(address: str = GITHUB, pictures: str = "") -> Repository:
    return repository_at(address, "v1.2", pictures)


@pytest.fixture(
    scope="module",
    params=[pytest.param(8, id="some parts"), pytest.param(1, id="all parts", marks=pytest.mark.long)],
)
def parts(request) -> list[Path]:
    return SOURCES[:: request.param]


@pytest.fixture(scope="module")
def files(parts) -> dict[str, str]:
    return hosted_files(parts, ROOT, at())


@pytest.fixture(scope="module")
def notebooks(files: dict[str, str]) -> dict[str, nbformat.NotebookNode]:
    return {name: nbformat.reads(text, 4) for name, text in files.items() if name.endswith(".ipynb")}


def targets_of(markdown: str) -> list[str]:
    bare = re.sub(r"```.*?```|`[^`\n]*`", "", markdown, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", bare) + re.findall(r"(?:src|href)=\"([^\"]+)\"", bare)


def markdown_of(notebook: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


# --- What is written ----------------------------------------------------------------------------------------------


def test_each_part_is_a_notebook_whose_first_code_cell_installs_the_course(parts, notebooks):
    assert len(notebooks) == len(parts)
    for name, notebook in notebooks.items():
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert notebook.cells[1] is code[0], name
        assert f'COURSE = "one-model-many-gpus @ git+{GITHUB}@v1.2"' in code[0].source
        assert len({cell.id for cell in notebook.cells}) == len(notebook.cells), name
        assert not any(cell.outputs for cell in code)


def test_the_rest_is_the_learners_copy(parts, notebooks):
    for source in parts:
        learner = nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", 4)
        hosted = notebooks[f"hosted/{source.stem}.ipynb"]
        here, there = [[cell.source for cell in one.cells if cell.cell_type == "code"] for one in (learner, hosted)]
        assert there[1:] == here
        assert len(hosted.cells) == len(learner.cells) + 1


def test_a_hosted_notebook_has_the_label_of_its_lesson(tmp_path, files):
    path = tmp_path / f"{SOURCES[0].stem}.ipynb"
    path.write_text(files[f"hosted/{path.name}"])
    assert lesson_info(path) == lesson_info(SOURCES[0])


def test_pictures_are_addresses_of_files_that_the_course_has(notebooks):
    raw, seen = "https://raw.githubusercontent.com/owner/the-course/v1.2/assets/", set()
    for name, notebook in notebooks.items():
        for target in targets_of(markdown_of(notebook)):
            assert urlsplit(target).scheme in ("http", "https") or target.startswith("#"), f"{name}: {target}"
            if target.startswith(raw):
                seen.add(target.removeprefix(raw))
    assert len(seen) > len(notebooks)
    assert not [one for one in seen if not (ROOT / "assets" / one).is_file()]


def test_links_lead_to_files_of_the_repository(notebooks):
    shown = f"{GITHUB}/blob/v1.2/"
    paths = {
        target.removeprefix(shown).partition("#")[0]
        for notebook in notebooks.values()
        for target in targets_of(markdown_of(notebook))
        if target.startswith(shown)
    }
    hosted = {f"hosted/{source.stem}.ipynb" for source in SOURCES}
    assert {"notebooks/glossary.md", "docs/hosted.md"} <= paths
    assert paths & hosted
    assert not [path for path in paths - hosted if not (ROOT / path).is_file()]


def test_badges_open_this_notebook_at_each_host(notebooks):
    first = notebooks["hosted/00_start_here.ipynb"].cells[0].source.splitlines()[0]
    file = "owner/the-course/blob/v1.2/hosted/00_start_here.ipynb"
    assert re.findall(r"\]\((https:[^)]+)\)(?= |$)", first) == [
        f"https://colab.research.google.com/github/{file}",
        f"https://kaggle.com/kernels/welcome?src=https://github.com/{file}",
        "https://mybinder.org/v2/gh/owner/the-course/v1.2?labpath=hosted%2F00_start_here.ipynb",
        "https://codespaces.new/owner/the-course?quickstart=1",
    ]
    images = re.findall(r"\[!\[[^]]+\]\((https://[^)]+\.svg)\)", first)
    assert len(images) == 4


def test_a_page_has_the_badges_of_all_parts(parts, files):
    page = files["hosted/README.md"]
    rows = [line for line in page.splitlines() if ".ipynb)" in line]
    assert len(rows) == len(parts)
    for source, row in zip(parts, rows, strict=True):
        assert row.count(f"{source.stem}.ipynb") == 4  # the file itself, and three hosts; a codespace holds all
        assert row.count("codespaces.new") == 1


def test_equal_input_gives_equal_bytes(files):
    again = hosted_files(SOURCES[:1], ROOT, at())
    assert again["hosted/00_start_here.ipynb"] == files["hosted/00_start_here.ipynb"]
    assert again["binder/requirements.txt"] == files["binder/requirements.txt"]


def test_what_binder_and_codespaces_read_installs_the_same_course(files):
    course = f'"one-model-many-gpus @ git+{GITHUB}@v1.2"'
    assert course in files["binder/postBuild"]
    assert files["binder/postBuild"].startswith("#!/bin/bash\n")
    assert re.fullmatch(r"python-3\.1[1-4]\n", files["binder/runtime.txt"])
    settings = json.loads(files[".devcontainer/devcontainer.json"])
    assert "binder/requirements.txt && bash binder/postBuild" in settings["postCreateCommand"]
    assert settings["image"].endswith(":" + files["binder/runtime.txt"].strip().removeprefix("python-"))
    lines = [line for line in files["binder/requirements.txt"].splitlines() if line[0] not in "#-"]
    pins = (ROOT / "requirements.txt").read_text().splitlines()
    assert lines
    assert not [line for line in lines if line not in pins]
    done = subprocess.run(["bash", "-n"], input=files["binder/postBuild"], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_wheel_can_stand_in_place_of_the_tag():
    wheel = "https://example.org/one_model_many_gpus-0.1.1-py3-none-any.whl"
    made = hosted_files(SOURCES[:1], ROOT, at(), wheel)
    assert (
        f'COURSE = "one-model-many-gpus @ {wheel}"'
        in nbformat.reads(made["hosted/00_start_here.ipynb"], 4).cells[1].source
    )
    assert wheel in made["binder/postBuild"]


# --- Other places than GitHub -------------------------------------------------------------------------------------


def test_gitlab_has_addresses_of_its_own_and_binder_alone():
    repository = at("https://gitlab.com/group/sub/course.git/")
    assert repository.pictures == "https://gitlab.com/group/sub/course/-/raw/v1.2/assets"
    assert repository.page_of("a.md") == "https://gitlab.com/group/sub/course/-/blob/v1.2/a.md"
    (badge,) = repository.badges("hosted/a.ipynb")
    assert badge.address == "https://mybinder.org/v2/gl/group%2Fsub%2Fcourse/v1.2?labpath=hosted%2Fa.ipynb"
    page = hosted_files(SOURCES[:1], ROOT, repository)["hosted/README.md"]
    assert "upload it there" in page
    assert "Codespaces |" not in page


def test_elsewhere_pictures_are_where_somebody_says_and_links_are_words(tmp_path):
    root = small_course(tmp_path)
    repository = at(ELSEWHERE, "https://pictures.example.org/course/")
    made = hosted_files(source_files(root), root, repository)
    text = {name: nbformat.reads(made[f"hosted/{name}.ipynb"], 4) for name in ("01a_two", "01b_more")}
    assert "![Two boxes](https://pictures.example.org/course/01_boxes.png)" in markdown_of(text["01a_two"])
    assert "Before: part 1, and its word." in markdown_of(text["01b_more"])
    (badge,) = repository.badges("hosted/01a_two.ipynb")
    assert unquote(badge.address) == f"https://mybinder.org/v2/git/{ELSEWHERE}/v1.2?labpath=hosted/01a_two.ipynb"


# --- The first cell -----------------------------------------------------------------------------------------------


@pytest.fixture
def host(monkeypatch):
    """A host as a test describes it: ``has`` are its packages, ``ran`` what pip was asked; and no real pip."""
    made = SimpleNamespace(has={"torch": "2.14.0+cu128", "ipywidgets": "7.7.1"}, ran=[], fails="", kept="")
    real = importlib.util.find_spec

    def run(command, **_):
        if "--constraint" in command:
            made.kept = Path(command[command.index("--constraint") + 1]).read_text()
        made.ran.append(command[command.index("--disable-pip-version-check") + 1 :])
        if not made.fails:
            wanted = [word for word in made.ran[-1] if word[0].isalpha()]
            made.has |= {re.split("[<>=! ]", word)[0]: "99" for word in wanted}
        return SimpleNamespace(returncode=bool(made.fails), stdout=made.fails)

    def find(name, *rest):
        there = name != "course_lib" or "one-model-many-gpus" in made.has
        return real(name, *rest) if there else None

    def distributions():
        return [SimpleNamespace(name=name, version=version) for name, version in made.has.items()]

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(importlib.metadata, "distributions", distributions)
    monkeypatch.setattr(importlib.util, "find_spec", find)
    made.run = lambda: exec(first_cell("one-model-many-gpus @ here", course_lib.__version__), {})
    return made


def all_needs(**other: str) -> dict[str, str]:
    """Packages of a host that lacks nothing but the course."""
    return {Requirement(need).name: "99" for need in NEEDS} | {"torch": "2.13.0+cpu"} | other


def test_torch_and_the_widgets_of_the_host_are_kept_and_only_what_is_missing_is_installed(host, capsys):
    host.has = all_needs(ipywidgets="7.7.1", ipykernel="6.17.1")
    del host.has["jupytext"]
    host.run()
    missing, course = host.ran
    assert missing[-1] == "jupytext>=1.16"
    assert {"torch==2.13.0+cpu", "ipywidgets==7.7.1"} <= set(host.kept.split())
    assert course == ["--no-deps", "one-model-many-gpus @ here"]
    said = capsys.readouterr().out
    assert "a minute or two" in said
    assert "New here: jupytext, one-model-many-gpus. Of what was here, nothing was replaced." in said
    assert "PyTorch is 2.13.0+cpu." in said


def test_where_the_course_is_the_cell_does_nothing(host, capsys):
    host.has = all_needs() | {"one-model-many-gpus": course_lib.__version__}
    host.run()
    assert not host.ran
    assert capsys.readouterr().out.startswith("The course is here")


@pytest.mark.parametrize("version", ["2.10.0+cu126", "2.16.0", "1.13"])
def test_a_torch_that_does_not_fit_is_not_replaced(host, version):
    host.has = all_needs(torch=version)
    with pytest.raises(Exception, match=rf"PyTorch {re.escape(version)} is here, and .* replaces no PyTorch"):
        host.run()
    assert not host.ran


@pytest.mark.parametrize(("tool", "small"), [(None, True), ("/usr/bin/nvidia-smi", False)])
def test_without_torch_a_machine_without_gpus_gets_the_small_one(host, monkeypatch, capsys, tool, small):
    monkeypatch.setattr("shutil.which", lambda name: tool)
    del host.has["torch"]
    host.run()
    assert ("--extra-index-url" in host.ran[0]) is small
    assert any(word.startswith("torch>=") for word in host.ran[0])
    assert "PyTorch is missing" in capsys.readouterr().out


def test_a_pip_that_fails_is_told_in_its_own_words_and_without_a_traceback(host):
    host.fails = "ERROR: Could not find a version\nERROR: No matching distribution"
    with pytest.raises(Exception, match="is not installed") as caught:
        host.run()
    (text,) = caught.value._render_traceback_()
    assert text.startswith(host.fails)
    assert "Is the internet on?" in text


def test_names_with_underscores_are_the_same_packages(host):
    host.has = all_needs(scikit_learn="1.6.1", nvidia_ml_py="12.575.51")
    del host.has["scikit-learn"], host.has["nvidia-ml-py"]
    host.run()
    assert host.ran == [["--no-deps", "one-model-many-gpus @ here"]]


@pytest.mark.parametrize("enabled", [True, False, None])
def test_where_pip_installs_for_one_user_the_course_is_found_without_a_restart(host, monkeypatch, tmp_path, enabled):
    """Python looks at the user's folder when it starts, and then it may not have been there."""
    monkeypatch.setattr("site.ENABLE_USER_SITE", enabled)
    monkeypatch.setattr("site.getusersitepackages", lambda: str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    host.run()
    assert (str(tmp_path) in sys.path) is bool(enabled)


def test_the_first_cell_leaves_both_gpus_of_a_host_in_sight(host):
    """Two T4, as Kaggle gives them: the cell changes no variable of the environment and starts no CUDA."""
    before, had = dict(os.environ), set(sys.modules)
    host.run()
    assert dict(os.environ) == before
    assert not {name for name in set(sys.modules) - had if name.split(".")[0] in ("torch", "pynvml")}
    assert not re.search("CUDA_VISIBLE|COURSE_GPUS|environ", first_cell("a", "b"))
    two = (FakeGpu("Tesla T4", "GPU-a", "0000:00:04.0"), FakeGpu("Tesla T4", "GPU-b", "0000:00:05.0"))
    build = TorchBuild(version="2.14.0", cuda="12.8")
    found = look(env=dict(os.environ), nvml=FakeNvml(gpus=two), build=build)
    assert [device.uuid for device in found.devices] == ["GPU-a", "GPU-b"]
    assert found.tier == "many gpus"


def test_the_first_cell_names_nothing_that_a_lesson_could_miss():
    """It leaves four names behind, all its own: a cell that forgets an import still fails."""
    names: dict = {}
    text = first_cell("a", "b")
    exec(text.removesuffix("install_course()"), names)
    assert names.keys() - {"__builtins__"} == {"COURSE", "EDITION", "NEEDS", "NotInstalled", "install_course"}


def test_needs_are_those_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    ours = {Requirement(need).name: need for need in NEEDS}
    left_out = {Requirement(line).name for line in project} - ours.keys()
    assert left_out == {"jupyterlab", "nbval", "pytest", "pytest-xdist"}
    assert {line for line in project if Requirement(line).name in ours.keys() - {"ipywidgets"}} == {
        need for name, need in ours.items() if name != "ipywidgets"
    }
    assert ours["ipywidgets"] == f"ipywidgets>={OLDEST_WIDGETS}"


# --- What is typed wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("", "an address of the web"),
        ("my course", "an address of the web"),
        ("http://github.com/owner/course", "an address of the web"),
        ("git@github.com:owner/course.git", "an address of the web"),
        ("https://github.com/owner/co urse", "an address of the web"),
        ("https://github.com:port/owner/course", "an address of the web"),
        ("https://[github.com/owner/course", "an address of the web"),
        ("https://localhost/owner/course", "an address of the web"),
        ("https://github.com/owner/course?tab=readme", "an address of the web"),
        ('https://github.com/owner/co"urse', "an address of the web"),
        ("https://me:secret@github.com/owner/course", "every reader of a notebook would see it"),
        ("https://github.com/owner", "an owner and a name, as https://github.com/OWNER/NAME"),
        ("https://github.com", "names an owner and a repository"),
        ("https://github.com/owner/course/tree/main", "as https://github.com/owner/course$"),
        ("https://gitlab.com/group/-/raw", "names an owner and a repository"),
        (ELSEWHERE, "give --pictures ADDRESS"),
    ],
)
def test_an_address_that_is_none_gets_a_sentence(address, sentence):
    with pytest.raises(LessonError, match=sentence) as caught:
        repository_at(address, "v1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("tag", "nearest"),
    [("v1 beta", "v1-beta"), ("", "v1.0"), ("release/1", "release-1"), ("-f", "f"), ("a..b", "a.b"), ("v1.lock", "v1"),
     ("v1.", "v1"), ("v1@x", "v1-x"), ("v" * 101, "v" * 100), ("$(date)", "date")],
)  # fmt: skip
def test_a_tag_that_cannot_be_one_gets_a_sentence_with_the_nearest(tag, nearest):
    with pytest.raises(LessonError, match=f"The nearest that works is {re.escape(nearest)}$"):
        need_tag(tag)
    need_tag(nearest)


@pytest.mark.parametrize("address", ["course.whl", "https://example.org/torch-2.whl", "https://example.org/a b.whl"])
def test_a_wheel_that_is_none_gets_a_sentence(address):
    with pytest.raises(LessonError, match="--wheel is"):
        need_wheel(address)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["--hosted"], "--hosted needs --repository"),
        (["--hosted", "--repository", GITHUB], "--hosted needs --tag"),
        (["--tag", "v1"], "--tag belongs to hosted notebooks"),
        ([*TYPED, "--check"], "does not go together with --check"),
        ([*TYPED, "--nbgrader"], "does not go together with --nbgrader"),
        ([*TYPED, "--pictures", "assets"], "--pictures is 'assets'; it is an address of the web"),
        ([*TYPED, "77"], "there is no lesson '77'"),
    ],
)
def test_options_that_do_not_fit_get_a_sentence(tmp_path, capsys, typed, sentence):
    root = small_course(tmp_path / "course")
    assert main([*typed], root=root) == 1
    assert sentence in capsys.readouterr().err
    assert not (root / "hosted").exists()


# --- Whose files are kept -----------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path) -> Path:
    made = small_course(tmp_path / "course")
    (made / "pyproject.toml").write_text("[project]\n")
    return made


def written(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_new_folder_gets_all_and_a_second_build_changes_nothing(root, tmp_path, capsys):
    folder = tmp_path / "out"
    assert main([*TYPED, "--to", str(folder)], root=root) == 0
    found = written(folder)
    assert found == {
        "hosted/01a_two.ipynb", "hosted/01b_more.ipynb", "hosted/README.md", "hosted/hosted.json",
        "binder/requirements.txt", "binder/runtime.txt", "binder/postBuild", ".devcontainer/devcontainer.json",
    }  # fmt: skip
    assert os.access(folder / "binder" / "postBuild", os.X_OK)
    before = {name: (folder / name).read_bytes() for name in found}
    assert main([*TYPED, "--to", str(folder)], root=root) == 0
    assert {name: (folder / name).read_bytes() for name in written(folder)} == before
    assert "git tag v1.2" in capsys.readouterr().out


def test_without_a_folder_the_copy_of_the_course_gets_them(root):
    before = written(root)
    assert main([*TYPED, "01b"], root=root) == 0
    assert {name for name in written(root) - before if name.endswith(".ipynb")} == {"hosted/01b_more.ipynb"}
    assert before <= written(root)


def test_an_installed_course_writes_nothing_into_its_package(root, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("course_lib.authoring.notebooks.hosted.command.is_installed", lambda place: place == root)
    before = written(root)
    assert main(TYPED, root=root) == 1
    assert "needs --to FOLDER" in capsys.readouterr().err
    assert main([*TYPED, "--to", str(tmp_path / "out")], root=root) == 0
    assert written(root) == before


def test_another_tag_renews_what_was_written_and_a_lesson_that_is_gone_goes(root, tmp_path):
    folder = tmp_path / "out"
    assert main([*TYPED, "--to", str(folder)], root=root) == 0
    typed = ["--hosted", "--repository", GITHUB, "--tag", "v1.3", "--to", str(folder), "01a"]
    assert main(typed, root=root) == 0
    assert "the-course@v1.3" in (folder / "binder" / "postBuild").read_text()
    assert not (folder / "hosted" / "01b_more.ipynb").exists()


@pytest.mark.parametrize("name", ["hosted/01a_two.ipynb", "binder/postBuild", ".devcontainer/devcontainer.json"])
@pytest.mark.parametrize("built", [True, False])
def test_a_file_of_a_person_is_named_and_nothing_is_written(root, tmp_path, capsys, name, built):
    folder = tmp_path / "out"
    if built:
        assert main([*TYPED, "--to", str(folder)], root=root) == 0
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / ".git").mkdir(exist_ok=True)
    (folder / name).write_text("mine")
    before = {one: (folder / one).read_bytes() for one in written(folder)}
    assert main(["--hosted", "--repository", GITHUB, "--tag", "v1.3", "--to", str(folder)], root=root) == 1
    assert {one: (folder / one).read_bytes() for one in written(folder)} == before
    assert f"{name} is not as `course build --hosted` wrote it" in capsys.readouterr().err


def test_a_link_at_the_place_of_a_file_is_a_persons(root, tmp_path):
    folder, target = tmp_path / "out", tmp_path / "notes"
    (folder / "binder").mkdir(parents=True)
    (folder / ".git").mkdir()
    target.write_text("mine")
    (folder / "binder" / "postBuild").symlink_to(target)
    with pytest.raises(LessonError, match="binder/postBuild"):
        write_hosted(hosted_files(source_files(root), root, at()), folder, root)
    assert target.read_text() == "mine"


def test_a_notebook_that_a_person_put_beside_ours_stays(root, tmp_path):
    folder = tmp_path / "out"
    assert main([*TYPED, "--to", str(folder)], root=root) == 0
    (folder / "hosted" / "my_own.ipynb").write_text("{}")
    (folder / "hosted" / "01b_more.ipynb").write_text("{}")
    assert main([*TYPED, "--to", str(folder), "01a"], root=root) == 0
    assert (folder / "hosted" / "my_own.ipynb").exists()
    assert (folder / "hosted" / "01b_more.ipynb").read_text() == "{}"


@pytest.mark.parametrize("where", ["other", "file", "notebooks", "locked"])
def test_a_folder_that_is_none_of_ours_gets_a_sentence(root, tmp_path, capsys, where):
    folder = {"notebooks": root / "notebooks" / "out", "file": tmp_path / "file"}.get(where, tmp_path / "out")
    if where == "file":
        folder.write_text("mine")
    elif where == "other":
        folder.mkdir()
        (folder / "thesis.tex").write_text("mine")
    elif where == "locked":
        (tmp_path / "a file").write_text("")
        folder = tmp_path / "a file" / "out"
    sentence = {
        "other": "holds other work (thesis.tex); --to is a new or empty folder",
        "file": "is a file; --to is a folder",
        "notebooks": "lies among the course's own notebooks",
        "locked": "cannot be written (Not a directory)",
    }
    assert main([*TYPED, "--to", str(folder)], root=root) == 1
    assert sentence[where] in capsys.readouterr().err
    assert where != "other" or written(folder) == {"thesis.tex"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"../../thesis.tex": "x"}', "[" * 10000])
def test_a_list_that_is_damaged_loses_nobody_anything(root, tmp_path, text):
    folder = tmp_path / "out"
    assert main([*TYPED, "--to", str(folder)], root=root) == 0
    (folder / MANIFEST).write_text(text)
    (folder / "hosted" / "README.md").write_text("mine")
    assert main([*TYPED, "--to", str(folder)], root=root) == 1
    assert (folder / "hosted" / "README.md").read_text() == "mine"


def test_links_of_the_page_about_hosts_lead_somewhere():
    page = ROOT / "docs" / "hosted.md"
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target
