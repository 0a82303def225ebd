"""A report to keep: one page of HTML, the picture in it as a file of its own, and the result for a class's board."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from course_lib.capstone.jobs.result import Known, PartPoints, Result
from course_lib.capstone.reports.code_rows import code_rows, code_sentence
from course_lib.capstone.reports.report_page import report_page
from course_lib.capstone.reports.report_picture import picture_of
from course_lib.capstone.reports.result_file import FILE_NAME, ResultRecord, ResultRow, shown_text
from course_lib.devices import machine
from course_lib.meter.units import bytes_text

__all__ = ["CapstoneReport", "record_of", "report"]

_PAGE, _PICTURE = "capstone.html", "capstone.png"
_MOST = 10_000  # reports in a folder
_MOST_NAME, _MOST_DEFENCE = 60, 4000  # letters


@dataclass(frozen=True, repr=False)
class CapstoneReport:
    """Where a report lies."""

    folder: Path
    record: ResultRecord

    @property
    def page(self) -> Path:
        """To open in a browser."""
        return self.folder / _PAGE

    @property
    def picture(self) -> Path:
        """The picture of the page."""
        return self.folder / _PICTURE

    @property
    def result(self) -> Path:
        """For a board."""
        return self.folder / FILE_NAME

    def __repr__(self) -> str:
        return f"{self.page} (to open in a browser), with {_PICTURE} and {FILE_NAME} beside it"


def report(result: Result, folder: str | Path, *, name: str = "", defence: str = "") -> CapstoneReport:
    """Write a report into a new folder below ``folder``, numbered, so that no earlier one is written over.

    ``name``: as the board of a class is to show it, up to 60 letters; none is needed. ``defence``: your reasons, up to
    4000 letters, empty lines between paragraphs. ``ValueError`` where either is longer, and where ``folder`` is a file
    or cannot be written to.
    """
    _not_longer(_MOST_NAME, "name", name)
    _not_longer(_MOST_DEFENCE, "defence", defence)
    record = record_of(result, name=name, defence=defence)
    picture = picture_of(record)
    png = picture.png()
    page = report_page(record, png, picture.alt)
    made = CapstoneReport(_new_folder(Path(folder), result), record)
    made.picture.write_bytes(png)
    made.page.write_text(page, encoding="utf-8")
    made.result.write_text(record.text(), encoding="utf-8")
    return made


def record_of(result: Result, *, name: str = "", defence: str = "") -> ResultRecord:
    """What a file keeps of an attempt."""
    fullest = max(result.memory, key=lambda rank: rank.peak_bytes, default=None)
    job, best = result.job, result.best or result.real
    why = [result.ended, *(f"{fault.name}: {fault.sentence}" for fault in result.faults)]
    here = machine()
    return ResultRecord(
        level=job.level,
        seed=job.seed,
        points=result.total,
        rows=tuple(_row(part, result) for part in result.points),
        name=shown_text(" ".join(name.split()), _MOST_NAME),
        mesh=shown_text(result.words, 200),
        why=" ".join(sentence for sentence in why if sentence),
        defence=shown_text(defence.strip(), _MOST_DEFENCE),
        job=str(job),
        cheats=tuple(fault.name for fault in result.faults),
        parts={} if fullest is None else dict(fullest.parts),
        whose=code_sentence(result.code) if result.code else "",
        code=tuple(code_rows(result.code)),
        step_s=result.counted_s,
        planner_s=result.planned.step_s,
        best_s=None if best is None else best.step_s,
        budget_s=job.budget_s,
        peak_bytes=result.peak_bytes,
        memory_bytes=job.memory_bytes,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine=f"{here.cpu_name}, {here.cores} cores, PyTorch {here.torch_version}",
    )


def _row(part: PartPoints, result: Result) -> ResultRow:
    """Texts of a part beside what is known of it."""
    yours, limit, planner, best = "–", "–", "–", "–"
    job, planned, known = result.job, result.planned, result.best or result.real
    match part.part:
        case "values":
            if result.values is not None:
                yours = f"off by {result.values.share:.1e} of the weights' change"
                limit = f"{result.values.tolerance:.0e}"
        case "peak memory":
            yours = "–" if result.peak_bytes is None else bytes_text(result.peak_bytes)
            limit = bytes_text(job.memory_bytes)
        case "bytes":
            yours = "–" if result.sent is None else f"{bytes_text(result.sent.between_bytes)} between nodes"
            planner = bytes_text(planned.between_bytes)
            best = "–" if known is None else bytes_text(known.between_bytes)
        case "step time":
            yours, limit = _step(result), f"{job.budget_s * 1e3:.0f} ms"
            planner = f"{planned.step_s * 1e3:.0f} ms promised ({planned.mesh})"
            best = "–" if known is None else _best(known, result.real)
    return ResultRow(part.part, yours, limit, planner, best, part.points, part.most, part.why)


def _step(result: Result) -> str:
    if result.counted_s is None or result.step_s is None:
        return "–"
    clock = f"{result.step_s * 1e3:.0f} ms by the clock"
    return clock if result.paced_s is None else f"{result.paced_s * 1e3:.0f} ms ({clock})"


def _best(known: Known, real: Known | None) -> str:
    """The best known step, and how it is known."""
    said = f"{known.step_s * 1e3:.0f} ms ({known.mesh}, "
    if real is None:
        return f"{said}expected: no search has run all meshes)"
    return f"{said}{real.step_s * 1e3:.0f} ms by the clock, {real.source})"


def _not_longer(most: int, what: str, text: str) -> None:
    if not isinstance(text, str):
        raise ValueError(f'the {what} is {text!r}; give a text, or "" for none')
    if len(text) > most:
        raise ValueError(f"the {what} has {len(text)} letters, and a report keeps at most {most}; shorten it")


def _new_folder(folder: Path, result: Result) -> Path:
    """A folder that was not there before: two reports at the same moment get two."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST):
            place = folder / f"level{result.job.level}-seed{result.job.seed}-{number:03d}"
            try:
                place.mkdir()
            except FileExistsError:
                continue
            return place
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{folder} is a file, or lies below one; name a folder for your reports") from None
    except OSError as error:
        raise ValueError(f"no report can be written into {folder}: {error.strerror or error}") from None
    raise ValueError(f"{folder} already has {_MOST - 1} reports of this job; name another folder")
