"""The fresh process of ``grading.py``: ``python -m course_lib.learn.checks.grading_process FOLDER`` tries one answer.

It reads ``FOLDER/given`` and writes ``FOLDER/verdict``.
"""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
import pickle
import sys
from pathlib import Path
from typing import Any

from course_lib.cluster.process.serialization import unpack
from course_lib.learn import exercises
from course_lib.learn.checks.checking import judged

__all__ = ["main"]


def main(folder: Path) -> None:
    """Try the answer in ``folder`` and write down the verdict, or why the answer could not be made again here."""
    name, parcel, cells = pickle.loads((folder / "given").read_bytes())
    linecache.cache.update(cells)
    exercise = exercises.exercise(name)
    sys.path.append(os.getcwd())  # last: a module handed in beside the notebook stands for no other
    try:
        answer = unpack(parcel)
    except Exception as error:
        told: dict[str, Any] = {"cannot": f"it cannot be made again in another ({type(error).__name__}: {error})."}
    else:
        told = {"verdict": dataclasses.asdict(judged(exercise, answer))}
    draft = folder / "verdict.draft"
    draft.write_text(json.dumps(told), encoding="utf-8")
    draft.replace(folder / "verdict")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
