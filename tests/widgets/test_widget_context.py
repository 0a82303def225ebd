"""The context explorer, driven without a front end."""

from __future__ import annotations

import io
import re
from itertools import product
from types import SimpleNamespace

import pytest
from context_watched import RUN, as_the_model_says, every_choice
from PIL import Image

from course_lib.cluster import RankError
from course_lib.cost import all_to_all_attention_sent_bytes, ring_pairs
from course_lib.layouts.sequence_cut import ORDERS, SequenceCut
from course_lib.models import TransformerConfig
from course_lib.parallel.context import watched_attention
from course_lib.widgets import ContextChoice, ContextExplorer
from course_lib.widgets.context.choice import HEAD_DIM, KEY_HEADS, NUM_HEADS, RANKS, WAYS


@pytest.fixture
def explorer() -> ContextExplorer:
    return ContextExplorer()


@pytest.fixture
def planned(monkeypatch) -> ContextExplorer:
    """An explorer whose four ranks send what the model says."""
    monkeypatch.setattr(RUN, as_the_model_says())
    return ContextExplorer(SimpleNamespace(world_size=4))


def words_of(explorer: ContextExplorer) -> str:
    return explorer.words.value.replace("<br>", " ").replace("&#x27;", "'")


# -- what a choice comes to -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_tokens", [16, 37])
def test_every_head_s_pairs_are_computed_once_in_either_way(num_tokens):
    for choice in every_choice(num_tokens):
        all_pairs = NUM_HEADS * num_tokens * (num_tokens + 1) // 2
        assert sum(map(sum, choice.pairs())) == all_pairs
        assert len(choice.pairs()) == (choice.num_ranks if choice.way == "ring" else 1)
    ring = ContextChoice(37, 3, "zigzag")
    assert ring.pairs()[1] == tuple(4 * number for number in ring_pairs(SequenceCut(37, 3, "zigzag"))[1])


def test_what_is_refused_is_what_the_cost_model_refuses():
    taken = {(c.num_ranks, c.key_heads) for c in every_choice(16) if c.way == "all_to_all"}
    legal = set()
    for num_ranks, key_heads in product(RANKS, KEY_HEADS):
        config = TransformerConfig(context_length=16, width=32, num_heads=4, num_kv_heads=key_heads)
        try:
            all_to_all_attention_sent_bytes(config, SequenceCut(16, num_ranks), 0, batch_size=1)
            legal.add((num_ranks, key_heads))
        except ValueError:
            continue
    assert taken == legal
    assert len(taken) < len(RANKS) * len(KEY_HEADS)
    assert sum(c.way == "ring" for c in every_choice(16)) == len(RANKS) * len(ORDERS) * len(KEY_HEADS)


def test_bytes_work_and_memory_are_the_cost_model_s():
    ring, heads = ContextChoice(64, 4), ContextChoice(64, 4, way="all_to_all")
    block = 2 * 4 * 8 * 16 * 4  # keys and values, heads, numbers, positions, bytes
    assert ring.sent_by(1).forward == 3 * block
    assert ring.most_sent_bytes == 9 * block
    assert heads.most_sent_bytes == 3 * block
    assert heads.apart == 0 < ring.apart
    assert ring.balance == pytest.approx(0.58, abs=0.005)
    assert heads.balance == 1
    assert ContextChoice(64, 1).most_sent_bytes == 0
    assert heads.most_kept_bytes > ring.most_kept_bytes > ContextChoice(64, 8).most_kept_bytes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_tokens": 15}, "tokens=15 does not work: tokens is a whole number of at least 16"),
        ({"num_tokens": 257}, "tokens is at most 256"),
        ({"num_ranks": 5}, "ranks is '5'; it is one of 1, 2, 3, 4, 8"),
        ({"key_heads": 3}, "key heads is '3'; it is one of 1, 2, 4"),
        ({"order": "zigzak"}, "Did you mean 'zigzag'"),
        ({"way": "all-to-all"}, "Did you mean 'all_to_all'"),
        (
            {"way": "all_to_all", "key_heads": 2},
            "2 key heads do not divide among 4 ranks. Take 2 ranks, 4 key heads, or the ring.",
        ),
        (
            {"way": "all_to_all", "key_heads": 1, "num_ranks": 3},
            "1 key head does not divide among 3 ranks. Take 1 rank, or the ring.",
        ),
    ],
)
def test_what_is_no_choice_gets_a_sentence_and_moves_no_control(explorer, given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        ContextChoice(**given)
    names = {"num_tokens": "tokens", "num_ranks": "ranks"}
    image = explorer.image.value
    with pytest.raises(ValueError, match=re.escape(said)):
        explorer.choose(**{names.get(name, name): value for name, value in given.items()})
    assert explorer.choice == ContextChoice()
    assert explorer.image.value == image


# -- the explorer ---------------------------------------------------------------------------------------------------


def test_it_starts_with_a_quarter_each_a_picture_and_the_model_in_words(explorer):
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    words = words_of(explorer)
    assert "rank 1 has positions 16-31 and 544, 1,024, 2 times 0;" in words
    assert "the ranks compute for 58% of the time" in words
    assert "ranks 0 to 3 send 12.0 KiB forward and 24.0 KiB backward each." in words
    assert "keeps at most 53.0 KiB of activations" in words
    assert "Model only: no ranks were given" in words
    assert explorer.words.value.startswith("<div role='status'>")
    assert explorer.run.disabled
    assert explorer.missions.count("not yet") == 3
    assert repr(explorer) == (
        "Context explorer (64 tokens, 4 ranks, contiguous, ring, 4 key heads): 36.0 KiB from the rank that sends most; "
        "missions reached: 0 of 3"
    )


def test_every_control_has_a_name_and_none_is_a_slider(explorer):
    controls = [child for row in explorer.children[:2] for child in row.children]
    assert [control.description for control in controls] == [
        "tokens of the sequence", "ranks", "order", "way", "key heads, of 4", "run it on real ranks",
    ]  # fmt: skip
    assert {type(control).__name__ for control in controls} == {"BoundedIntText", "Dropdown", "Button"}


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
        ("tokens", 65, "rank 0 has positions 0-16 and"),
        ("ranks", 8, "rank 7 has positions 56-63 and 144, 7 times 256."),
        ("order", "zigzag", "rank 0 has positions 0-7 and 56-63 and 544, 3 times 512;"),
        ("way", "all_to_all", "a rank computes the whole causal mask of one head at once: 2,080 pairs"),
        ("key_heads", 2, "ranks 0 to 3 send 6.0 KiB forward and 12.0 KiB backward each."),
    ],
)
def test_every_control_redraws_and_says_so(explorer, control, value, said):
    image = explorer.image.value
    getattr(explorer, control).value = value
    assert explorer.image.value != image
    assert said in words_of(explorer)
    assert explorer.picture().alt in words_of(explorer)


def test_ranks_that_send_different_amounts_are_told_apart(explorer):
    explorer.choose(tokens=101, ranks=3, order="zigzag", key_heads=2)
    assert "rank 0 sends 8.4 KiB forward and 16.9 KiB backward; rank 1 sends" in words_of(explorer)


def test_an_all_to_all_that_is_refused_is_told_and_no_setting_is_lost(explorer):
    explorer.tokens.value, explorer.order.value = 100, "zigzag"
    explorer.key_heads.value = 2
    explorer.way.value = "all_to_all"
    said = "2 key heads do not divide among 4 ranks. Take 2 ranks, 4 key heads, or the ring."
    assert said in words_of(explorer)
    assert said in explorer.picture().alt
    assert said in repr(explorer)
    assert explorer.run.disabled
    assert explorer.missions.splitlines()[0] == "mission 1: not yet. This setting is refused."
    explorer.ranks.value = 2
    assert explorer.choice == ContextChoice(100, 2, "zigzag", "all_to_all", 2)
    explorer.ranks.value, explorer.way.value = 4, "ring"
    assert explorer.choice == ContextChoice(100, 4, "zigzag", "ring", 2)


def test_a_setting_is_drawn_once_and_what_is_not_given_stays(explorer, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        explorer._board, "draw", lambda cut, *_, **__: drawn.append(str(cut)) or explorer._board.blank("")
    )
    explorer.choose(tokens=96, ranks=2, order="zigzag")
    explorer.choose(way="all_to_all")
    assert drawn == ["96 tokens, 2 ranks, zigzag"] * 2


@pytest.mark.parametrize(("world_size", "ranks"), [(1, 1), (2, 2), (4, 4), (6, 4), (16, 8)])
def test_it_starts_with_ranks_that_can_run_and_with_no_mission_reached(world_size, ranks):
    start = ContextExplorer(SimpleNamespace(world_size=world_size))
    assert start.choice == ContextChoice(num_ranks=ranks)
    assert not start.run.disabled
    assert "reached (" not in start.missions


def test_more_ranks_than_the_cluster_has_are_model_only(planned):
    planned.ranks.value = 8
    assert planned.run.disabled
    assert "Model only: this explorer's cluster has 4 ranks." in words_of(planned)
    assert planned.run.tooltip.startswith("Model only")
    planned.ranks.value = 3
    assert not planned.run.disabled
    assert "Model only" not in words_of(planned)


# -- a run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_button_runs_this_setting_on_ranks_and_compares_it_with_one_process(cluster2, way):
    explorer = ContextExplorer(cluster2)
    explorer.choose(tokens=33, order="zigzag", way=way, key_heads=2)
    explorer.run.click()
    words = words_of(explorer)
    assert re.search(r"Measured: in the layer rank 0 sends [\d.]+ KiB .*, as the model says\. Compared", words)
    assert "the whole sequence: outputs are" in words
    assert not explorer.run.disabled
    for rank in explorer._measured[explorer.choice]:
        assert max(rank.output_off, rank.gradients_off) < 1e-5
        assert rank.sent_bytes > 0


def test_fewer_ranks_than_the_cluster_has_share_the_sequence_among_themselves(cluster2):
    sizes = {"num_heads": 4, "num_kv_heads": 1, "head_dim": HEAD_DIM}
    for way in WAYS:
        found = watched_attention(cluster2, SequenceCut(20, 1), way=way, **sizes)
        assert [rank.sent_bytes for rank in found] == [0]
        assert found[0].gradients_off < 1e-5
    with pytest.raises(ValueError, match="num_ranks=3 does not work: num_ranks is at most 2"):
        watched_attention(cluster2, SequenceCut(20, 3), way="ring", **sizes)
    with pytest.raises(ValueError, match="way is 'rings'"):
        watched_attention(cluster2, SequenceCut(20, 2), way="rings", **sizes)


def test_what_was_measured_comes_back_with_its_setting(planned):
    image = planned.image.value
    planned.run.click()
    assert planned.image.value != image
    planned.choose(order="zigzag")
    assert "Measured" not in words_of(planned)
    planned.choose(order="contiguous")
    assert "backward each, as the model says. Compared with" in words_of(planned)
    assert "outputs are the same to the last digit" in words_of(planned)


def test_a_run_that_is_apart_from_the_model_is_told(planned, monkeypatch):
    monkeypatch.setattr(RUN, as_the_model_says(1.1))
    planned.run.click()
    assert "26.4 KiB backward each, up to 10.0% away from the model." in words_of(planned)


@pytest.mark.parametrize("kind", [RankError, RuntimeError, OSError, ValueError])
def test_ranks_that_fail_are_told_in_words_and_nothing_is_lost(planned, monkeypatch, kind):
    def fails(*_, **__):
        raise kind("the ranks are <gone>\nmore")

    planned.choose(tokens=96, order="zigzag")
    planned.run.click()
    before, choice = planned._measured[planned.choice], planned.choice
    monkeypatch.setattr(RUN, fails)
    planned.run.click()
    assert "could not run it: the ranks are &lt;gone&gt;<" in planned.words.value
    assert "mission 1: not yet." in planned.words.value
    assert planned.choice == choice
    assert planned._measured[choice] == before
    assert not planned.run.disabled


@pytest.mark.parametrize("cluster", ["two", SimpleNamespace(world_size="2")])
def test_what_is_no_cluster_is_refused_in_a_sentence(cluster):
    with pytest.raises(ValueError, match=r"is no cluster\. Give shared_cluster"):
        ContextExplorer(cluster)
