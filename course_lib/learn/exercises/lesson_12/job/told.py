"""12.job: words for what came, and a file that is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from course_lib.learn.exercises.lesson_12.job.cases import oracle
from course_lib.learn.exercises.lesson_12.job.disk import Files, read_folder
from course_lib.learn.exercises.lesson_12.job.reports import ResumedRun
from course_lib.learn.judging.compare import short

__all__ = ["damage", "error_words", "first_wrong", "share_of_step", "text_names"]


def is_share(given: Any) -> bool:
    """Whether this is a list of whole numbers, or a tuple or a range of them."""
    return isinstance(given, list | tuple | range) and all(isinstance(one, int) for one in given)


def share_of_step(step: int, batch: Sequence[int], shares: Sequence[Any]) -> str:
    """What is wrong with the ranks' shares of a global batch; "" for nothing."""
    strange = [one for one in shares if not is_share(one)]
    if strange:
        return f"in step {step} `samples` is to give a list of whole numbers, and gave {short(strange[0])}"
    dealt = Counter(one for share in shares for one in share)
    twice = sorted(one for one, count in dealt.items() if count > 1)
    if twice:
        return f"in step {step} two ranks have sample {twice[0]}"
    missing, more = sorted(set(batch) - set(dealt)), sorted(set(dealt) - set(batch))
    if missing:
        return f"in step {step} no rank has sample {missing[0]} of the global batch"
    if more:
        return f"in step {step} a rank has sample {more[0]}, which is not in the global batch"
    sizes = [len(share) for share in shares]
    if max(sizes) > min(sizes) + 1:
        return f"in step {step} one rank has {max(sizes)} samples, and another {min(sizes)}"
    return ""


def first_wrong(label: str, runs: Sequence[ResumedRun], until: int) -> str:
    """The first of these runs that is not as if nobody had stopped it, in words."""
    for run in runs:
        want = oracle(label, run.step, until) if isinstance(run.step, int) and run.step in run.may_be else None
        if found := run.wrong(want):
            return found
    return ""


def error_words(error: BaseException | None) -> str:
    """An error and what it came from."""
    found = ""
    while error is not None:
        found = f"{found} {type(error).__name__}: {error}"
        error = error.__cause__ or error.__context__
    return found.strip()[:300]


def damage(folder: Path, old: Files, how: str) -> str:
    """Spoil the largest file that the last save has made, and say which; a part of its path that says so."""
    new = {name: content for name, content in read_folder(folder).items() if content and old.get(name) != content}
    name = max(new, key=lambda one: len(new[one] or b""), default="")
    if not name:
        return "no file"
    content = bytearray(new[name] or b"")
    middle = len(content) // 2
    if how == "cut":
        del content[middle:]
    else:
        content[middle : middle + 8] = bytes(255 - one for one in content[middle : middle + 8])
    (folder / name).write_bytes(bytes(content))
    return name


def text_names(text: str, name: str) -> bool:
    """Whether the text names this file, or the folder that it lies in."""
    return any(part in text for part in Path(name).parts)
