"""The first cell of a hosted notebook: it installs the course, and leaves the host's own packages as they are.

A host chooses PyTorch for its GPUs, and ipywidgets for its page (Colab's page speaks ipywidgets 7). So what is here
and fits is kept by a constraint, what is missing is installed, and the course itself comes without its dependencies,
among which is a JupyterLab that a hosted notebook has no use for. The course is installed last: where it is found,
all is there. The cell sets no variable of the environment and imports no torch, so it hides no GPU.
"""

from __future__ import annotations

from string import Template

__all__ = ["NEEDS", "OLDEST_WIDGETS", "TORCH", "first_cell"]

OLDEST_WIDGETS = "7.7.1"  # Colab's; a course of one's own asks for more in pyproject.toml
TORCH = "torch>=2.11,<2.16"
# What pyproject.toml asks for and cells use; not its JupyterLab, nor what only tests and builds need.
NEEDS = (
    TORCH,
    f"ipywidgets>={OLDEST_WIDGETS}",
    "matplotlib>=3.8",
    "cloudpickle>=3",
    "scikit-learn>=1.4",
    "jupytext>=1.16",
    "psutil>=5.9",
    "nvidia-ml-py>=12.535",
    "tqdm>=4.66",
    "platformdirs>=4",
    "numpy>=1.26",
    "scipy>=1.11",
    "jinja2>=3.1",
)

_CELL = Template(
    """\
# @title Run this first: it installs the course, and does nothing where the course is here already
# What this machine has and the course can use is kept as it is, PyTorch above all.
COURSE = "$course"
EDITION = "$edition"
NEEDS = $needs


class NotInstalled(Exception):
    def _render_traceback_(self):  # a sentence, and no traceback
        return [str(self)]


def install_course():
    import importlib.metadata, importlib.util, pathlib, re, shutil, site, subprocess, sys, tempfile, time
    from packaging.requirements import Requirement

    def installed():
        found = {one.name: one.version for one in importlib.metadata.distributions() if one.name and one.version}
        return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found.items()}

    def pip(*words):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            said = "\\n".join(done.stdout.strip().splitlines()[-12:])
            raise NotInstalled(f"{said}\\n\\nThe course is not installed: pip could not do it, and says why above. "
                               "Is the internet on? (Kaggle: Settings, Internet.) Then run this cell again.")

    before, needs = installed(), [Requirement(need) for need in NEEDS]
    kept = [need.name for need in needs if need.specifier.contains(before.get(need.name, "0"), prereleases=True)]
    missing = [text for text, need in zip(NEEDS, needs) if need.name not in kept]
    if "torch" in before and "torch" not in kept:
        raise NotInstalled(f"PyTorch {before['torch']} is here, and the course needs {NEEDS[0]}. This cell replaces "
                           f"no PyTorch. To have another, run `%pip install '{NEEDS[0]}'` in a cell, restart the "
                           "kernel, and run this cell again.")
    if missing or not importlib.util.find_spec("course_lib"):
        wait = "a minute or two" if "torch" in kept else "several minutes: PyTorch is missing, and is large"
        print(f"Installing the course. This takes {wait}; this cell says when it is done.", flush=True)
        begun = time.time()
        no_gpu = "torch" not in kept and not shutil.which("nvidia-smi")  # then the small PyTorch will do
        index = ["--extra-index-url", "https://download.pytorch.org/whl/cpu"] if no_gpu else []
        with tempfile.TemporaryDirectory() as folder:
            as_it_is = pathlib.Path(folder, "kept.txt")
            as_it_is.write_text("".join(f"{name}=={before[name]}\\n" for name in kept))
            if missing:
                pip(*index, "--constraint", str(as_it_is), *missing)
        if not importlib.util.find_spec("course_lib"):
            pip("--no-deps", COURSE)
        if site.ENABLE_USER_SITE:  # pip may have made this folder just now
            site.addsitedir(site.getusersitepackages())
        importlib.invalidate_caches()
        after = installed()
        new = ", ".join(sorted(after.keys() - before.keys())) or "nothing"
        changed = ", ".join(name for name in sorted(before) if after.get(name) != before[name]) or "nothing"
        print(f"Done in {time.time() - begun:.0f} s. New here: {new}. Of what was here, {changed} was replaced.")
    if not importlib.util.find_spec("course_lib"):
        raise NotInstalled("pip ended well, but the course is not found. Restart the kernel, and run this cell again.")
    import course_lib

    version = course_lib.__version__
    made_for = "" if version == EDITION else f" (this notebook was made for {EDITION})"
    print(f"The course is here, version {version}{made_for}. PyTorch is {installed()['torch']}.")


install_course()
"""
)


def first_cell(course: str, edition: str) -> str:
    """The code of the cell, without an end of line.

    ``course`` is what pip is to install, a name with an address; ``edition`` is the version of the course there.
    """
    needs = "[\n" + "".join(f'    "{need}",\n' for need in NEEDS) + "]"
    return _CELL.substitute(course=course, edition=edition, needs=needs).rstrip("\n")
