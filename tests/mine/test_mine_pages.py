"""Pages of lessons 04 and 05 show the run of what their learner has built, beside the course's; or that one alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from page_cells import cell_with, run_cells

from course_lib.learn import ask
from course_lib.mine.keeping import keep
from course_lib.mine.table import entry_of

HANGS = "while True: pass"


def kept(stem, imports, name, exercise, old="", new=""):
    """Keep the solution of a build, with one change, as if the check of this step had passed it."""
    notebook = run_cells(stem, imports)
    text = cell_with(stem, f"class {name}(")
    assert old in text
    notebook.cell(text.replace(old, new))
    said = keep(entry_of(name), notebook[name], exercise)
    assert said.startswith("Kept in"), said


def ddp_kept(old="", new=""):
    kept("04d", "import contextlib", "MyDDP", "04.ddp_awkward", old, new)


def sharded_kept(old="", new=""):
    kept("05g", "import contextlib", "MyFullySharded", "05.fsdp_awkward", old, new)


# -- 04b: the bytes of a step, and of one with no_sync ---------------------------------------------------------------


def bytes_of_04b(capsys):
    """What the cells of accumulation say."""
    ask("04.pieces").reset()
    notebook = run_cells("04b", "from functools import partial", "one, two, four =", "def make_model", "def accumulate")
    run_cells("04b", 'reveal("04.pieces"', "with no_sync for all but the last", notebook=notebook)
    return capsys.readouterr().out


def test_who_has_built_nothing_sees_todays_page(anna, capsys):
    said = bytes_of_04b(capsys)
    assert "with no_sync for all but the last: " in said
    for word in ("yours", "mine.", "What it cost"):
        assert word not in said


def test_who_has_built_a_ddp_reads_what_it_sends(anna, capsys):
    ddp_kept()
    said = bytes_of_04b(capsys)
    assert "mine.MyDDP is yours: " in said
    assert "What it cost a rank: yours made 4 calls and sent 1.43 MiB; the course's made 4 calls and sent 1.43" in said
    assert "with no_sync for all but the last, by yours: 367 KiB" in said


def test_a_ddp_that_sends_more_is_told_so(anna, capsys):
    """It is counted, and not a text of the page: this one makes a second all-reduce of each bucket."""
    twice = "bucket.work = self.all_reduce(bucket.flat, async_op=True)"
    ddp_kept(twice, f"self.all_reduce(bucket.flat.clone()); {twice}")
    assert "yours made 8 calls and sent 2.87 MiB; the course's made 4 calls" in bytes_of_04b(capsys)


def test_a_part_that_is_not_built_yet_gives_a_sentence_and_the_courses_run(anna, capsys):
    ddp_kept("before, self.syncs = self.syncs, False", 'raise NotImplementedError("Your turn")')
    said = bytes_of_04b(capsys)
    assert "What it cost a rank: yours made 4 calls" in said
    assert "Yours did not come to its end here, so the course's stands alone. RankFailed: " in said
    assert "with no_sync for all but the last: 367 KiB" in said
    assert "by yours" not in said


@pytest.mark.long  # `test_mine_run_both.py` has one that hangs each time
def test_one_that_hangs_is_ended_and_the_courses_run_is_shown(anna, capsys, monkeypatch):
    from course_lib import shared_cluster

    ddp_kept("self.syncs, self.started = True, 0", f"self.syncs, self.started = True, 0\n        {HANGS}")
    monkeypatch.setattr(shared_cluster(2), "timeout_s", 2.0)
    said = bytes_of_04b(capsys)
    assert said.count("Yours did not come to its end here, so the course's stands alone. RankTimeout: ") == 2
    assert "What it cost" not in said
    assert "with no_sync for all but the last: 367 KiB" in said


# -- 04a: the timeline, and the explorer ------------------------------------------------------------------------------


def timeline_of_04a(passed):
    notebook = run_cells("04a", "from course_lib.plot import gantt_beside", "two, four =", "class Paced(torch")
    run_cells("04a", "class PacedLayer", "def start_early", notebook=notebook, solved=passed)
    notebook.cell("far = Link(latency_s=1e-3, bandwidth_bytes_per_s=1e9)")
    notebook.space["overlap_verdict"] = SimpleNamespace(passed=passed)
    return run_cells("04a", "def by_your_hooks", "def watched_step", "watched = mine.beside", notebook=notebook)


def test_the_timeline_has_rows_for_what_was_built_on_the_page():
    notebook = timeline_of_04a(passed=True)
    assert "rank 1, the course's: " in notebook["_"].alt
    assert "rank 1, yours: " in notebook["_"].alt
    assert notebook["yours"] is notebook["by_your_hooks"]


def test_who_has_not_passed_sees_the_courses_timeline_alone():
    alt = timeline_of_04a(passed=False)["_"].alt
    assert "rank 1: " in alt
    assert "yours" not in alt


# -- 05d: bytes, and a row of the timeline ----------------------------------------------------------------------------


def rows_of_05d(capsys):
    """What is told of the bytes, and the picture of the prefetch rows."""
    ask("05.half").reset()
    notebook = run_cells(
        "05d", "from course_lib.plot import gantt", "two, four =", "class Paced(torch", "class PacedLayer"
    )
    run_cells("05d", "NUM_LAYERS, WIDTH", "sharded_of_05 = ", "def yours_of_part_7", notebook=notebook)
    run_cells("05d", 'reveal("05.half"', "dial = Link", "def watched(me", "def rows_of", notebook=notebook)
    return capsys.readouterr().out, notebook["_"].alt


def test_who_has_built_no_wrapper_sees_todays_rows(anna, capsys):
    said, alt = rows_of_05d(capsys)
    assert "yours" not in alt
    assert "What it cost" not in said
    assert "mine.MyFullySharded" not in said


def test_who_has_built_the_wrapper_sees_its_row_and_what_it_sends(anna, capsys):
    sharded_kept()
    said, alt = rows_of_05d(capsys)
    assert "mine.MyFullySharded is yours: " in said
    assert "What it cost a rank: yours made 18 calls and sent " in said
    assert "prefetch 2: " in alt
    assert "yours, prefetch 1: " in alt


def test_a_wrapper_that_fails_gives_a_sentence_and_the_courses_rows(anna, capsys):
    sharded_kept("self.is_whole = False\n", "self.is_whole = False\n        raise ValueError('too tired')\n")
    said, alt = rows_of_05d(capsys)
    assert said.count("Yours did not come to its end here, so the course's stands alone. RankFailed: ") == 2
    assert "yours" not in alt
    assert "prefetch 2: " in alt


# -- explorers, curves, and the table of production --------------------------------------------------------------------


def explorer_of_04a(passed):
    notebook = timeline_of_04a(passed)
    return notebook, run_cells("04a", "BucketExplorer(two", notebook=notebook)["_"]


def test_the_bucket_explorer_runs_the_best_that_there_is(anna, capsys):
    notebook, explorer = explorer_of_04a(passed=True)
    assert explorer._yours is notebook["by_your_hooks"]
    assert explorer_of_04a(passed=False)[1]._yours is None
    ddp_kept()
    assert explorer_of_04a(passed=True)[1]._yours.__name__ == "MyDDP"
    assert "mine.MyDDP is yours: " in capsys.readouterr().out


def test_the_sharded_explorer_runs_the_wrapper(anna, capsys):
    cells = "import ask, check, hint, mine", "four = shared_cluster(4)", "explorer = ShardedExplorer"
    assert run_cells("05c", *cells)["explorer"]._yours is None
    assert "mine." not in capsys.readouterr().out
    sharded_kept()
    assert run_cells("05c", *cells)["explorer"]._yours.__name__ == "MyFullySharded"
    assert "mine.MyFullySharded is yours: " in capsys.readouterr().out


def memory_of_05b(capsys):
    ask("05.peak").reset()
    notebook = run_cells("05b", "from functools import partial", "one, four =", "LAYERS, WIDTH = ", "def watched_step")
    run_cells("05b", "def yours_of_part_7", 'reveal("05.peak"', "histories = ", notebook=notebook)
    assert "One rank of four" in notebook["_"].alt
    return run_cells("05b", 'title="The same by yours"', notebook=notebook)["_"], capsys.readouterr().out


@pytest.mark.long
def test_the_memory_of_a_step_is_drawn_and_told_for_the_wrapper_too(anna, capsys):
    picture, said = memory_of_05b(capsys)
    assert picture is None
    assert "yours" not in said
    sharded_kept()
    picture, said = memory_of_05b(capsys)
    assert picture.alt.startswith("The same by yours over ")
    assert "What it cost a rank: yours held " in said


def production_of_04c(capsys):
    notebook = run_cells("04c", "from functools import partial", "two, four =", "def make_model", "WRAPS = ")
    run_cells("04c", "def train_by", "def losses_and_bytes", notebook=notebook)
    return capsys.readouterr().out


@pytest.mark.long
def test_production_has_a_line_for_what_was_built(anna, capsys):
    said = production_of_04c(capsys)
    assert "losses equal to within 1e-5: True" in said
    assert "yours" not in said
    ddp_kept()
    said = production_of_04c(capsys)
    assert "losses equal to within 1e-5: True" in said
    assert said.count(" bytes in a step") == 3
    assert "yours      sends " in said


def test_a_ddp_that_forgets_to_divide_is_not_called_equal(anna, capsys):
    ddp_kept("bucket.flat /= self.me.world_size", "pass")
    assert "losses equal to within 1e-5: False" in production_of_04c(capsys)
