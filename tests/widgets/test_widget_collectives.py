"""Recordings of collectives, their pictures, and the explorer that steps through them, driven without a front end."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from course_lib.cluster import Cluster, exchange, recv, send
from course_lib.parallel.collectives.message_steps import message_steps
from course_lib.parallel.collectives.recording import (
    PIECE_BYTES,
    RECORDABLE,
    RecordedTransfer,
    Recording,
    RecordingFrame,
    record,
)
from course_lib.plot import tiles
from course_lib.plot.tile_chart import piece_text
from course_lib.widgets import CollectiveExplorer

pytestmark = pytest.mark.xdist_group("parallel_collectives")


@pytest.fixture(scope="module")
def recordings(cluster4: Cluster) -> dict[str, Recording]:
    return {name: record(cluster4, name) for name in RECORDABLE}


def texts(frame: RecordingFrame) -> list[str]:
    return [" ".join(map(piece_text, held)) for held in frame.held]


FULL = "ABCD0 ABCD1 ABCD2 ABCD3"
RESULTS = {
    "broadcast": ["A0 A1 A2 A3"] * 4,
    "scatter": ["A0 - - -", "- A1 - -", "- - A2 -", "- - - A3"],
    "gather": ["A0 B1 C2 D3", "- - - -", "- - - -", "- - - -"],
    "all_gather": ["A0 B1 C2 D3"] * 4,
    "reduce": [FULL, "- - - -", "- - - -", "- - - -"],
    "reduce_scatter": ["ABCD0 - - -", "- ABCD1 - -", "- - ABCD2 -", "- - - ABCD3"],
    "all_reduce, ring": [FULL] * 4,
    "all_reduce, tree": [FULL] * 4,
    "all_reduce, halving-doubling": [FULL] * 4,
    "all_reduce, naive": [FULL] * 4,
    "all_to_all": ["A0 B0 C0 D0", "A1 B1 C1 D1", "A2 B2 C2 D2", "A3 B3 C3 D3"],
}
STEPS = {"broadcast": 2, "reduce": 2, "reduce_scatter": 3, "all_gather": 3, "all_reduce, ring": 6,
         "all_reduce, tree": 4, "all_reduce, halving-doubling": 4, "all_reduce, naive": 2}  # fmt: skip


@pytest.mark.parametrize("name", RECORDABLE)
def test_a_recording_ends_in_the_result_after_the_known_number_of_steps(recordings, name):
    recording = recordings[name]
    assert texts(recording.frames[-1]) == RESULTS[name]
    assert recording.num_steps == STEPS.get(name, 1)
    assert recording.frames[0].transfers == ()
    assert all(frame.transfers for frame in recording.frames[1:])


def test_every_step_of_the_ring_is_seen(recordings):
    ring = recordings["all_reduce, ring"]
    assert texts(ring.frames[0])[1] == "B0 B1 B2 B3"
    assert texts(ring.frames[1]) == ["A0 A1 AD2 A3", "B0 B1 B2 AB3", "BC0 C1 C2 C3", "D0 CD1 D2 D3"]
    assert texts(ring.frames[3])[0] == "ABCD0 ACD1 AD2 A3"
    for frame in ring.frames[1:]:
        assert set(frame.transfers) == {RecordedTransfer(r, (r + 1) % 4, PIECE_BYTES) for r in range(4)}
    assert [ring.sent_bytes(2, until=step) for step in range(7)] == [step * PIECE_BYTES for step in range(7)]


def test_ranks_that_take_turns_get_steps_of_their_own(recordings):
    tree = recordings["broadcast"]
    assert [[(t.sender, t.receiver) for t in frame.transfers] for frame in tree.frames] == [
        [],
        [(0, 1)],
        [(0, 2), (1, 3)],
    ]
    assert texts(tree.frames[1])[1:3] == ["A0 A1 A2 A3", "- - - -"]


def test_a_message_waits_for_both_its_ends():
    """Rank 0 takes messages from ranks 1 and 2, one after the other; rank 2 was ready from the start."""
    batches = [[[(1, 8, True)], [(2, 8, True)]], [[(0, 8, False)]], [[(0, 8, False)]]]
    steps = message_steps(batches)
    assert (steps[1, 0][0], steps[2, 0][0]) == (1, 2)
    assert (steps[0, 0][0], steps[0, 1][0]) == (1, 2)


def along_a_chain(me, tensor):
    """A broadcast of one's own, from rank to rank."""
    if me.rank:
        exchange([recv(tensor, me.rank - 1)])
    if me.rank + 1 < me.world_size:
        exchange([send(tensor, me.rank + 1)])


def test_a_function_of_ones_own_can_be_recorded(cluster4, cluster2):
    chain = record(cluster4, along_a_chain)
    assert (chain.name, chain.num_steps) == ("along_a_chain", 3)
    assert texts(chain.frames[2]) == ["A0 A1 A2 A3"] * 3 + ["D0 D1 D2 D3"]
    assert texts(record(cluster2, along_a_chain).frames[-1]) == ["A0 A1"] * 2


def test_recording_leaves_the_ranks_as_they_were(cluster4):
    def sends(me):
        import torch.distributed as dist

        return dist.batch_isend_irecv.__name__

    record(cluster4, "broadcast")
    assert set(cluster4.call(sends)) == {"batch_isend_irecv"}


def test_what_cannot_be_recorded_is_refused(cluster4):
    with pytest.raises(ValueError, match="'reduce_all' cannot be recorded; choose one of broadcast"):
        record(cluster4, "reduce_all")
    with Cluster(8) as many, pytest.raises(ValueError, match="8 ranks cannot be recorded; the most is 7"):
        record(many, "broadcast")


def test_a_picture_says_in_words_what_it_shows(recordings):
    frame = recordings["reduce_scatter"].frames[-1]
    picture = tiles({"after": frame}, title="Each its part")
    assert picture.alt == (
        "Each its part. after: rank 0 holds ABCD0 - - -, rank 1 holds - ABCD1 - -, rank 2 holds - - ABCD2 -, "
        "rank 3 holds - - - ABCD3."
    )
    assert Image.open(io.BytesIO(picture.png())).format == "PNG"
    assert picture.png() == tiles({"after": frame}, title="Each its part").png()
    assert picture.png() != tiles({"after": frame}, title="Each its part", messages=False).png()
    with pytest.raises(ValueError, match="no frames to draw"):
        tiles({})


def test_heavy_borders_mark_what_has_come(recordings):
    frames = recordings["all_reduce, ring"].frames
    picture = tiles({"step 1": frames[1], "step 2": frames[2]}, before=frames[0])
    for axes, come in zip(picture.figure.axes, ([2, 7, 8, 13], [1, 6, 11, 12]), strict=True):
        widths = axes.collections[-1].get_linewidths()
        assert [place for place, width in enumerate(widths) if width > 2] == come
    alone = tiles({"step 1": frames[1]}).figure.axes[0].collections[-1]
    assert max(alone.get_linewidths()) < 2


@pytest.fixture
def explorer(recordings) -> CollectiveExplorer:
    return CollectiveExplorer([recordings["all_reduce, ring"], recordings["broadcast"]])


def test_it_starts_at_the_beginning(explorer):
    assert repr(explorer) == "Collective explorer (all_reduce, ring, step 0 of 6)"
    assert explorer.words.value == "<div role='status'><b>Step 0 of 6.</b> Nothing has been sent.</div>"
    explorer.back.click()
    assert explorer.words.value.endswith("There is no step before the first.</div>")
    assert not explorer.back.disabled  # it would lose the focus of the keyboard
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"


def test_stepping_forward_and_back_shows_each_step(explorer):
    seen = [explorer.image.value]
    for _ in range(6):
        explorer.forward.click()
        seen.append(explorer.image.value)
    assert len(set(seen)) == 7
    assert "rank 3 has ABCD0 at place 0" in explorer.words.value
    assert "Sent so far: rank 0 6 KiB" in explorer.words.value
    explorer.forward.click()  # nothing further
    assert explorer.step.value == 6
    assert explorer.words.value.endswith("There is no step after the last.</div>")
    assert not explorer.forward.disabled
    explorer.back.click()
    assert explorer.image.value == seen[5]
    explorer.step.value = 1
    assert explorer.image.value == seen[1]
    assert "0 to 1 (1 KiB)" in explorer.words.value
    assert "Sent so far: rank 0 1 KiB" in explorer.words.value
    assert "rank 0 has AD2 at place 2" in explorer.words.value


def test_another_collective_begins_at_its_beginning(explorer):
    explorer.step.value = 5
    explorer.collective.value = "broadcast"
    assert (explorer.step.value, explorer.step.max) == (0, 2)
    explorer.step.value = 2
    assert "0 to 2 (4 KiB), 1 to 3 (4 KiB)" in explorer.words.value
    assert "Sent so far: rank 0 8 KiB, rank 1 4 KiB, rank 2 0 B" in explorer.words.value
    explorer.collective.value = "all_reduce, ring"
    assert (explorer.step.value, explorer.step.max) == (0, 6)


def test_controls_have_names_and_can_be_reached(explorer):
    controls = (explorer.collective, explorer.step, explorer.back, explorer.forward)
    assert all(control.description for control in controls)
    assert explorer.children[0].children == controls
    assert explorer.children[1:3] == (explorer.image, explorer.words)
    assert explorer._repr_mimebundle_()["text/plain"] == repr(explorer)


def test_recordings_need_names_of_their_own(recordings):
    with pytest.raises(ValueError, match="a name of its own"):
        CollectiveExplorer([recordings["gather"], recordings["gather"]])
