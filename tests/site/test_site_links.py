"""Links lead on the site where they led in the course; what is not on it becomes an address, or plain text."""

from __future__ import annotations

import pytest

from course_lib.authoring.site.links import LinkTargets

PAGES = {
    "README.md": "index.md",
    "notebooks/01a.ipynb": "lessons/01a.ipynb",
    "notebooks/solutions/01a.ipynb": "lessons/01a.ipynb",
    "notebooks/glossary.md": "glossary.md",
    "assets/x.png": "assets/x.png",
}


@pytest.mark.parametrize(
    ("markdown", "moved"),
    [
        ("[a](01a.ipynb) b", "[a](01a.ipynb) b"),
        ("[a](solutions/01a.ipynb#there)", "[a](01a.ipynb#there)"),
        ("![p](../assets/x.png)", "![p](../assets/x.png)"),
        ("[w](glossary.md#sum)", "[w](../glossary.md#sum)"),
        ("[`code` and [1]](glossary.md)", "[`code` and [1]](../glossary.md)"),
        ("[two\nlines](../README.md)", "[two\nlines](../index.md)"),
        ("[![p](../assets/x.png)](../README.md)", "[![p](../assets/x.png)](../index.md)"),
        ("[out](https://a.org/x) [here](#x)", "[out](https://a.org/x) [here](#x)"),
        ("[gone](../LICENSE) stays", "gone stays"),
        ("`[a](glossary.md)`", "`[a](glossary.md)`"),
        ("```\n[a](glossary.md)\n```\n[a](glossary.md)", "```\n[a](glossary.md)\n```\n[a](../glossary.md)"),
    ],
)
def test_links_of_a_lesson(markdown, moved):
    assert LinkTargets(PAGES).moved(markdown, "notebooks/01b.ipynb", "lessons/01b.ipynb") == moved


def test_the_repository_has_what_the_site_has_not():
    places = LinkTargets(PAGES, "https://a.org/b/c")
    assert places.moved("[l](LICENSE#x)", "README.md", "index.md") == "[l](https://a.org/b/c/blob/main/LICENSE#x)"
    assert places.moved("[l](../other)", "README.md", "index.md") == "l"
