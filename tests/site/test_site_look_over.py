"""`course site --check` finds each kind of fault, and is silent where there is none."""

from __future__ import annotations

import pytest

from course_lib.authoring.site.look_over import faults

GOOD = """<link rel="stylesheet" href="a.css"><link rel="canonical" href="https://a.org/x"><h1 id="top">x</h1>
<a href="#top">up</a> <a href="b/">b</a> <a href="b/index.html#low%20er">b</a> <a href="https://a.org/x#y">o</a>
<a href="mailto:a@b.org">m</a> <img src="p.png?v=1" alt=""> <img src="data:image/png;base64,AA" alt="dot">"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "b" / "index.html").write_text('<p id="low er"><a href="../index.html">x</a> <a name="n">')
    (tmp_path / "a.css").write_text("x { background: url(p.png), url('data:x') }")
    (tmp_path / "p.png").write_bytes(b"")
    return tmp_path


def test_nothing_is_wrong_with_a_good_site(site):
    assert faults(site) == []


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ('<a href="c.html">', "'c.html' leads to no file"),
        ('<a href="/etc/">', "'/etc/' leads to no file"),
        ('<a href="../../x">', "leads to no file"),
        ('<a href="#nowhere">', "has no place 'nowhere'"),
        ('<a href="b/index.html#no">', "has no place 'no'"),
        ('<a href="https://nohost/x">', "is no whole address"),
        ('<a href="https:/a.org">', "is no whole address"),
        ('<a href="//a.org/x">', "it is to begin with https:"),
        ('<a href="file:///x">', "it is to begin with https:"),
        ('<a href="mailto:nobody">', "is no address of a person"),
        ('<script src="https://cdn.org/x.js"></script>', "is fetched from elsewhere"),
        ('<script src="//cdn.org/x.js"></script>', "is fetched from elsewhere"),
        ('<link rel="stylesheet" href="https://cdn.org/x.css">', "is fetched from elsewhere"),
        ('<link rel="preconnect" href="https://fonts.org">', "is fetched from elsewhere"),
        ('<img alt="x" src="https://a.org/x.png">', "is fetched from elsewhere"),
        ('<img alt="x" srcset="p.png 1x, https://a.org/2.png 2x">', "'https://a.org/2.png' is fetched"),
        ('<p style="background: url(https://a.org/x.png)">', "is fetched from elsewhere"),
        ("<style>@import 'https://a.org/x.css';</style>", "is fetched from elsewhere"),
        ('<script src="gone.js"></script>', "'gone.js' is no file"),
        ('<img src="p.png">', "has no alt text"),
    ],
)
def test_each_fault_is_named_with_its_page(site, part, said):
    (site / "index.html").write_text(GOOD + part)
    (found,) = faults(site)
    assert found.startswith("index.html: ")
    assert said in found


def test_a_file_outside_is_no_part_of_the_site(site):
    (site / "inner").mkdir()
    (site / "inner" / "index.html").write_text('<a href="../a.css">')
    assert "leads to no file" in faults(site / "inner")[0]


def test_a_style_sheet_that_fetches(site):
    (site / "a.css").write_text("@import 'https://fonts.org/x.css'; y { src: url(gone.woff2) }")
    assert [said.split(": ")[0] for said in faults(site)] == ["a.css", "a.css"]
