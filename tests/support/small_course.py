"""A course of two parts that is written in a moment: a question, an answer, an exercise, a picture, formulas."""

from __future__ import annotations

import base64
from pathlib import Path

import nbformat

from course_lib.lessons.convert import learner_notebook, solution_shell, to_text
from course_lib.lessons.source import parse_source

# One white dot.
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg==")
FIRST = '''# %% [markdown]
# # 01a · Sums: two numbers
#
# You add.
#
# **20 minutes · difficulty 1 of 5 · needs: cpu**
#
# Part 1 of 2 · [2: more of it](01b_more.ipynb)

# %% [markdown]
# ## A question
#
# ![Two boxes](../assets/01_boxes.png)
#
# $$\\sum_i a_i$$
#
# With $a^2$ in mind: **How much is 1 + 1?**

# %%
### BEGIN SOLUTION
### STUB ask("01.two")
ask("01.two").commit(3)  # a guess
### END SOLUTION

# %%
print("it came to", 1 + 1)

# %%
reveal("01.two", 1 + 1)

# %% [markdown]
# ## Build
#
# Write `add`.


# %%
def add(a, b):
    """The sum of both."""
    ### BEGIN SOLUTION
    return a + b
    ### END SOLUTION


# %%
check("01.add", add)

# %%
draw()
'''
SECOND = """# %% [markdown]
# # 01b · Sums: more of it
#
# You add more.
#
# **30 minutes · difficulty 2 of 5 · needs: cpu**
#
# Before: [part 1](01a_two.ipynb), and its [word](glossary.md#sum).

# %%
print("on and on")
"""
README = """# A small course

![Boxes](assets/01_boxes.png)

## Start

Read [the house](CONTRIBUTING.md) and [the code](course_lib/examples), or [a file](LICENSE).

<!-- lessons: begin -->
| a table |
<!-- lessons: end -->

The [glossary](notebooks/glossary.md).
"""


def text(words: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("stream", name="stdout", text=words + "\n")


def shown(**data: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data={key.replace("_", "/"): it for key, it in data.items()})


OUTPUTS = {
    "print(": [text("it came to 2")],
    "ask(": [text("locked: 3")],
    "reveal(": [shown(text_html="<table><tr><td>you said 3, it is 2</td></tr></table>", text_plain="it is 2")],
    "check(": [text("passed")],
    "draw(": [shown(image_png=base64.b64encode(PNG).decode(), text_plain="Two\nboxes, drawn")],
}


def small_course(root: Path) -> Path:
    """Write the course below ``root``, built, and return ``root``."""
    for folder in ("notebooks/src", "notebooks/solutions", "assets", "course_lib/examples/train"):
        (root / folder).mkdir(parents=True)
    for name, written in (("01a_two", FIRST), ("01b_more", SECOND)):
        path = root / "notebooks" / "src" / f"{name}.py"
        path.write_text(written)
        source = parse_source(written, path)
        (root / "notebooks" / f"{name}.ipynb").write_text(to_text(learner_notebook(source)))
        solved = solution_shell(source)
        for cell in solved.cells:
            if cell.cell_type == "code":
                cell.outputs = next((made for key, made in OUTPUTS.items() if key in cell.source), [])
        (root / "notebooks" / "solutions" / f"{name}.ipynb").write_text(to_text(solved))
    (root / "README.md").write_text(README)
    (root / "LICENSE").write_text("free\n")
    (root / "CONTRIBUTING.md").write_text("# The house\n\nSee [README](README.md).\n")
    words = "# Glossary\n\n### sum\n\nA **sum**. *Lesson [01a](01a_two.ipynb).* See [sum](#sum).\n"
    (root / "notebooks" / "glossary.md").write_text(words)
    (root / "assets" / "01_boxes.png").write_bytes(PNG)
    (root / "course_lib/examples/train/__init__.py").write_text('"""Train, at home."""\n')
    (root / "course_lib/examples/train/go.sh").write_text("echo go\n")
    return root
