"""environment.yml, pyproject.toml and requirements.txt say the same, and CI does what the README says."""

from __future__ import annotations

import importlib.metadata
import re
import stat
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LINES = [line.strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
PIN_LINES = [line for line in LINES if line and not line.startswith("#")]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
# They come with torch's CUDA build, which asks for each by its exact version.
CUDA = re.compile(r"(nvidia-(?!ml-py)|cuda-|triton)")
# The first release of each Python that the course is for: the strictest that a pin can be asked to fit.
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")
# Of one system or one Python only; pip picks the version there.
ELSEWHERE = {"pywinpty", "colorama", "appnope", "importlib-metadata", "tomli", "exceptiongroup"}
# Pinned, and needed by some Pythons and systems but not by all.
SOMETIMES = {"overrides", "pexpect", "ptyprocess", "typing-extensions", "cffi", "pycparser"}


def pins() -> dict[str, Version]:
    """Each pinned package by its name in normal form, with the version."""
    found = {}
    for line in PIN_LINES:
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        found[canonicalize_name(requirement.name)] = Version(specifier.version)
    return found


def asked() -> list[Requirement]:
    """What pyproject.toml asks for, with its extra `dev`, which the tests need."""
    return [Requirement(line) for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]


def test_every_line_is_an_exact_pin() -> None:
    for line in PIN_LINES:
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", line
        assert "*" not in specifier.version, line
        assert Version(specifier.version).local is None, f"{line}: a local version exists on one index only"
        assert not CUDA.match(canonicalize_name(requirement.name)), line


def test_no_package_is_pinned_twice() -> None:
    assert len(pins()) == len(PIN_LINES)


def test_torch() -> None:
    assert pins()["torch"] == Version("2.13.0")
    (torch,) = [requirement for requirement in asked() if requirement.name == "torch"]
    assert torch.specifier == SpecifierSet(">=2.11,<2.16")  # the releases that pass the tests


def test_prescribed_packages_are_asked_for() -> None:
    prescribed = {"torch", "jupyterlab", "ipywidgets", "matplotlib", "nbval", "pytest"}
    assert prescribed <= {Requirement(line).name for line in PROJECT["dependencies"]}


@pytest.mark.parametrize("requirement", asked(), ids=str)
def test_every_range_holds_its_pin(requirement: Requirement) -> None:
    pin = pins().get(canonicalize_name(requirement.name))
    assert pin is not None, "pyproject.toml asks for it and requirements.txt does not pin it"
    assert pin in requirement.specifier
    operators = {specifier.operator for specifier in requirement.specifier}
    assert operators == ({">=", "<"} if requirement.name == "torch" else {">="}), "a range, not a pin"


def test_first_sections_are_what_pyproject_asks_for() -> None:
    """The packages up to the section of what they bring are pyproject's, in its order."""
    third = next(index for index, line in enumerate(LINES) if line.startswith("# What those bring"))
    direct = [Requirement(line).name for line in LINES[:third] if line and not line.startswith("#")]
    assert direct == [requirement.name for requirement in asked()]


def brought() -> dict[str, str]:
    """Everything that the asked-for packages need in this environment, as installed: name -> version."""
    found: dict[str, str] = {}
    waiting = [(canonicalize_name(requirement.name), frozenset(requirement.extras)) for requirement in asked()]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        distribution = importlib.metadata.distribution(name)
        found[name] = distribution.version
        for line in distribution.requires or []:
            needs = Requirement(line)
            chosen = [{"extra": extra} for extra in (extras or {""})]
            if needs.marker is not None and not any(needs.marker.evaluate(extra) for extra in chosen):
                continue
            item = (canonicalize_name(needs.name), frozenset(needs.extras))
            if item not in seen:
                seen.add(item)
                waiting.append(item)
    return found


def test_what_the_packages_bring_is_pinned_too() -> None:
    installed = brought()
    wanted = pins()
    direct = [canonicalize_name(requirement.name) for requirement in asked()]
    if any(Version(Version(installed[name]).public) != wanted[name] for name in direct):
        pytest.skip("this environment was not made from requirements.txt")
    missing = {name for name in installed if name not in wanted and not CUDA.match(name)} - ELSEWHERE
    assert not missing
    stale = set(wanted) - set(installed) - SOMETIMES
    assert not stale


def test_environment_yml() -> None:
    assert ENVIRONMENT["channels"] == ["conda-forge", "nodefaults"]
    conda = [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in ENVIRONMENT["dependencies"] if isinstance(entry, dict)]
    assert pip == ["-r requirements.txt", "-e ."]
    assert sorted(re.split("[=<>]", entry)[0] for entry in conda) == ["pip", "python"]
    (python,) = [entry.split("=", 1)[1] for entry in conda if entry.startswith("python")]
    assert Version(python) in SpecifierSet(PROJECT["requires-python"])
    assert ENVIRONMENT["name"] == PROJECT["name"]


def pythons_in_script() -> tuple[str, str]:
    """The oldest and the newest Python that `course` takes."""
    text = (ROOT / "course").read_text()
    oldest, newest = re.findall(r"^(?:NEEDED|NEWEST) = \((\d+), (\d+)\)", text, re.MULTILINE)
    return ".".join(oldest), ".".join(newest)


def test_lowest_python_is_one_number() -> None:
    oldest, newest = pythons_in_script()
    assert PROJECT["requires-python"] == ">=" + oldest
    assert (f"{oldest}.0", f"{newest}.0") == (PYTHONS[0], PYTHONS[-1])
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert {oldest, newest} <= set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])


# --- One set of pins for every Python ------------------------------------------------------------------------------


def pinned_here() -> list[importlib.metadata.Distribution]:
    """The pinned packages of this environment; only where it holds exactly the pins can they speak for them."""
    found = []
    for name, version in pins().items():
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in SOMETIMES:
                continue
            pytest.skip(f"this environment was not made from requirements.txt: it lacks {name}")
        if Version(Version(distribution.version).public) != version:
            pytest.skip(f"this environment was not made from requirements.txt: {name} {distribution.version}")
        found.append(distribution)
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_is_for_every_python(python: str) -> None:
    """What each release says of itself: a pin that needs 3.11.5 fails on the 3.11.2 of Debian 12."""
    unfit = {
        distribution.name: needed
        for distribution in pinned_here()
        if (needed := distribution.metadata.get("Requires-Python")) and python not in SpecifierSet(needed)
    }
    assert not unfit


@pytest.mark.first_cases(1)
@pytest.mark.parametrize("python", PYTHONS)
def test_pins_hold_together_under_every_python(python: str) -> None:
    """What they ask of each other there is pinned, at a version that they accept."""
    there = {"python_full_version": python, "python_version": ".".join(python.split(".")[:2]), "extra": ""}
    wrong = []
    for distribution in pinned_here():
        for line in distribution.requires or []:
            needs = Requirement(line)
            name = canonicalize_name(needs.name)
            if needs.marker is not None and not needs.marker.evaluate(there):
                continue
            if name not in pins() and not CUDA.match(name) and name not in ELSEWHERE:
                wrong.append(f"{distribution.name} needs {line}, which is not pinned")
            elif name in pins() and pins()[name] not in needs.specifier:
                wrong.append(f"{distribution.name} needs {line}, and {pins()[name]} is pinned")
    assert not wrong


def test_build_needs_are_met_by_the_pins() -> None:
    """./course builds the project without isolation, so its build back end comes from requirements.txt."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for requirement in map(Requirement, build):
        assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_ci_does_nothing_but_course_test() -> None:
    script = ROOT / ".ci" / "run"
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "${BASH_SOURCE[0]}")/.."', "./course test"]
    assert script.stat().st_mode & stat.S_IXUSR
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert steps == [".ci/run", "./course test unit --long -m long", "./course test learner --whole"]
    assert set(workflow["jobs"]) == {"test", "portable", "browser", "places"}
    portable = workflow["jobs"]["portable"]
    assert portable["if"] == "github.event_name == 'schedule'"
    assert [step["run"] for step in portable["steps"] if "run" in step] == ["./course test portable"]
    (pythons,) = (step["with"]["python-version"] for step in portable["steps"] if "with" in step)
    assert sorted(pythons.split()) == sorted(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])
    install, run = (step["run"] for step in workflow["jobs"]["browser"]["steps"] if "run" in step)
    for wanted in PROJECT["optional-dependencies"]["browser"]:
        assert f'"{wanted}"' in install
    assert "./course test unit tests/browser" in run


def test_a_hub_and_slurm_are_installed_and_tried_every_night() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    places = workflow["jobs"]["places"]
    assert places["if"] == "github.event_name == 'schedule'"
    commands = [step["run"] for step in places["steps"] if "run" in step]
    installs = "\n".join(command for command in commands if " install " in command)
    for wanted in (*PROJECT["optional-dependencies"]["hub"], *PROJECT["optional-dependencies"]["browser"]):
        assert f'"{wanted}"' in installs
    assert {"slurmctld", "slurmd", "munge", "configurable-http-proxy", "chromium"} <= set(installs.split())
    assert commands[-1] == "./course test unit tests/places tests/notebooks/test_nbgrader.py --long"
    assert all(f"{place}" in commands[-2] for place in ("hub", "slurm", "exchange", "_here.py"))


def test_the_site_is_built_checked_and_published_by_actions_of_known_content() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text())
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    commands = "\n".join(step["run"] for step in build["steps"] if "run" in step)
    assert re.search(r"tests/site .*\n(.*\n)*course site --out site --repo.*\ncourse site --out site --check", commands)
    assert publish["if"] == "github.event_name == 'push'"
    assert publish["needs"] == "build"
    uses = [step["uses"] for job in (build, publish) for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in uses), "a tag can be moved"
    assert workflow["permissions"] == {"contents": "read"}


def test_extras_that_are_not_pinned_ask_for_ranges_that_are_met_here() -> None:
    for extra in ("browser", "hub", "site"):
        for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
            assert {specifier.operator for specifier in requirement.specifier} == {">="}, requirement
            try:
                installed = importlib.metadata.version(requirement.name)
            except importlib.metadata.PackageNotFoundError:
                continue  # optional
            assert Version(installed) in requirement.specifier, requirement


def test_licence() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"


def test_the_version_is_one() -> None:
    """Of the package, of what to cite, and of the newest entry of the changelog."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == PROJECT["version"]
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == PROJECT["version"]
    assert {"title", "authors", "license", "message"} <= set(citation)


@pytest.mark.parametrize("name", ["cell_failed.yml", "check_unfair.yml"])
def test_issue_forms_ask_for_what_the_doctor_says(name: str) -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / name).read_text())
    assert {"name", "description", "body"} <= set(form)
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] and part["validations"]["required"] for part in asked)
    assert any("course doctor --json" in part["attributes"]["label"] for part in asked)


def test_pins_and_actions_are_refreshed_every_month() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"pip", "github-actions"}
    assert all(update["schedule"]["interval"] == "monthly" for update in updates)
    (ignored,) = next(update for update in updates if update["package-ecosystem"] == "pip")["ignore"]
    torch = next(Requirement(line) for line in PROJECT["dependencies"] if Requirement(line).name == "torch")
    (first_ignored,) = SpecifierSet(ignored["versions"][0])
    assert first_ignored.version not in torch.specifier, "the bot leaves out what pyproject.toml refuses"
