"""`course find`: which words are the same, what comes first, what is said where nothing is found, what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from course_lib import find
from course_lib.cli import main as course
from course_lib.search import command
from course_lib.search.find import SearchResult, search
from course_lib.search.place_texts import as_text
from course_lib.search.shown import FoundPlaces
from course_lib.search.words import in_two, nearest, word_list

LESSON = '''# %% [markdown]
# # 05a · Shards: states
#
# You deal states out, with a **reduce-scatter**.
#
# **40 minutes · difficulty 2 of 5 · needs: cpu**
#
# Part 1 of 2 · [2: navigation of parts](05b_more.ipynb)

# %% [markdown]
# ## Two halves
#
# Each rank keeps its part. A reduce_scatter adds up.
#
# Once more: Reduce scatter, then the optimizer.

# %%
def share(items):
    """Not a page's text: zanzibar."""
    ### BEGIN SOLUTION
    return items[::2]  # a secret ostrich
    ### END SOLUTION


reveal("05.shards", told="a hidden heron")
'''
GLOSSARY = """# Glossary

### reduce-scatter

A **reduce-scatter** adds up. Elsewhere: reduce_scatter. *Lesson [05a · Shards: states](05a_shards.ipynb).*

### state

A **state** is kept by an optimizer. *Lesson [05a · Shards: states](05a_shards.ipynb).*

## Other names

- psum: see [reduce-scatter](#reduce-scatter)
"""
CODE = '''"""What a scatter costs."""


def cost_of(
    numbers: int,
    ranks: int = 2,
) -> int:
    """The pelican of a reduce-scatter."""
    if ranks < 1:
        raise ValueError(
            f"ranks={ranks} cannot share anything out; "
            f"give a whole number of ranks, 1 or more"
        )
    return numbers


def _own():
    """A private pelican."""


class Costs:
    """All costs: a toucan each."""

    def total(self):
        """The toucan of all."""

    def _part(self):
        """No toucan of yours."""
'''


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A course of one lesson, a glossary, a page, a module, and things that hold answers."""
    texts = {
        "notebooks/src/05a_shards.py": LESSON,
        "notebooks/glossary.md": GLOSSARY,
        "notebooks/solutions/05a_shards.ipynb": "a secret ostrich",
        "docs/commands.md": "# Commands\n\n<!-- a hidden\nnote -->\n\n| a | b |\n| --- | --- |\n| scatter | deals |\n",
        "docs/instructor/lessons/05.md": "# 05\n\nThe class says ostrich.\n",
        "docs/maintaining/tests.md": "# Tests\n\nAn ostrich of tests.\n",
        "course_lib/cost/scatter.py": CODE,
        "course_lib/learn/exercises/lesson_05/quiz.py": '"""An ostrich."""\n',
        "course_lib/claims/trial.py": '"""An ostrich."""\n',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def places(result: SearchResult) -> list[tuple[str, str]]:
    return [(hit.entry.kind, hit.entry.head) for hit in result.hits]


# --- Words --------------------------------------------------------------------------------------------------------


def test_words_are_compared_without_capitals_hyphens_and_plurals() -> None:
    assert word_list("ReduceScatter reduce_scatter Reduce-scatters") == ["reduce", "scatter"] * 3
    assert word_list("copies batches losses axes bubbles bus GiB GPUs 1F1B") == [
        "copy", "batch", "loss", "ax", "bubble", "bus", "gib", "gpu", "1f1b",
    ]  # fmt: skip


def test_two_words_typed_as_one_are_found_apart() -> None:
    assert in_two("allreduce", {"all", "reduce"}) == ["all", "reduce"]
    assert in_two("allreduce", {"all"}) == []


def test_the_nearest_words_look_alike() -> None:
    assert nearest("scater", {"scatter", "gather", "mesh"})[0] == "scatter"
    assert nearest("zxqv", {"scatter", "gather"}) == []


# --- What is found ------------------------------------------------------------------------------------------------


def test_spellings_of_a_word_find_the_same_places_and_the_glossary_first(small: Path) -> None:
    found = [
        places(search(words, root=small))
        for words in ("reduce-scatter", "reduce_scatter", "Reduce scatter", "ReduceScatter", "reducescatter")
    ]
    assert found[0] == found[1] == found[2] == found[3] == found[4]
    assert found[0][0] == ("word", "reduce-scatter")
    assert ("lesson", "Two halves") in found[0]
    assert ("library", "cost_of") in found[0]


def test_a_heading_is_one_place_and_says_how_many_paragraphs_more(small: Path) -> None:
    (hit,) = [hit for hit in search("reduce-scatter", root=small).hits if hit.entry.head == "Two halves"]
    assert hit.more == 1
    assert "".join(hit.context) == "A reduce_scatter adds up."
    assert hit.context[1] == "reduce_scatter"


def test_all_of_the_words_have_to_be_there(small: Path) -> None:
    assert places(search("scatter optimizer", root=small)) == [("lesson", "Two halves")]
    nothing = search("optimizer halves commands", root=small)
    assert not nothing.hits
    assert "No single place has all of 'optimizer', 'halves' and 'commands'" in nothing.says


def test_a_beginning_finds_the_word_and_a_short_one_does_not(small: Path) -> None:
    assert ("library", "cost_of") in places(search("pelica", root=small))
    assert search("pel", root=small).hits == ()


def test_places_can_be_of_one_kind(small: Path) -> None:
    assert {kind for kind, _ in places(search("scatter", kinds=["docs"], root=small))} == {"docs"}
    assert search("toucan", kinds=["lessons"], root=small).hits == ()


def test_docstrings_are_those_of_public_names(small: Path) -> None:
    assert places(search("toucan", root=small)) == [("library", "Costs"), ("library", "Costs.total")]
    assert places(search("pelican", root=small)) == [("library", "cost_of")]


def test_a_message_is_found_by_its_words_and_when_it_is_pasted(small: Path) -> None:
    for words in (
        "cannot share anything",
        "ranks=-3 cannot share anything out; give a whole number of ranks, 1 or more",
    ):
        result = search(words, root=small)
        (hit,) = [hit for hit in result.hits if hit.entry.kind == "message"]
        assert hit.entry.text == "ranks=… cannot share anything out; give a whole number of ranks, 1 or more"
        assert (hit.entry.file, hit.entry.line) == ("course_lib/cost/scatter.py", 11)
    assert "have most of them" in result.says


@pytest.mark.parametrize("words", ["ostrich", "zanzibar", "heron", "note", "navigation"])
def test_no_answer_and_no_code_of_a_page_is_found(small: Path, words: str) -> None:
    assert search(words, root=small).hits == ()


def test_a_typo_finds_the_nearest_word(small: Path) -> None:
    result = search("optimiser", root=small)
    assert (
        result.says == "No place has 'optimiser'. The nearest word there is optimizer. Shown is what that would find."
    )
    assert ("lesson", "Two halves") in places(result)


def test_a_word_that_is_like_none_gets_a_sentence(small: Path) -> None:
    assert "Nothing has 'zxqv', nor a word like it." in search("zxqv", root=small).says
    assert "Nothing in docs has 'zxqv'" in search("zxqv", kinds=["docs"], root=small).says


def test_a_file_that_cannot_be_read_is_passed_over(small: Path) -> None:
    (small / "docs" / "broken.md").write_bytes(b"\xff\xfe scatter")
    (small / "docs" / "folder.md").mkdir()
    assert search("scatter", root=small).hits


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "there is no word to look for; give words"),
        ("  ", "there is no word to look for"),
        ("-- !", "'-- !' has no letter or digit; give words"),
        ("a" * 3000, "3,000 letters are too many"),
        (None, "None is no text to look for"),
    ],
)
def test_what_is_no_search_gets_a_sentence(words: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        search(words)


def test_another_kind_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'lesson' is nothing to search in.*Did you mean lessons\?"):
        search("scatter", kinds=["lesson"])


# --- What is shown ------------------------------------------------------------------------------------------------


def test_text_says_how_to_open_a_place(small: Path) -> None:
    text = as_text(search("reduce-scatter", root=small), 3)
    assert "places for 'reduce-scatter'; the first 3." in text
    assert "word: reduce-scatter (lesson 05a · Shards: states)" in text
    assert "notebooks/05a_shards.ipynb  `course lab --open 05a`" in text


def test_a_table_links_what_lies_where_the_link_leads(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small / "notebooks" / "05a_shards.ipynb").write_text("{}")
    for folder, link in (("notebooks", "05a_shards.ipynb#Two-halves"), ("notebooks/solutions", "../05a_shards.ipynb#")):
        monkeypatch.chdir(small / folder)
        html = FoundPlaces(search("optimizer", root=small))._html()
        assert f"<a href='{link}" in html
        assert "<strong>optimizer</strong>" in html
    monkeypatch.chdir("/")
    assert "<a " not in FoundPlaces(search("optimizer", root=small))._html()


def test_what_is_typed_is_no_html(small: Path) -> None:
    (small / "docs" / "odd.md").write_text("# Odd\n\nA <script>quagga</script> stands here.\n")
    assert "<script" not in FoundPlaces(search("<script>quagga", root=small))._html()


def test_find_shows_and_returns_the_places(capsys: pytest.CaptureFixture[str]) -> None:
    found = find("reduce-scatter", only="glossary", most=1)
    assert [hit.entry.head for hit in found.hits] == ["reduce-scatter"]
    assert "word: reduce-scatter" in capsys.readouterr().out
    with pytest.raises(ValueError, match="most=0 is no number of places"):
        find("reduce-scatter", most=0)


# --- The command --------------------------------------------------------------------------------------------------


def test_the_command_finds(capsys: pytest.CaptureFixture[str]) -> None:
    assert course(["find", "reduce", "scatter", "--in", "glossary", "--most", "1"]) == 0
    out = capsys.readouterr().out
    assert "word: reduce-scatter" in out
    assert "--most" in out


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        ([], 2, "course find: there is no word to look for"),
        ([""], 2, "course find: there is no word to look for"),
        (["ring", "--in", "messges"], 2, "Did you mean messages?"),
        (["ring", "--most", "0"], 2, "--most 0 shows nothing"),
        (["zxqvw"], 1, "Nothing has 'zxqvw', nor a word like it."),
    ],
)
def test_the_command_says_what_is_wrong(
    argv: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(argv) == code
    assert says in capsys.readouterr().err
