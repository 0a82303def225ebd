"""What `course site` says, and that nothing which it did not write is ever lost."""

from __future__ import annotations

import json

import pytest

from course_lib.authoring.site import command, main
from course_lib.authoring.site.build import MANIFEST, SiteError, _hashes, refuse_what_is_not_ours


def test_packages_that_are_missing_are_named_with_what_to_type(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("course_lib.authoring.site.settings.NEEDED", ("json", "no_such_theme"))
    assert main(["--out", str(tmp_path / "site")]) == 1
    said = capsys.readouterr().err
    assert "course site needs no_such_theme, which " in said
    assert "-m pip install -e '.[site]'`" in said
    assert not (tmp_path / "site").exists()


def test_check_where_there_is_no_site(capsys, tmp_path):
    assert main(["--check", "--out", str(tmp_path)]) == 1
    assert "no index.html" in capsys.readouterr().err


def test_check_tells_faults_and_their_number(capsys, tmp_path):
    (tmp_path / "index.html").write_text('<a href="gone.html">x</a>')
    assert main(["--check", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "index.html: the link 'gone.html' leads to no file" in out
    assert "1 page, 1 fault\n" in out
    (tmp_path / "index.html").write_text("<p>")
    assert main(["--check", "--out", str(tmp_path)]) == 0
    assert "every link leads somewhere" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_a_sentence(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "missing", list)
    (tmp_path / "file").write_text("")
    assert main(["--out", str(tmp_path / "file" / "site")]) == 1
    assert capsys.readouterr().err.startswith("course site: ")


def test_an_address_that_is_none(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--repository", "github.com/a/b"])
    assert ended.value.code == 2
    assert "it begins with https://" in capsys.readouterr().err


def test_a_warning_of_sphinx_is_told_and_fails(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "missing", list)
    monkeypatch.setattr("course_lib.authoring.site.build.build_site", lambda *_: ["a.md:1: WARNING: no such place"])
    assert main(["--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "a.md:1: WARNING: no such place" in said.err
    assert "Sphinx warned: 1 time\n" in said.out
    monkeypatch.setattr("course_lib.authoring.site.build.build_site", lambda *_: [])
    assert main(["--out", str(tmp_path)]) == 0


def ours(folder):
    """A folder as `course site` leaves it."""
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "x.html").write_text("x")
    (folder / MANIFEST).write_text(json.dumps({"files": _hashes(folder)}))
    return folder


def test_a_site_of_ours_may_be_replaced(tmp_path):
    refuse_what_is_not_ours(tmp_path / "new")
    refuse_what_is_not_ours(tmp_path)
    refuse_what_is_not_ours(ours(tmp_path / "site"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda site: (site / "notes.txt").write_text("mine"), "notes.txt is not as `course site` wrote it"),
        (lambda site: (site / "a" / "x.html").write_text("mine"), "x.html is not as `course site` wrote it"),
        (lambda site: (site / MANIFEST).unlink(), "files that `course site` did not write"),
        (lambda site: (site / MANIFEST).write_text("{"), "files that `course site` did not write"),
        (lambda site: (site / MANIFEST).write_text("[]"), "files that `course site` did not write"),
    ],
)
def test_what_others_wrote_is_not_lost(tmp_path, change, said, monkeypatch, capsys):
    site = ours(tmp_path / "site")
    change(site)
    before = _hashes(site)
    with pytest.raises(SiteError, match=said):
        refuse_what_is_not_ours(site)
    monkeypatch.setattr(command, "missing", list)
    assert main(["--out", str(site)]) == 1
    assert said in capsys.readouterr().err
    assert _hashes(site) == before


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(SiteError, match="is a file; --out is a folder"):
        refuse_what_is_not_ours(tmp_path / "f")
