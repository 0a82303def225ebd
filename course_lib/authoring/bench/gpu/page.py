"""The page beside the record: what failed and why, what missed its target, what was not run, and then every number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.authoring.bench.gpu.record import SHORT, short_of
from course_lib.authoring.bench.gpu.task import NOT_RUN, PASSED

__all__ = ["page"]

_MOST_LINES = 25


def page(content: Mapping[str, Any]) -> str:
    """The record as Markdown."""
    gpus = content["machine"]["gpus"]
    where = f"{len(gpus)} x {gpus[0]}" if gpus and content["on"] == "gpu" else "the CPU: no GPU took part"
    versions = content["versions"]
    lines = [
        "# What `course bench gpu` found",
        "",
        f"On {where}; {content['machine']['cores']} cores, {content['machine']['cpu']}; torch {versions['torch']}, "
        f"Python {versions['python']}; {content['date']}.",
    ]
    if content["missing_packages"]:
        lines.append(f"Not installed there: {', '.join(content['missing_packages'])}.")
    steps = content["steps"]
    lines += [
        "",
        "| step | outcome | passed | failed | not run | time |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_line(name, step) for name, step in steps.items()]
    lines += ["", "## What failed", ""]
    failed = [text for name, step in steps.items() for text in _failures(name, step)]
    lines += failed or ["Nothing failed of what was run.", ""]
    lines += ["## What was not run", ""]
    absent = [
        f"- {name}: {part['name']}: {part['why']}"
        for name, step in steps.items()
        for part in step["parts"]
        if part["outcome"] == NOT_RUN
    ]
    lines += absent or ["Everything in these steps was run."]
    lines += ["", "## Numbers", ""]
    for name, step in steps.items():
        lines += _numbers(name, step)
    return "\n".join(lines).rstrip() + "\n"


def _line(name: str, step: Mapping[str, Any]) -> str:
    outcomes = [part["outcome"] for part in step["parts"]]
    counts = [outcomes.count(PASSED), len(outcomes) - outcomes.count(PASSED) - outcomes.count(NOT_RUN)]
    cells = [name, step["outcome"], *counts, outcomes.count(NOT_RUN), f"{step['time_s']:.0f} s"]
    return f"| {' | '.join(map(str, cells))} |"


def _failures(name: str, step: Mapping[str, Any]) -> list[str]:
    lines = []
    if step["outcome"] not in (PASSED, NOT_RUN) and step["why"]:
        lines += [f"### {name}: {step['outcome']}", "", *_block(step["why"])]
    for part in step["parts"]:
        if part["outcome"] not in (PASSED, NOT_RUN):
            lines += [f"### {name}: {part['name']}", "", *_block(part["why"])]
    for row in short_of(step["rows"]):
        sign = "at least" if row.get("at_least") else "at most"
        found = f"median {row['median']:.3g} {row['unit']}, promised {sign} {row['target']:g}"
        lines += [f"### {name}: {row['what']}: {SHORT}", "", f"{found}.", ""]
    return lines


def _block(text: str) -> list[str]:
    return ["```", *text.strip().splitlines()[-_MOST_LINES:], "```", ""]


def _numbers(name: str, step: Mapping[str, Any]) -> list[str]:
    if not step["rows"]:
        return []
    lines = [
        f"### {name}",
        "",
        "| what | median | min | max | unit | target |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in step["rows"]:
        sign = ">=" if row.get("at_least") else "<="
        target = "" if row["target"] is None else f"{sign} {row['target']:g}"
        numbers = (row["median"], min(row["samples"]), max(row["samples"]))
        cells = [row["what"], *(f"{number:.4g}" for number in numbers), row["unit"], target]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]
