"""The rule over digits: which cells it names, and which it leaves alone."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from course_lib.authoring.notebooks.rules.digits import digits_are_certain
from course_lib.authoring.notebooks.rules.lesson import Lesson
from course_lib.authoring.notebooks.writing.build import Paths
from course_lib.lessons.convert import learner_notebook, solution_shell
from course_lib.lessons.source import parse_source

HEAD = """\
# %% [markdown]
# # 05 · A tiny lesson
#
# You learn to print.
#
# **10 minutes · difficulty 2 of 5 · needs: cpu**

# %%
def train(me):
    losses = []
    for x, y in batches:
        loss = next_token_loss(model(x), y)
        losses.append(loss.item())
    return losses


def bytes_of(me):
    return ledger.peak().total_bytes


"""
LONG = "0.30000001192092896"


def breaches(folder: Path, code: str, *, tags: str = "", output: str = "done") -> list[str]:
    """What the rule says of a lesson whose last cell is ``code`` and has shown ``output``."""
    path = folder / "05_tiny.py"
    source = parse_source(HEAD + f"# %%{tags}\n" + code + "\n", path)
    solution = solution_shell(source)
    shown = nbformat.v4.new_output("stream", name="stdout", text=output)
    [cell for cell in solution.cells if cell.cell_type == "code"][-1].outputs = [shown]
    return digits_are_certain(Lesson(Paths.of(path), source, learner_notebook(source), solution))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('print(f"{train(me)[0]:.3f}")', "train(me)[0] is told to digits"),
        ('losses = four.run(train)[0]\nprint(f"loss {losses[-1]:.4f}")', "losses[-1] is told to digits"),
        ('run = metered(four, train)\nprint(f"{run[0][1]:>9.2f}")', "run[0][1] is told to digits"),
        ('print([f"{loss:.2f}" for loss in train(me)])', "loss is told to digits"),
        ('norm = nn.utils.clip_grad_norm_(w, 1.0)\nprint(f"{norm:.3f}")', "norm is told to digits"),
        ('print(f"{torch.nn.functional.cross_entropy(x, y):.3f}")', "is told to digits"),
        ("print([round(loss, 4) for loss in train(me)])", "round(loss, 4) may come out otherwise"),
        ('norm = w.grad.norm().item()\nprint(f"{norm:.{n}e}")', "norm is told to digits"),
        ('print(f"{100 * float(torch.randn(3).mean()):.0%}")', "is told to digits"),
        ('for step, loss in enumerate(train(me)):\n    print(f"{step}: {loss:.1f}")', "loss is told"),
        ('off = max(abs(a - b) for a, b in zip(train(me), rest))\nprint("alike:", off < 1e-6)', "hangs on rounding"),
        ("print((found - right).abs().max().item() <= 1e-9 * 3)", "hangs on rounding"),
        ('print("alike:", torch.allclose(a, b))', "torch.allclose may answer otherwise"),
        ("print(all(map(torch.allclose, a, b)))", "torch.allclose may answer otherwise"),
        ("print(math.isclose(a, b, rel_tol=1e-6))", "math.isclose may answer otherwise"),
        ('if done:\n    with ranks:\n        print(f"{train(me)[0]:.3f}")', "is told to digits"),
        ('try:\n    run()\nexcept ValueError:\n    print(f"{train(me)[0]:.3f}")', "is told to digits"),
        ('x = 1.0\nx += train(me)[0]\nprint(f"{x:.3f}")', "x is told to digits"),
        ('kept = {}\nkept["a"] = train(me)[0]\nprint(f"{kept[0]:.3f}")', "is told to digits"),
        ('if (loss := train(me)[0]) > 3:\n    print(f"{loss:.3f}")', "loss is told to digits"),
        ('def show():\n    print(f"{train(me)[0]:.3f}")\n\n\nshow()', "is told to digits"),
        ('def say():\n    return f"{train(me)[0]:.3f}"\n\n\ndef on_rank():\n    say()\n\n\nfour.run(on_rank)', "told"),
    ],
)
def test_what_another_processor_may_print_otherwise_is_named(tmp_path: Path, code: str, words: str):
    found = breaches(tmp_path, code)
    assert len(found) == 1
    assert words in found[0]
    assert "rounded()" in found[0] or "agree()" in found[0]
    assert breaches(tmp_path, code, tags=' tags=["nbval-ignore-output"]') == []


@pytest.mark.parametrize("code", ["print(*train(me))", "print(train(me)[0])", 'print(f"loss {train(me)}")'])
def test_a_number_printed_as_it_is_may_be_a_short_one(tmp_path: Path, code: str):
    assert breaches(tmp_path, code, output="0.25 [[1.0, 2.0]] 5.0e0 12345") == []
    for long in (LONG, "2.98e-08"):
        (said,) = breaches(tmp_path, code, output=f"[0.5, {long}]")
        assert "with all its digits" in said


@pytest.mark.parametrize(
    "code",
    [
        'print(f"loss {rounded(train(me), 2)}", agree(train(me), train(me), within=1e-5))',
        'losses = rounded(train(me), 2)\nprint(f"{losses:>9}", losses)',
        'print(f"{four.run(bytes_of)[0] / 2**20:.2f} MiB")',
        'print(f"{metered(four, train).communication.sent_bytes(0) / 1024:.0f} KiB")',
        'print(f"{x.numel() / 3:.1f} {len(train(me)) / 7:.3f} {x.shape[0] / 3:.2f} {w.grad.size(0) / 3:.2f}")',
        'print(f"{2 * (n - 1) / n:.3f}", round(1e-3 * n, 2))',
        'print(f"{sum(torch.isnan(x).tolist()) / 3:.1%}" if False else "", latency_s < 1e-6)',
        'for step, loss in enumerate(train(me)):\n    print(f"{step / 3:.1f}")',
        'print("it falls:", train(me)[0] > train(me)[-1], train(me)[0] < 2.5)',
        'order = torch.randperm(7).tolist()\nprint(f"{order[0] / 3:.2f}")',
        'loss = train(me)[0]\nloss = 3\nprint(f"{loss / 7:.2f}")',
        'def show(loss):\n    print(f"{loss:.3f}")',
        'model = torch.nn.Linear(2, 3)\nprint(f"{model.in_features / 7:.2f} {torch.ones(3).sum() / 3:.2f}", model)',
    ],
)
def test_exact_numbers_and_certain_ones_are_left_alone(tmp_path: Path, code: str):
    assert breaches(tmp_path, code, output=LONG) == []


def test_a_function_that_prints_is_named_where_its_output_is_compared(tmp_path: Path):
    shows = 'def show():\n    print(f"{train(me)[0]:.3f}")\n\n\n# %%TAGS\nshow()'
    (said,) = breaches(tmp_path, shows.replace("TAGS", ""))
    assert "05_tiny.py:23:" in said, "the line of the print, not of the call"
    assert breaches(tmp_path, shows.replace("TAGS", ' tags=["nbval-ignore-output"]')) == []
