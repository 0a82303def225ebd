"""``course plan --why`` and ``--compare``: one layout line by line, two side by side, sentences for what cannot be."""

from __future__ import annotations

import pytest

from course_lib.plan_command import main

TOO_LARGE = "dp16 mb4 zero0 recompute=none"
JOB = ["--model", "llama-3-8b", "--nodes", "2", "--batch", "64", "--seq", "4096"]


def said(capsys, *words):
    code = main([*JOB, *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_why_has_each_part_of_the_step_and_of_the_memory(capsys):
    code, out, err = said(capsys, "--why", "tp8 dp2 mb1 zero1")
    assert (code, err) == (0, "")
    assert "A step with tp8 dp2 mb1 zero1 sp: " in out
    for part in ("layers: arithmetic", "tensor axis, exposed", "data axis, exposed", "optimizer states", "activations"):
        assert f"  {part} " in out
    assert "32 micro-batches x 32 layers x " in out
    assert "12 bytes x " in out


def test_of_several_layouts_the_fastest_is_taken_and_named(capsys):
    _, out, _ = said(capsys, "--why", "tp8")
    assert " is the fastest of " in out
    assert " that match 'tp8'." in out


def test_why_of_one_that_does_not_fit_tells_its_memory_and_what_lacks(capsys):
    code, out, err = said(capsys, "--why", TOO_LARGE)
    assert (code, err) == (0, "")
    assert "dp16 mb4 does not fit: " in out
    assert " too much. To make it fit: " in out
    assert "  activations " in out
    assert "A step with" not in out


def test_compare_has_both_and_names_what_makes_the_difference(capsys):
    code, out, err = said(capsys, "--compare", "tp8 dp2 mb1 zero1", "dp16 mb1 zero3 recompute=full")
    assert (code, err) == (0, "")
    step, memory = (line for line in out.splitlines() if line.endswith("difference"))
    assert "tp8 dp2 mb1 zero1 sp" in step
    assert "dp16 mb1 zero3" in memory
    assert " times as long as " in out
    assert " most of it by " in " ".join(out.split())


def test_a_layout_beside_itself_takes_as_long(capsys):
    _, out, _ = said(capsys, "--compare", "tp8 dp2 mb1 zero1", "tp8 dp2 mb1 zero1")
    assert "take equally long." in out
    assert "=" in out.splitlines()[4]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--why", ""], "--why names no layout; write one as it is printed"),
        (["--why", "tq8"], "--why is 'tq8'; it is one of tp, cp, "),
        (["--why", "tp3"], "--why has tp=3: tp x cp x pp x dp is the number of GPUs, and 3 does not divide 16."),
        (["--why", "tp=x"], "--why says 'tp=x'; a size is a whole number"),
        (["--why", "dp16 mb16"], "dp16 mb16 does not run. "),
        (["--compare", "tp8", TOO_LARGE], "dp16 mb4 does not run: it needs "),
        (["--compare", "tp8", "tp3"], "--compare has tp=3: "),
        (["--compare", "tp8"], "argument --compare: expected 2 arguments."),
        (
            ["--why", "tp8", "--compare", "tp8", "dp16"],
            "--why prints something else than the page: leave out --compare.",
        ),
        (["--why", "tp8", "--json", "-"], "--why prints something else than the page: leave out --json."),
        (
            ["--compare", "tp8", "dp16", "--layout", "tp8"],
            "--compare prints something else than the page: leave out --layout.",
        ),
        (["--why", "tp8", "--max-gpus", "8"], "--why prints something else than the page: leave out --max-gpus."),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(capsys, words, sentence):
    code, out, err = said(capsys, *words)
    assert (code, out) == (2, "")
    assert sentence in err, err
