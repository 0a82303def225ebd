"""Templates: every text escaped as Python's own library does, no line break of theirs on the page, loaded when used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import Environment, UndefinedError

from course_lib.base.html import templates

LIBRARY = Path(__file__).resolve().parents[2] / "course_lib"
TEMPLATES = sorted(path for path in LIBRARY.rglob("templates/*") if path.is_file())


@pytest.fixture
def fill(tmp_path: Path):
    """Fill this template, in a folder of its own."""

    def filled(template: str, *, name: str = "x.html", **values: object) -> str:
        (tmp_path / "templates").mkdir(exist_ok=True)
        (tmp_path / "templates" / name).write_text(template)
        return templates(str(tmp_path / "module.py"), loud=lambda text: f"<b>{text.upper()}</b>")(name, **values)

    return filled


def test_every_text_is_escaped_as_pythons_own_library_does(fill) -> None:
    nasty = '<b>it\'s "that" & this</b>'
    assert fill("<p title='{{ text }}'></p>", text=nasty) == (
        "<p title='&lt;b&gt;it&#x27;s &quot;that&quot; &amp; this&lt;/b&gt;'></p>"
    )
    assert fill("{{ text|between_tags }}", text=nasty) == '&lt;b&gt;it\'s "that" &amp; this&lt;/b&gt;'
    assert fill("{% for one in texts %}{{ one }}{% endfor %}{{ number }}", texts=["<", "'"], number=1.5) == (
        "&lt;&#x27;1.5"
    )
    assert fill("{{ text|safe }}{{ text|loud }}", text="<i>") == "<i><b><I></b>"
    assert fill("{{ text }}", text="{{ 7 * 6 }}") == "{{ 7 * 6 }}"


def test_a_learner_s_class_cannot_say_that_it_is_html(fill) -> None:
    class Loud(str):
        def __html__(self) -> str:
            return str(self)

    assert fill("{{ text }}", text=Loud("<b>")) == "&lt;b&gt;"


def test_a_template_s_own_lines_are_joined_and_those_of_a_text_are_kept(fill) -> None:
    template = "<pre>\n  {{ text }}\n</pre>\n{% if text %}\n  <p>a b</p>\n{% endif %}\n"
    assert fill(template, text="one\n  two") == "<pre>one\n  two</pre><p>a b</p>"
    assert fill("a {\n  color: red }\n", name="x.css") == "a {\n  color: red }"


def test_a_name_that_nothing_was_given_for_is_an_error(fill) -> None:
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        fill("{{ text }}")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_every_template_is_one_and_is_named_by_what_fills_it(path: Path) -> None:
    Environment().parse(path.read_text())
    users = [*path.parent.glob("*.html"), *path.parent.parent.rglob("*.py")]
    assert [user for user in users if user != path and f'"{path.name}"' in user.read_text()]


# Which values come as HTML; each is made by another template, by `picture_tag`, by `export.safe`, or is the course's.
TAKEN_AS_HTML = {
    "capstone/reports/templates/in_a_cell.html": {"table"},
    "capstone/reports/templates/style.css": {"dark_filter"},
    "classroom/board/templates/board.html": {"mark"},
    "export/templates/page.html": {"policy", "style", "first", "body"},
    "forms/templates/panel.html": {"body"},
    "forms/templates/stand_in.html": {"style", "shown"},
    "learn/display/templates/pictures.html": {"image", "script"},
    "learn/paper/templates/ways.html": {"way"},
}


def test_only_these_values_are_taken_as_html() -> None:
    found = {}
    for path in TEMPLATES:
        taken = set(re.findall(r"([\w.\"<>]+)\s*\|\s*safe\b", path.read_text()))
        found |= {path.relative_to(LIBRARY).as_posix(): taken} if taken else {}
        assert "autoescape" not in path.read_text(), path
    assert found == TAKEN_AS_HTML


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_an_attribute_stands_in_quotes_and_keeps_them(path: Path) -> None:
    tags = re.findall(r"<\w(?:\{\{.*?\}\}|\{%.*?%\}|[^<>{])*>", path.read_text(), re.DOTALL)
    assert not [tag for tag in tags if re.search(r"=\s*\{\{|\|\s*(words|between_tags)", tag)]


def test_jinja2_is_loaded_by_the_first_page_and_not_by_a_rank_or_a_face() -> None:
    code = (
        "import sys, course_lib, course_lib.cluster.process.rank_process\n"
        "import course_lib.learn.judging.judge, course_lib.learn.display.verdict, course_lib.widgets.controls\n"
        "from course_lib.cluster.failures.run import Run\n"
        "before = 'jinja2' in sys.modules\n"
        "Run({0: 1})._repr_html_()\n"
        "print(before, 'jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr
