"""A class of forty that never was: progress files as learners share them, some of them broken, and the board of them.

python tests/classroom/forty.py FOLDER         makes FOLDER/drop and FOLDER/board.html (and a covered one)
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from course_lib.classroom.share.shared import FORMAT, Identity, file_name, text_of

ALIASES = ("ada", "Grace H.", "小明", "<b>Bobby</b>", "émile", "ada")
CHECKS = ("04.gradients", "04.overlap", "04.sampler", "04.drift", "04.accumulate")
MISTAKES = {
    "04.gradients": ("sums-and-does-not-divide", "averages-the-weights", "skips-none-gradients"),
    "04.overlap": ("waits-at-once", "forgets-to-wait"),
    "04.sampler": ("drops-the-rest", "same-for-all"),
}
MEASURED = {
    "04.bytes": (12.0, 12.0),
    "04.calls": (8.0, 12.0),
    "04.weights": (0.0, 0.0),
    "04.pieces": (4.0, 4.0),
}
APART = ("four equal models", "four different models", "an error")


def events_of(number: int, draw: random.Random, reach: float) -> list[dict]:
    """What one learner has done: as far into lesson 04 as ``reach`` says, with guesses, tries and mistakes."""
    stamp = f"2026-11-23T10:{number:02d}:00+00:00"
    events: list[dict] = []

    def add(event, name, **fields):
        events.append({"time": stamp, "event": event, "name": name, **fields, "course": "0.1.0"})

    def guess(name, kind, unit, value, measured, model):
        add("guess", name, kind=kind, unit=unit, value=value)
        if draw.random() < 0.8:
            right = value == measured if kind != "number" else 0.8 <= (value or 1e-9) / (measured or 1e-9) <= 1.25
            add(
                "predict",
                name,
                kind=kind,
                unit=unit,
                right=right,
                predicted=value,
                model=model,
                measured=measured,
            )

    for name in ("00.sum", "04.bytes", "04.calls")[: 1 + round(2 * reach)]:
        if name == "00.sum":
            measured = round(draw.lognormvariate(5.2, 0.25), 1)
            guess(
                name,
                "number",
                "µs",
                draw.choice((1, 10, 50, 100, 200, 500, 1000, 5000, 40_000)),
                measured,
                160,
            )
        else:
            value = draw.choice((1, 2, 4, 6, 12, 12, 24, 96, 400))
            guess(
                name,
                "number",
                "KiB" if name == "04.bytes" else "times",
                value,
                draw.choice(MEASURED[name]),
                12,
            )
    guess("04.apart", "choice", None, draw.choices(APART, (5, 3, 1))[0], APART[1], APART[1])
    for name in CHECKS[: round(len(CHECKS) * reach)]:
        for _ in range(draw.randint(0, 4)):
            mistake = draw.choice(MISTAKES.get(name, (None,)))
            add("check", name, status="not yet", mistake=mistake)
        if draw.random() < 0.3:
            add("hint", name, step=1)
        if draw.random() < 0.7:
            add("check", name, status="passed")
        else:
            add("check", name, status="raised")
            break
    return events


def make(folder: Path, learners: int = 40) -> Path:
    """The drop folder of a class: ``learners`` good files, and others beside them that are none."""
    draw = random.Random(18)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(learners):
        who = Identity(f"{number:04d}word", ALIASES[number] if number < len(ALIASES) else "")
        events = events_of(number, draw, reach=draw.random())
        (folder / file_name(who)).write_text(text_of(who, events))
    return folder


def spoil(folder: Path) -> None:
    """Lay beside them what a folder of a class comes to hold: seven things that are no whole progress file."""
    whole = (folder / "shared-0000word.jsonl").read_bytes()
    (folder / "shared-halfhalf.jsonl").write_bytes(whole.replace(b"0000word", b"halfhalf")[: len(whole) * 2 // 3])
    newer = {"event": "shared", "name": "from the future", "id": "newernewer", "format": FORMAT + 1}
    (folder / "shared-newer.jsonl").write_text(json.dumps(newer) + "\n")
    (folder / "shared-empty.jsonl").write_bytes(b"")
    (folder / "binary.jsonl").write_bytes(bytes(range(256)) * 8)
    (folder / "foreign.jsonl").write_text('{"event":"click","name":"a shop"}\n' * 3)
    (folder / "progress.jsonl.txt").write_bytes(whole)
    (folder / "link.jsonl").symlink_to("/etc/passwd")


def main(folder: Path) -> None:
    from course_lib.classroom.board import command

    drop = make(folder / "drop")
    spoil(drop)
    command.main([str(drop), "--out", str(folder / "covered.html")])
    shown = ["--show", "04.calls", "--reveal", "00.sum", "--reveal", "04.bytes", "--reveal", "04.apart"]
    command.main([str(drop), "--out", str(folder / "board.html"), *shown])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
