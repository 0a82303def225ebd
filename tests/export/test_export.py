"""``course export``: what is taken, what the page holds, that it needs no network, and what is never written over."""

from __future__ import annotations

import base64
import json
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_lib import export
from course_lib.base import paths
from course_lib.base.front_end import PICTURES, STAND_IN, picture_tag
from course_lib.export import command, work
from course_lib.export.formulas import formula
from course_lib.forms.stand_in import GONE

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def save(folder, name, *cells):
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells)), folder / f"{name}.ipynb")


def ran(source, *outputs):
    return new_code_cell(source, execution_count=1, outputs=list(outputs))


def shown(**data):
    return new_output("display_data", data={key.replace("__", "/"): value for key, value in data.items()})


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A learner's folder with a lesson begun, one untouched, and pictures beside them; they type there."""
    folder = tmp_path / "mine"
    begun = [
        new_markdown_cell("# 04a · Begun\n\n![A step](../assets/step.png) and $t/2M$, [next](04b_more.ipynb#here)"),
        ran("answer = 'of my own'", new_output("stream", text="printed by me")),
    ]
    save(folder / "notebooks", "04a_begun", *begun)
    save(folder / "notebooks", "04b_more", ran("1"), new_markdown_cell("# Here\n\n[up](#Here)"))
    untouched = paths.project_root() / "notebooks" / "00_start_here.ipynb"
    (folder / "notebooks" / "00_start_here.ipynb").write_bytes(untouched.read_bytes())
    (folder / "assets").mkdir()
    (folder / "assets" / "step.png").write_bytes(PNG)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    return folder


def page(folder, *options):
    assert export.main(["--out", "page.html", *options]) == 0
    return (folder / "page.html").read_text()


def bare(html):
    """The page without its style sheets."""
    return re.sub(r"<style.*?</style>", "", html, flags=re.S)


def test_work_is_on_the_page_and_what_was_not_begun_is_not(mine):
    html = page(mine)
    assert "printed by me" in html
    assert "of my own" in html
    assert [f"nb-{stem}" in html for stem in ("04a_begun", "04b_more", "00_start_here")] == [
        True,
        True,
        False,
    ]
    assert "<h2>Progress</h2>" in html


def test_a_changed_cell_is_work_although_it_was_not_run(mine):
    path = mine / "notebooks" / "00_start_here.ipynb"
    notebook = nbformat.read(path, as_version=4)
    assert [stem for stem, _ in work.work_in(None).notebooks] == ["04a_begun", "04b_more"]
    next(cell for cell in notebook.cells if cell.cell_type == "code").source += "\n# mine"
    nbformat.write(notebook, path)
    assert [stem for stem, _ in work.work_in(None).notebooks] == ["00_start_here", "04a_begun", "04b_more"]


def test_nothing_is_asked_of_a_network_and_nothing_runs(mine):
    save(
        mine / "notebooks", "05a_wild",
        ran("f", shown(text__html="<script src='https://evil/x.js'></script><b>seen</b>")),
        ran("g", shown(application__javascript="alert(1)", text__plain="instead")),
        ran("w", shown(**{"application__vnd.jupyter.widget-view+json": {"model_id": "a"}, "text__plain": "a slider"})),
        new_markdown_cell("![far](https://far/away.png) <img src='../../../../etc/passwd' alt='no picture'>"),
    )  # fmt: skip
    html = bare(page(mine))
    assert "<script" not in html
    assert "seen" in html
    assert "instead" in html
    assert "a slider" in html
    assert "A picture that is not in this page: far" in html
    assert not re.findall(r"<(?:img|link|iframe)[^>]*?(?:src|href)=[\"'](?!data:)", html)
    assert "default-src 'none'" in html


def test_what_a_front_end_alone_needs_is_not_in_the_page(mine):
    picture = picture_tag(PNG, "what was chosen last")
    gone = f"<div class='{STAND_IN}'><p style='x'><strong>{GONE}</strong></p>"
    save(
        mine / "notebooks", "05a_wild",
        ran("e", shown(text__html=f"{gone}{picture}</div>", text__plain=GONE)),
        ran("q", shown(text__html=f"{gone}<p>a question</p></div>", text__plain=GONE)),
        ran("p", shown(text__html=f"<div class='{PICTURES}'><details>{picture}twice</details></div>")),
    )  # fmt: skip
    html = bare(page(mine))
    assert GONE not in html
    assert html.count("what was chosen last") == 1
    assert "a question" not in html
    assert "twice" not in html


def test_pictures_are_in_the_page_and_links_lead_within_it(mine):
    html = bare(page(mine))
    assert f"data:image/png;base64,{base64.b64encode(PNG).decode()}" in html
    assert 'href="#nb-04b_more"' in html
    assert 'href="#nb-04b_more--Here"' in html
    assert 'id="nb-04b_more--Here"' in html
    ids = re.findall(r"<[^<>]*?\sid=[\"']([^\"']+)", html)
    assert len(ids) == len(set(ids))


def test_a_picture_elsewhere_on_the_machine_is_not_taken_along(mine, tmp_path):
    (tmp_path / "secret.png").write_bytes(PNG)
    save(
        mine / "notebooks",
        "04a_begun",
        ran("1"),
        new_markdown_cell("![x](../../secret.png) ![y](../notes.txt)"),
    )
    (mine / "notes.txt").write_text("private")
    html = bare(page(mine, "04a"))
    assert base64.b64encode(PNG).decode() not in html
    assert base64.b64encode(b"private").decode() not in html


@pytest.mark.parametrize("tex", [r"t/2M", r"\tfrac{1}{n}\,(\nabla L_0 + \dots)", r"\log \sum_v e^{z_v}"])
def test_a_formula_is_drawn_and_its_text_is_there(tex):
    html = formula(tex, is_block=True)
    assert "data:image/svg+xml;base64," in html
    assert 'alt="' in html


def test_a_formula_that_cannot_be_drawn_stands_as_it_was_written():
    assert formula(r"\nosuchword{<x>}") == r"<code class='formula'>\nosuchword{&lt;x&gt;}</code>"


@pytest.mark.long
def test_every_formula_of_the_course_can_be_drawn():
    for path in sorted((paths.project_root() / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            text = re.sub(r"```.*?```|`[^`\n]*`", "", "".join(cell["source"]), flags=re.S)
            for found in re.finditer(
                r"\$\$(.*?)\$\$|\$([^$\n]+?)\$", text if cell["cell_type"] == "markdown" else "", re.S
            ):
                assert "data:image/svg" in formula(found.group(1) or found.group(2)), (
                    path.name,
                    found.group(0),
                )


def test_the_first_page_tells_what_was_predicted_and_passed(mine, tmp_path, monkeypatch):
    from course_lib.export.first_page import first_page
    from course_lib.learn.records.store import Store

    kept = Store(tmp_path / "progress.jsonl")
    told = {"kind": "number", "unit": "KiB", "predicted": 3, "measured": 12.0, "model": 12}
    for event in (
        {"event": "guess", "name": "04.bytes", "kind": "number", "unit": "KiB", "value": 3},
        {"event": "predict", "name": "04.bytes", **told, "right": False},
        {"event": "predict", "name": "04.bytes", **told, "predicted": 12, "right": True},
        {"event": "guess", "name": "04.order", "kind": "choice", "value": "all at once"},
        {"event": "predict", "name": "00.sum", "kind": "number", "right": False, "off": 0.25},
        {"event": "check", "name": "04.gradients", "status": "not yet", "mistake": "sums-it"},
        {"event": "check", "name": "04.gradients", "status": "passed"},
        {"event": "check", "name": "77.gone", "status": "raised"},
    ):
        kept.append(event)
    text = re.sub(r"<[^>]+>+", "|", first_page(kept))
    assert "send in a step?||3 KiB||12 KiB||12 KiB||✗ not so" in text
    assert "all at once||not seen yet" in text
    assert "0.25 times what was measured" in text
    assert "✓ passed||2||0||sums it (1)" in text
    assert "77.gone||not passed yet||1" in text


def test_a_damaged_notebook_is_told_and_the_others_are_there(mine, capsys):
    (mine / "notebooks" / "06a_broken.ipynb").write_text('{"cells": [')
    (mine / "notebooks" / "06b_list.ipynb").write_text("[]")
    save(mine / "notebooks", "07a_odd", ran("1"), new_markdown_cell("![gone](attachment:gone.png)"))
    html = page(mine)
    err = capsys.readouterr().err
    assert "Left out 06a_broken.ipynb: it is no notebook, or a damaged one." in err
    assert "06b_list.ipynb" in err
    assert "printed by me" in html
    assert "07a_odd.ipynb: the page could not show it (InvalidNotebook: missing attachment: gone.png)" in html


def test_some_lessons_and_all_notebooks(mine):
    assert "04b_more" not in bare(page(mine, "04a"))
    (mine / "page.html").unlink()
    assert [stem for stem, _ in work.work_in(None, ["04"]).notebooks] == ["04a_begun", "04b_more"]
    assert next(stem for stem, _ in work.work_in(mine, everything=True).notebooks) == "00_start_here"


def test_notebooks_of_the_learners_own_are_work(tmp_path):
    save(tmp_path / "own", "ideas", new_markdown_cell("a thought"))
    assert [stem for stem, _ in work.work_in(tmp_path / "own").notebooks] == ["ideas"]


def test_without_a_folder_the_clone_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert work.work_in(None, ["00"]).folder == paths.project_root() / "notebooks"


def test_the_folder_of_course_lab_comes_before_the_clone(tmp_path, monkeypatch):
    save(tmp_path / "lessons" / "notebooks", "00_start_here", ran("1"))
    monkeypatch.setenv("COURSE_FOLDER", str(tmp_path / "lessons"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert work.work_in().folder == tmp_path / "lessons" / "notebooks"


def test_where_course_lab_has_no_folder_the_clone_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_FOLDER", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert work.work_in(None, ["00"]).folder == paths.project_root() / "notebooks"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "old.html"], "--replace overwrites this one"),
        (["--out", "old.txt", "--replace"], "does not end in .html"),
        (["--out", "away/x.html"], "there is no folder away"),
        (["--out", "assets"], "is a folder; name a file"),
        (["4"], "there is no notebook of '4'"),
        (["09"], "there are 00, 04a, 04b"),
        (["00"], "has been worked on yet of 00; --all"),
        (["--folder", "nowhere"], "there are no notebooks of the course in nowhere"),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(mine, capsys, options, words):
    for name in ("old.html", "old.txt"):
        (mine / name).write_text("mine")
    before = sorted(path.name for path in mine.iterdir())
    assert export.main(options) == 2
    assert words in capsys.readouterr().err
    assert sorted(path.name for path in mine.iterdir()) == before
    assert (mine / "old.html").read_text() == (mine / "old.txt").read_text() == "mine"


def test_a_page_is_replaced_where_that_is_said(mine):
    (mine / "page.html").write_text("old")
    assert "printed by me" in page(mine, "04a", "--replace")


def test_a_page_that_another_program_made_meanwhile_is_kept(mine, monkeypatch, capsys):
    def slow(*_, **__):
        (mine / "page.html").write_text("somebody's")
        return "new"

    monkeypatch.setattr("course_lib.export.page.page_of", slow)
    assert export.main(["--out", "page.html"]) == 2
    assert "appeared meanwhile" in capsys.readouterr().err
    assert (mine / "page.html").read_text() == "somebody's"
    assert not list(mine.glob(".*.html"))


def test_a_folder_that_refuses_is_told(mine, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device", "page.html")

    monkeypatch.setattr("course_lib.export.page.page_of", lambda *_, **__: "new")
    monkeypatch.setattr(command.tempfile, "mkstemp", refuse)
    assert export.main(["--out", "page.html"]) == 1
    assert "No space left on device. Nothing was written." in capsys.readouterr().err
