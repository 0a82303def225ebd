"""A function that imports from its own package: its digest covers what it imports, and it travels with that."""

from __future__ import annotations

import pytest
from own_library import zigzag_kept

from course_lib import Cluster, mine
from course_lib.mine import courses
from course_lib.mine.again import check_again
from course_lib.mine.source.load import made
from course_lib.mine.source.package import CannotLoadError, version_of


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def write(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def result(folder):
    return made(version_of(folder, "a", "f"))()


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("from mine.b import g", "g()"),
        ("from .b import g as h", "h()"),
        ("from . import b", "b.g()"),
        ("from mine import b as other", "other.g()"),
        ("import mine.b as b", "b.g()"),
    ],
)
def test_every_way_to_import_from_the_own_package_is_followed(folder, line, call):
    write(folder, a=f"{line}\n\n\ndef f():\n    return {call}\n", b="X = 3\n\n\ndef g():\n    return X\n")
    before = version_of(folder, "a", "f").digest
    assert result(folder) == 3
    write(folder, b="X = 4\n\n\ndef g():\n    return X\n")
    assert version_of(folder, "a", "f").digest != before
    assert result(folder) == 4


def test_what_it_does_not_need_is_neither_in_its_digest_nor_run(folder):
    write(folder, a="from mine.b import g\ndef f():\n    return g()\n", b="def g():\n    return 1\n")
    before = version_of(folder, "a", "f").digest
    write(folder, b="def g():\n    return 1\n\n\nY = 1 / 0\n", c="1 / 0\n")
    assert version_of(folder, "a", "f").digest == before
    assert result(folder) == 1


def test_comments_between_definitions_change_nothing_and_those_within_do(folder):
    write(folder, a="def f():\n    return 1\n")
    before = version_of(folder, "a", "f").digest
    write(folder, a="# a note\n\n\ndef f():\n\n    return 1   \n")
    assert version_of(folder, "a", "f").digest == before
    write(folder, a="def f():\n    # another\n    return 1\n")
    assert version_of(folder, "a", "f").digest != before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("from mine.b import *\ndef f():\n    return g()\n", "cannot be followed"),
        ("def f():\n    from mine.b import g\n    return g()\n", "cannot be followed; import by name"),
        ("def f():\n    import mine.b\n    return mine.b.g()\n", "cannot be followed"),
        ("import torch, mine.b\ndef f():\n    return mine.b.g()\n", "cannot be followed"),
        ("from ..b import g\ndef f():\n    return g()\n", "cannot be followed"),
        ("import mine.b\ndef f():\n    return mine.b.g()\n", "write `from mine import helpers`"),
        ("from mine.x.y import g\ndef f():\n    return g()\n", "goes into a folder"),
        ("from mine.gone import g\ndef f():\n    return g()\n", "there is no mine/gone.py"),
        ("from mine.b import other\ndef f():\n    return other()\n", "mine/b.py has no other"),
        ("from mine.b import h as f\n", "in a circle"),
    ],
)
def test_an_import_that_no_digest_would_cover_is_refused_in_a_sentence(folder, text, says):
    write(folder, a=text, b="from mine.a import f as h\n\n\ndef g():\n    return 1\n")
    with pytest.raises(CannotLoadError, match=says):
        result(folder)


def test_definitions_that_never_end_are_ended(folder, monkeypatch):
    from course_lib.mine.source import load

    monkeypatch.setattr(load, "_LIMIT_S", 0.2)
    write(folder, a="def loop():\n    while True:\n        pass\n\n\nf = loop()\n")
    with pytest.raises(CannotLoadError, match=r"takes over 0\.2 s to define it"):
        result(folder)


def test_annotations_of_the_future_are_not_looked_at(folder):
    write(folder, a="from __future__ import annotations\n\n\ndef f(x: Unknown = 2) -> Unknown:\n    return x\n")
    assert result(folder) == 2


@pytest.fixture(scope="module")
def ranks():
    with Cluster(2) as cluster:
        yield cluster


def moved_out(learner):
    """The learner tidies up: the helper goes to a file of its own, and is imported from there."""
    text = learner.context.read_text()
    helper = text[text.index("def both") : text.index("def positions_of")]
    (learner.folder / "helpers.py").write_text("import itertools\n\n\n" + helper)
    learner.context.write_text(text.replace(helper, "").replace("import itertools", "from mine.helpers import both"))


def test_it_comes_to_the_ranks_with_what_it_imports_from_its_package(anna, capsys, ranks):
    zigzag_kept(capsys)
    moved_out(anna)
    assert check_again("positions_of").passed
    positions_of = mine.positions_of
    assert positions_of is not courses.positions_of
    (anna.folder / "helpers.py").unlink()  # nothing is read on a rank
    assert list(ranks.run(lambda me, f: f(me.rank, 2, 8), positions_of)) == [[0, 1, 6, 7], [2, 3, 4, 5]]


def test_a_helper_that_changes_takes_the_function_out_until_it_passes(anna, capsys):
    zigzag_kept(capsys)
    moved_out(anna)
    assert check_again("positions_of").passed
    helpers = anna.folder / "helpers.py"
    helpers.write_text(helpers.read_text().replace("return list", "return  list"))
    assert mine.positions_of is courses.positions_of


def test_a_function_of_a_rank_that_names_the_library_gets_what_the_notebook_chose(anna, capsys, ranks):
    zigzag_kept(capsys)

    def on_rank(me):
        return repr(mine.positions_of), mine.positions_of(me.rank, 2, 8), mine.my_share(4, me.rank, 2)

    run = ranks.run(on_rank)
    assert [row[1:] for row in run] == [([0, 1, 6, 7], range(0, 2)), ([2, 3, 4, 5], range(2, 4))]
    assert all("yours" in row[0] for row in run)
    told = capsys.readouterr().out
    assert told.count("mine.positions_of is yours") == 1
    assert "indices_of" not in told  # of what was used alone
