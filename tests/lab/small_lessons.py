"""A course of three lesson parts, small enough to hand out in a test."""

from __future__ import annotations

from pathlib import Path

LESSONS = {"00_start_here": "00 · Start here", "04a_one": "04a · Four: one", "04b_two": "04b · Four: two"}


def write_lesson(course: Path, stem: str, answer: str = "1") -> None:
    """The source of a lesson; ``answer`` stands in its code, so that another makes another edition."""
    lines = [
        f"# # {LESSONS[stem]}",
        "#",
        "# You try it.",
        "#",
        "# **50 minutes · difficulty 1 of 5 · needs: cpu**",
    ]
    text = "\n".join(["# %% [markdown]", *lines, "", "# %%", f"print({answer})", ""])
    (course / "notebooks" / "src").mkdir(parents=True, exist_ok=True)
    (course / "notebooks" / "src" / f"{stem}.py").write_text(text)


def small_course(folder: Path) -> Path:
    from course_lib.lab.edition import pristine

    for stem in LESSONS:
        write_lesson(folder, stem)
        name = f"notebooks/{stem}.ipynb"
        (folder / name).write_bytes(pristine(folder, name))
    (folder / "notebooks" / "glossary.md").write_text("words")
    for name in ("assets/00_loop.png", "notebooks/solutions/00_start_here.ipynb"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    return folder
