"""The bucket explorer and the paced layers under it, driven without a front end."""

from __future__ import annotations

import io
import re

import pytest
import torch
import torch.distributed as dist
from PIL import Image
from torch import nn

from course_lib.cost import ddp_step
from course_lib.layouts.link import Link
from course_lib.meter import metered
from course_lib.parallel.data import DistributedDataParallel, PacedLayers, paced_step_s
from course_lib.plot import OKABE_ITO
from course_lib.plot.boards.bucket_board import BucketBoard
from course_lib.widgets import BucketExplorer

KIB = 1024


@pytest.fixture
def explorer() -> BucketExplorer:
    return BucketExplorer()


def test_it_starts_with_a_picture_and_the_prediction_in_words(explorer):
    assert Image.open(io.BytesIO(explorer.image.value)).format == "PNG"
    # 16 layers, one bucket each: 2 messages of 5 ms, and 64 KiB over 50 MB/s, in each of 16 all-reduces.
    communication_s = 16 * (2 * 5e-3 + 64 * KIB / 50e6)
    step = explorer.predict(64 * KIB)
    assert step.communication_s == pytest.approx(communication_s)
    assert len(step.buckets) == 16
    assert step.time_s == pytest.approx(0.020 + 0.040 / 16 + communication_s)  # the links are busy to the end
    assert "16 all-reduces, 181 ms in all" in explorer.words.value
    assert repr(explorer) == "Bucket explorer (64 KiB, 5 ms, 50 MB/s)"


@pytest.mark.parametrize(
    ("control", "value", "said"),
    [
        ("bucket", "1 MiB", "1 all-reduce, "),
        ("latency", "0", "16 all-reduces, 21"),
        ("bandwidth", "1 GB/s", "161 ms"),
    ],
)
def test_every_control_redraws_and_says_so(explorer, control, value, said):
    image = explorer.image.value
    getattr(explorer, control).value = value
    assert explorer.image.value != image
    assert said in explorer.words.value


def test_the_best_size_is_neither_the_smallest_nor_the_largest(explorer):
    times = {size: explorer.predict(size * KIB).time_s for size in (64, 512, 2048)}
    assert times[512] < times[64]
    assert times[512] < times[2048]


def test_every_control_has_a_name_and_measuring_needs_ranks(explorer):
    assert [c.description for c in (explorer.bucket, explorer.latency, explorer.bandwidth)] == [
        "bucket size", "latency", "bandwidth",
    ]  # fmt: skip
    assert explorer.measure.disabled


def test_the_button_runs_the_choice_and_keeps_what_it_found_for_this_link(cluster2):
    explorer = BucketExplorer(cluster2, num_layers=2, forward_s=0.002, backward_s=0.004)
    explorer.measure.click()
    assert "measured:" in explorer.words.value
    assert not explorer.measure.disabled
    explorer.bandwidth.value = "1 GB/s"
    assert "measured:" not in explorer.words.value
    explorer.bandwidth.value = "50 MB/s"
    assert "measured:" in explorer.words.value


def colours(image: Image.Image) -> set[tuple[int, ...]]:
    """Those of its pixels."""
    return {colour for _, colour in image.getcolors(2**20)}


def all_at_the_end(module, me, bucket_bytes):
    """A learner's: what is called, and what is called after backward."""

    def finish():
        for parameter in module.parameters():
            dist.all_reduce(parameter.grad)

    return module, finish


class Own(nn.Module):
    """A learner's class, as that of lesson 04d."""

    def __init__(self, module, me, bucket_bytes):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)

    def finish(self):
        raise AssertionError("it is nobody's to call")


@pytest.mark.parametrize("yours", [all_at_the_end, Own])
def test_the_button_runs_the_learners_own_after_the_courses(cluster2, yours):
    explorer = BucketExplorer(cluster2, num_layers=2, forward_s=0.002, backward_s=0.004, yours=yours)
    alone = BucketExplorer(cluster2, num_layers=2, forward_s=0.002, backward_s=0.004)
    assert explorer.image.value == alone.image.value
    explorer.measure.click()
    assert re.search(r"; measured: [\d.]+ m?s; yours: [\d.]+ m?s\.", explorer.words.value)
    explorer.latency.value = "1 ms"
    assert "yours" not in explorer.words.value


def gives_up(module=None, me=None, bucket_bytes=0):
    raise ValueError("no bucket is large enough")


def gives_up_after_backward(module, me, bucket_bytes):
    return module, gives_up


@pytest.mark.parametrize("yours", [gives_up, gives_up_after_backward])
def test_a_learners_own_that_fails_is_said_and_the_courses_is_measured(cluster2, yours):
    explorer = BucketExplorer(cluster2, num_layers=2, forward_s=0.002, backward_s=0.004, yours=yours)
    explorer.measure.click()
    assert "measured: " in explorer.words.value
    assert "yours: " not in explorer.words.value
    assert "Your run did not come to its end: " in explorer.words.value
    explorer.bucket.value = "1 MiB"
    assert "did not come to its end" not in explorer.words.value


def test_the_board_marks_what_is_the_learners():
    step = ddp_step([100, 100], forward_s=0.0, backward_s=1.0, all_reduce_time_s=lambda size: 0.25)
    board, curve = BucketBoard([1, 2]), {1: 1.25, 2: 1.25}
    course, both = board.draw(step, 1, curve, {1: 1.5}), board.draw(step, 1, curve, {1: 1.5}, {1: 1.4})
    assert both.alt == course.alt.replace("measured: 1.5 s.", "measured: 1.5 s; yours: 1.4 s.")
    green = tuple(bytes.fromhex(OKABE_ITO["green"][1:]))
    assert green not in colours(course.image)
    assert green in colours(both.image)


def test_ranks_that_fail_are_told_in_words_and_the_button_works_again(cluster2, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("the ranks are <gone>\nmore")

    explorer = BucketExplorer(cluster2)
    monkeypatch.setattr("course_lib.widgets.bucket_explorer.paced_step_s", fails)
    explorer.measure.click()
    assert "could not run it: the ranks are &lt;gone&gt;<" in explorer.words.value
    assert not explorer.measure.disabled


def test_a_model_without_layers_gets_a_sentence():
    with pytest.raises(ValueError, match="num_layers"):
        BucketExplorer(num_layers=0)


def test_the_board_says_what_is_hidden():
    step = ddp_step([100, 100], forward_s=0.0, backward_s=1.0, all_reduce_time_s=lambda size: 0.25)
    picture = BucketBoard([1, 2]).draw(step, 1, {1: 1.25, 2: 1.25}, {1: 1.5})
    assert "2 all-reduces, 500 ms in all, 50% of it behind" in picture.alt
    assert picture.alt.endswith("should take 1.25 s; measured: 1.5 s.")


def _gradients(me):
    model = DistributedDataParallel(
        me, PacedLayers(me, num_layers=3, layer_bytes=40, forward_s=0.0, backward_s=0.0), first_bucket_size_bytes=40,
        bucket_size_bytes=40,
    )  # fmt: skip
    outputs = model(torch.full((2,), me.rank + 1.0))
    outputs.sum().backward()
    return [weight.grad for weight in model.module.layers]


def test_paced_layers_have_the_gradients_of_what_they_compute(cluster2):
    run = metered(cluster2, _gradients)
    for gradients in run:
        assert all(torch.allclose(gradient, torch.full((10,), 0.2)) for gradient in gradients)
    # The first call compares the models; then one all-reduce for each of three buckets of 40 bytes.
    assert [c.size_bytes for c in run.communication.of(0, operation="all_reduce").calls] == [40, 40, 40]


def test_a_paced_step_takes_at_least_what_was_asked(cluster2):
    layers = {"num_layers": 2, "layer_bytes": 400, "forward_s": 0.01, "backward_s": 0.02}
    time_s = paced_step_s(cluster2, bucket_size_bytes=400, link=Link(5e-3, 1e9), num_steps=1, **layers)
    assert time_s >= 0.03 + 2 * 5e-3  # the last bucket can hide behind nothing


@pytest.mark.parametrize("bad", [{"num_layers": 0}, {"layer_bytes": 3}])
def test_paced_layers_refuse_to_be_empty(bad, cluster2):
    from course_lib.cluster import Rank

    sizes = {"num_layers": 1, "layer_bytes": 4, "forward_s": 0.0, "backward_s": 0.0} | bad
    with pytest.raises(ValueError, match="at least 1"):
        PacedLayers(Rank(0, 1, torch.device("cpu"), "gloo"), **sizes)


def test_what_is_no_cluster_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="cluster='two' is no cluster"):
        BucketExplorer("two")
