"""Every lesson keeps the rules of the house; and every rule is seen to catch a lesson that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbval.plugin import get_sanitize_patterns

from course_lib.authoring.notebooks.rules import RULES, Lesson, Rule, load_lesson
from course_lib.authoring.notebooks.rules.code import cells_are_short
from course_lib.authoring.notebooks.rules.prose import parts_lead_to_each_other
from course_lib.authoring.notebooks.writing.build import Paths, strays
from course_lib.base.paths import project_root
from course_lib.learn.builds import Build, catalogue
from course_lib.lessons.convert import learner_notebook, solution_shell
from course_lib.lessons.execute import without_folders
from course_lib.lessons.source import parse_source

ROOT = project_root()
SOURCES = sorted((ROOT / "notebooks" / "src").glob("*.py"))


def test_there_are_lessons():
    assert SOURCES, "notebooks/src holds no lesson, so the tests below would test nothing"
    assert strays(ROOT) == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_lesson_keeps_the_rules(source: Path):
    lesson = load_lesson(source)
    broken = {rule.__name__: found for rule in RULES if (found := rule(lesson))}
    assert broken == {}


GOOD = '''\
# %% [markdown]
# # 05 · A tiny lesson
#
# You learn to double. See [how](06_next.ipynb#The-way) and ![two boxes and an arrow](../assets/a.png).
#
# **10 minutes · difficulty 2 of 5 · needs: cpu**

# %%
from course_lib.widgets import MemoryExplorer
from course_lib.parallel.data import DataParallel

print("hello")

# %% tags=["nbval-ignore-output"]
# %%ranks -n 2
print("took a while")

# %%
MemoryExplorer("What is twice two?")


# %%
def double(a: int, *, times: int = 1) -> int:
    """Twice a."""
    # 1. add a to itself
    ### BEGIN SOLUTION
    return a + a
    ### END SOLUTION


# %% [markdown]
# ## The end
# The code `simply` stays, and `![](x)` is no image.
'''


class Planted:
    """A lesson made in memory, as if executed: every code cell counted, with one line of output."""

    def __init__(self, folder: Path) -> None:
        (folder / "assets").mkdir(exist_ok=True)
        (folder / "assets" / "a.png").touch()
        self.path = folder / "notebooks" / "src" / "05_tiny.py"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        next_lesson = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Six\n## The way\n")])
        nbformat.write(next_lesson, folder / "notebooks" / "06_next.ipynb")
        (folder / "notebooks" / "05_tiny.ipynb").touch()
        (folder / "notebooks" / "glossary.md").touch()

    def lesson(
        self,
        text: str = GOOD,
        outputs: str = "hello\n",
        spoil: Callable[[Lesson], None] | None = None,
    ) -> Lesson:
        source = parse_source(text, self.path)
        solution = solution_shell(source)
        for count, cell in enumerate((c for c in solution.cells if c.cell_type == "code"), start=1):
            cell.execution_count = count
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=outputs)]
        made = Lesson(Paths.of(self.path), source, learner_notebook(source), solution)
        if spoil is not None:
            spoil(made)
        return made


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_good_lesson_breaks_no_rule(planted: Planted, rule: Rule):
    assert rule(planted.lesson()) == []


def in_first_cell(code: str) -> tuple[str, str]:
    return 'print("hello")\n', code + "\n"


def in_last_cell(text: str) -> tuple[str, str]:
    return "# ## The end\n", "# ## The end\n" + (text if text.startswith("\n") else f"# {text}") + "\n"


# rule, what is replaced, by what, the line that must be named, words of the sentence
BAD_SOURCES = [
    ("code_parses", *in_first_cell("x = = 1"), 12, "not Python"),
    ("cells_are_short", *in_first_cell("x = 1\n" * 21), 9, "21 lines and may have 20"),
    ("cells_are_short", "    return a + a\n", "    a += 1\n" * 25, 23, "26 lines and may have 25"),
    ("no_forbidden_constructs", *in_first_cell("interact(print, x=3)"), 12, "interact fails"),
    ("no_forbidden_constructs", *in_first_cell("out = widgets.Output()"), 12, "Output"),
    ("no_forbidden_constructs", *in_first_cell("clear_output()"), 12, "clear_output"),
    ("no_forbidden_constructs", *in_first_cell('display(3, display_id="a")'), 12, "display_id"),
    ("no_forbidden_constructs", *in_first_cell("x = [3];"), 12, "trailing ';'"),
    ("no_forbidden_constructs", *in_first_cell("x = [3];  # hide it"), 12, "trailing ';'"),
    ("no_forbidden_constructs", *in_first_cell('import os\nos.system("ls")'), 13, "os.system"),
    ("no_forbidden_constructs", *in_first_cell("# !ls"), 12, "shell command"),
    ("no_forbidden_constructs", *in_first_cell('subprocess.run(["ls"])'), 12, "capture_output"),
    ("no_forbidden_constructs", *in_first_cell("import os\nos.fork()"), 13, "Cluster"),
    ("no_bare_figures", *in_first_cell("ax.plot([1, 2])"), 12, "matplotlib object"),
    ("no_bare_figures", *in_first_cell('axes[0].set_title("a")'), 12, "matplotlib object"),
    ("no_bare_figures", *in_first_cell('plt.gca().set_xlabel("s")'), 12, "matplotlib object"),
    ("imports_are_public", *in_first_cell("from course_lib.learn.x import y"), 12, "use course_lib.learn"),
    ("imports_are_public", *in_first_cell("import course_lib.learn.x"), 12, "course_lib.learn"),
    ("imports_are_public", *in_first_cell("from course_lib.parallel.data.buckets import x"), 12, "parallel.data"),
    ("images_have_alt_text", *in_last_cell("![](../assets/a.png)"), 32, "alt text ''"),
    ("images_have_alt_text", *in_last_cell("![a picture](../assets/a.png)"), 32, "alt text 'a picture'"),
    ("images_have_alt_text", *in_last_cell('<img src="../assets/a.png">'), 32, "alt text ''"),
    ("words_are_plain", *in_last_cell("You simply run it."), 33, "'simply'"),
    ("sentences_are_read_once", *in_last_cell("So " + "it goes on and " * 6 + "ends."), 33, "more than 25 words"),
    ("sentences_are_read_once", *in_last_cell("One waits.\n# Who comes last has to wait for all."), 34, "'who'"),
    ("colours_are_not_named", *in_last_cell("The white boxes wait."), 33, "'white'"),
    ("links_resolve", *in_last_cell("[x](07_none.ipynb)"), 32, "07_none.ipynb leads nowhere"),
    ("links_resolve", *in_last_cell("[x](06_next.ipynb#No)"), 32, "no heading 'No'"),
    ("links_resolve", *in_last_cell("![two boxes again](../assets/b.png)"), 32, "assets/b.png leads nowhere"),
    ("links_resolve", *in_last_cell("[x](/etc/hosts)"), 32, "absolute path"),
    ("links_resolve", *in_last_cell("[x](file:///etc/hosts)"), 32, "no link that works for others"),
    ("widgets_have_pictures", " and ![two boxes and an arrow](../assets/a.png)", "", 19, "no picture"),
    ("widgets_have_pictures", "# %%\nMemory", "# %% [markdown]\n# ## Next\n\n# %%\nMemory", 22, "picture"),
    ("widgets_have_pictures", *in_last_cell("\n# %%\nfrom ipywidgets import Text\nText()"), 35, "no picture"),
]


@pytest.mark.parametrize(("name", "old", "new", "line", "words"), BAD_SOURCES)
def test_a_source_that_breaks_a_rule_is_named(planted: Planted, name: str, old: str, new: str, line: int, words: str):
    assert old in GOOD
    rule = next(rule for rule in RULES if rule.__name__ == name)
    found = rule(planted.lesson(GOOD.replace(old, new, 1)))
    assert found, "the rule sees nothing"
    assert all(sentence.startswith(f"05_tiny.py:{line}: ") for sentence in found), found
    assert words in found[0]


@pytest.mark.parametrize(
    ("step", "lines", "says"),
    [
        ("05.tiny_values", 149, ""),
        ("05.tiny_memory", 149, ""),
        ("05.tiny_memory", 150, "151 lines and may have 150"),
        ("05.twice", 25, "26 lines and may have 25"),
    ],
)
def test_the_cell_of_a_build_may_be_longer(planted: Planted, monkeypatch, step: str, lines: int, says: str):
    steps = ("05.tiny_values", "05.tiny_memory")
    build = Build(name="05.tiny", title="", steps=steps, entry="double", usable_from=steps[0])
    monkeypatch.setattr(catalogue, "BUILDS", (build,))
    source = GOOD.replace("    return a + a\n", "    a += 1\n" * lines).replace(
        "# %% [markdown]\n# ## The end", f'# %%\ncheck("{step}", double)\n\n\n# %% [markdown]\n# ## The end'
    )
    found = cells_are_short(planted.lesson(source))
    assert says in "".join(found) if says else not found


def code_cell(notebook: nbformat.NotebookNode, index: int = 0) -> nbformat.NotebookNode:
    return [cell for cell in notebook.cells if cell.cell_type == "code"][index]


def show_solution(lesson: Lesson) -> None:
    code_cell(lesson.learner, 3).source = code_cell(lesson.solution, 3).source


def change_signature(lesson: Lesson) -> None:
    stub = code_cell(lesson.learner, 3)
    stub.source = stub.source.replace("times: int = 1", "times: int = 2")


def change_docstring(lesson: Lesson) -> None:
    stub = code_cell(lesson.learner, 3)
    stub.source = stub.source.replace("Twice a.", "Half a.")


def keep_an_output(lesson: Lesson) -> None:
    code_cell(lesson.learner).outputs = [nbformat.v4.new_output("stream", text="x")]


def keep_a_count(lesson: Lesson) -> None:
    code_cell(lesson.learner).execution_count = 3


def keep_a_region(lesson: Lesson) -> None:
    code_cell(lesson.learner).source = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION"


def rename_kernel(lesson: Lesson) -> None:
    lesson.solution.metadata.kernelspec.name = "my-env"


def lose_a_count(lesson: Lesson) -> None:
    code_cell(lesson.solution, 1).execution_count = None


def lose_all_outputs(lesson: Lesson) -> None:
    for cell in lesson.solution.cells:
        cell.outputs = []


def hold_an_error(lesson: Lesson) -> None:
    code_cell(lesson.solution).outputs = [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]


def fail_a_check(lesson: Lesson) -> None:
    said = {"text/plain": "✗ 05.double: not yet. It is three times a."}
    code_cell(lesson.solution).outputs = [nbformat.v4.new_output("display_data", data=said)]


def not_attempt_a_check(lesson: Lesson) -> None:
    said = {"text/plain": "○ 05.double: not attempted yet. Write it, and run the cell again."}
    code_cell(lesson.solution).outputs = [nbformat.v4.new_output("display_data", data=said)]


def show_a_widget_late(lesson: Lesson) -> None:
    code_cell(lesson.solution).outputs[0].metadata = {"course": {"widget": True}}
    lesson.source.cells[0].__dict__["text"] = "no picture here"


BAD_NOTEBOOKS = [
    ("stubs_match_solutions", show_solution, "holds the solution"),
    ("stubs_match_solutions", change_signature, "double differs"),
    ("stubs_match_solutions", change_docstring, "double differs"),
    ("learner_copy_is_clean", keep_an_output, "an output or an execution count"),
    ("learner_copy_is_clean", keep_a_count, "an output or an execution count"),
    ("learner_copy_is_clean", keep_a_region, "solution region"),
    ("learner_copy_is_clean", rename_kernel, "not python3"),
    ("solution_is_executed", lose_a_count, "not executed"),
    ("solution_is_executed", lose_all_outputs, "not one output"),
    ("solution_is_executed", hold_an_error, "shows an error"),
    ("checks_have_passed", fail_a_check, "05.double has not passed"),
    ("checks_have_passed", not_attempt_a_check, "05.double has not passed"),
    ("widgets_have_pictures", show_a_widget_late, "no picture"),
]


@pytest.mark.parametrize(("name", "spoil", "words"), BAD_NOTEBOOKS)
def test_a_notebook_that_breaks_a_rule_is_named(
    planted: Planted, name: str, spoil: Callable[[Lesson], None], words: str
):
    rule = next(rule for rule in RULES if rule.__name__ == name)
    found = rule(planted.lesson(spoil=spoil))
    assert found, "the rule sees nothing"
    assert words in found[0]


@pytest.mark.parametrize("text", ["took 3.5 ms\n", "in 12 seconds", "0.25 s a step", "7 µs", "1,5 s", "about 3ms."])
def test_a_time_stands_in_a_tagged_cell(planted: Planted, text: str):
    rule = next(rule for rule in RULES if rule.__name__ == "timings_are_tagged")
    found = rule(planted.lesson(outputs=text))
    assert [sentence.split(":")[1] for sentence in found] == ["9", "19", "23"], "all but the tagged cell"
    tagged = GOOD.replace("# %%\nMemory", '# %% tags=["computed-time"]\nMemory')
    assert len(rule(planted.lesson(tagged, outputs=text))) == 2


@pytest.mark.parametrize("text", ["4 MiB", "4 stages", "step 3", "0.5 of 1", "x3s", "rank 2 sends", "3 samples"])
def test_other_numbers_are_no_times(planted: Planted, text: str):
    rule = next(rule for rule in RULES if rule.__name__ == "timings_are_tagged")
    assert rule(planted.lesson(outputs=text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "/home/ada/x.py",
        "/Users/ada/x",
        "/tmp/ipykernel_12/3.py",
        "lib/site-packages/torch/x.py",
        str(Path.home() / "x"),
    ],
)
def test_outputs_name_no_folder_of_a_machine(planted: Planted, text: str):
    rule = next(rule for rule in RULES if rule.__name__ == "outputs_hold_no_private_paths")
    assert len(rule(planted.lesson(outputs=f"in {text}, line 3"))) == 4, "tagged or not"
    assert rule(planted.lesson(outputs="cell.py, line 3; a/b; and/or")) == []


def test_parts_of_a_lesson_lead_to_each_other(planted: Planted):
    (planted.path.parent / "05b_more.py").touch()
    (planted.path.parent / "06_next.py").touch()
    (said,) = parts_lead_to_each_other(planted.lesson())
    assert "05_tiny.py:2" in said or "05_tiny.py:1" in said
    assert "05b_more.ipynb is missing" in said
    linked = GOOD.replace("# You learn to double.", "# You learn to double, and [more](05b_more.ipynb).")
    assert parts_lead_to_each_other(planted.lesson(linked)) == []


def test_every_rule_is_seen_to_catch_something():
    own_tests = {"parts_lead_to_each_other", "timings_are_tagged", "outputs_hold_no_private_paths"}
    own_tests |= {"digits_are_certain", "sittings_are_marked"}  # test_digits_rule.py, test_size_table.py
    planted_for = {name for name, *_ in BAD_SOURCES} | {name for name, *_ in BAD_NOTEBOOKS} | own_tests
    assert planted_for == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Thing at 0x7f3a00bc12d0>", "<Thing at 0xADDRESS>"),
        ("/tmp/ipykernel_71/305.py:3: UserWarning", "CELL.py:3: UserWarning"),
        ("/home/ada/my-env/lib/x/run.py:26: UserWarning", "run.py:26: UserWarning"),
        ('File "/usr/lib/a/b.py", line 3', 'File "b.py", line 3'),
        ("run.py:3 and/or x/y.py 3/4 lib/a.txt", "run.py:3 and/or x/y.py 3/4 lib/a.txt"),
        ("0.125 4096 bytes 0x10", "0.125 4096 bytes 0x10"),
    ],
)
def test_strict_comparison_ignores_addresses_and_folders_and_nothing_else(text: str, expected: str):
    assert "0x" in text or without_folders(text) == expected, "the builder and nbval see the same text"
    for pattern, new in get_sanitize_patterns((ROOT / "notebooks" / "nbval.cfg").read_text()):
        text = re.sub(pattern, new, text)
    assert text == expected
