"""Draw the pictures of lesson 07: ``python assets/make_lesson_07.py`` writes assets/07_*.png beside itself.

Boxes of schedules stand where the simulator puts them; the picture of the studio is of a run on four ranks.
"""

from __future__ import annotations

from pathlib import Path

from make_lesson_06 import LEFT, RIGHT, arrow, box
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sketch import GREY, INK, PALE, drawing, word

from course_lib import Cluster
from course_lib.cost import Link, StageTimes, simulate
from course_lib.parallel import pipeline
from course_lib.plot import OKABE_ITO, pipeline_gantt, png

HERE = Path(__file__).parent
GREEN, YELLOW, RED = (OKABE_ITO[name] for name in ("green", "yellow", "vermillion"))
LOOKS = {"F": (LEFT, ""), "B": (RIGHT, "//"), "I": (YELLOW, "//"), "W": (GREEN, "\\\\")}
EQUAL = StageTimes.of(1.0)
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}


def save(figure: Figure, name: str) -> None:
    (HERE / f"07_{name}.png").write_bytes(png(figure))


def boxes(
    axes: Axes, schedule: pipeline.Schedule, x: float, y: float, unit: float, *, times: object = EQUAL,
    link: Link | None = None, high: float = 3.2, gap: float = 0.8, text: bool = True, ranks: bool = True,
) -> float:  # fmt: skip
    """The actions of a schedule, rank 0 on top at ``y``; ``unit`` is how wide a forward is. Returns the right end."""
    run = simulate(schedule, times, link=link or Link(0.0, float("inf")))  # type: ignore[arg-type]
    for span in run.spans:
        colour, hatch = LOOKS[span.action.kind]
        bottom, wide = y - span.rank * (high + gap), (span.end_s - span.start_s) * unit
        left = x + span.start_s * unit
        axes.add_patch(
            Rectangle((left, bottom), wide, high, facecolor=colour, hatch=hatch, edgecolor=INK, linewidth=0.7)
        )
        if text:
            ground = {"facecolor": colour, "edgecolor": "none", "pad": 0.6} if hatch else None
            word(axes, left + wide / 2, bottom + high / 2 - 0.1, str(span.action.micro_batch), size=9,
                 color="black", bbox=ground)  # fmt: skip
    for rank in range(schedule.num_ranks if ranks else 0):
        word(axes, x - 1, y - rank * (high + gap) + high / 2, f"rank {rank}", size=9.5, ha="right")
    return x + run.makespan_s * unit


def time_axis(axes: Axes, x: float, y: float) -> None:
    word(axes, x, y, "time →", size=9, color=GREY, ha="right")


def staircase() -> None:
    """One batch through four stages."""
    figure, axes = drawing(8, 2.3)
    end = boxes(axes, pipeline.naive(4), 9, 18, 5.6, text=False)
    word(axes, 9 + 2.8, 19.5, "forward", size=8)
    word(axes, end - 5.6, 19.5, "backward", size=8, bbox={**WHITE, "facecolor": RIGHT})
    time_axis(axes, end, 2.4)
    save(figure, "staircase")


def pieces() -> None:
    """A batch, cut in four, in front of four stages."""
    figure, axes = drawing(8, 2.2)
    box(axes, 3, 5, 7, 12, "batch\nof 16", facecolor=YELLOW)
    arrow(axes, (10.6, 11), (14.4, 11))
    for number in range(4):
        box(axes, 36 - 7 * number - 0.6, 8.2, 5.6, 5.6, str(number), facecolor=YELLOW)
    word(axes, 28, 16.4, "micro-batches of 4")
    arrow(axes, (41.6, 11), (45.4, 11))
    for stage in range(4):
        box(axes, 46 + 8.2 * stage, 7, 6.6, 8, f"stage\n{stage}", facecolor=LEFT)
    word(axes, 61.5, 4.4, "one on each device", size=9.5)
    save(figure, "pieces")


def formula() -> None:
    """Where m and p - 1 can be read off."""
    figure, axes = drawing(8, 3.0)
    schedule, unit = pipeline.gpipe(4, 6), 2.45
    end = boxes(axes, schedule, 9, 22, unit)
    for left, right, text in ((9, 9 + 3 * unit, "fill"), (end - 6 * unit, end, "empty")):
        word(axes, (left + right) / 2, 6.9, text, size=9.5, color=INK)
        arrow(axes, (left, 8.3), (right, 8.3), arrowstyle="<|-|>", mutation_scale=9)
    word(
        axes,
        (9 + end) / 2 - 2,
        3.9,
        "fill + empty = p - 1 moments of waiting; each rank works m moments",
        size=10,
    )
    time_axis(axes, end, 27.4)
    save(figure, "formula")


def thin() -> None:
    """One large product, or eight thin ones with something to pay between them."""
    figure, axes = drawing(8, 2.0)
    box(axes, 6, 8, 24, 7, "32 texts in one go", facecolor=LEFT)
    for number in range(8):
        x = 38 + 4.6 * number
        box(axes, x, 8, 3, 7, facecolor=LEFT)
        box(axes, x + 3, 8, 1.2, 7, facecolor=INK)
    word(axes, 56, 5.2, "4 texts at a time; black: what every piece costs, however thin", size=9.5)
    word(axes, 34, 11.5, "?", size=18, weight="bold")
    save(figure, "thin")


def table() -> None:
    """A schedule as a table: rows are stages, columns moments."""
    figure, axes = drawing(8, 2.1)
    cells = ("F0 F1 . . B0 B1", ". F0 F1 B0 B1 .")
    for row, line in enumerate(cells):
        word(axes, 15, 11.8 - 6 * row, f"stage {row}")
        for column, cell in enumerate(line.split()):
            colour = LOOKS[cell[0]][0] if cell != "." else "white"
            box(axes, 21 + 7 * column, 9 - 6 * row, 6.4, 5.4, cell, facecolor=colour)
    for column in range(6):
        word(axes, 24.2 + 7 * column, 16.4, str(column), size=9, color=GREY)
    word(axes, 69, 16.4, "moment", size=9, color=GREY)
    save(figure, "table")


def pile() -> None:
    """What is kept grows with every forward, up to where?"""
    figure, axes = drawing(8, 2.4)
    for moment, high in enumerate((1, 2, 3, 4)):
        x = 12 + 13 * moment
        for number in range(high):
            box(axes, x, 4.4 + 3.4 * number, 9, 3, f"F{number}", facecolor=LEFT)
        word(axes, x + 4.5, 2.4, f"after F{moment}", size=9, color=GREY)
    word(axes, 68, 12, "?", size=24, weight="bold")
    word(axes, 68, 5.6, "how high?", size=10)
    save(figure, "pile")


def choice() -> None:
    """After F0 on the last stage: F1 or B0?"""
    figure, axes = drawing(8, 2.2)
    word(axes, 10, 11, "last stage")
    box(axes, 17, 8, 8, 6, "F0", facecolor=LEFT)
    box(axes, 41, 13, 8, 6, "F1", facecolor=LEFT)
    box(axes, 41, 3, 16, 6, facecolor=RIGHT, hatch="//")
    word(axes, 49, 6, "B0", size=9.5, color="black", bbox={**WHITE, "facecolor": RIGHT})
    arrow(axes, (25.5, 11.5), (40.4, 16))
    arrow(axes, (25.5, 10.5), (40.4, 6))
    word(axes, 32, 11, "?", size=18, weight="bold", bbox=WHITE)
    word(axes, 59, 16, "GPipe", ha="left")
    word(axes, 59, 6, "1F1B", ha="left")
    save(figure, "choice")


def train() -> None:
    """The same row of pieces cut in one, two and four."""
    figure, axes = drawing(8, 2.8)
    colours = (LEFT, RIGHT, GREEN, YELLOW)
    for row, sizes in enumerate(((10,), (5, 5), (3, 2, 2, 3))):  # as the lesson's cut by parameters has them
        y, parts = 20 - 7 * row, len(sizes)
        for piece, part in enumerate(part for part, size in enumerate(sizes) for _ in range(size)):
            box(axes, 16 + 3.7 * piece + 1.4 * part, y, 3.4, 5, facecolor=colours[part])
        word(axes, 9, y + 2.5, f"{parts} stage{'s' * (parts > 1)}")
        arrow(axes, (59, y + 2.5), (63.4, 16))
    box(axes, 64, 12.5, 11, 7, "the same\nlosses", facecolor=PALE)
    word(axes, 36, 2.6, "from left to right: stem, eight blocks, head", size=9, color=GREY)
    save(figure, "train")


def wrong() -> None:
    """Three pipelines in small, each with other boxes than those that the formula was derived from."""
    figure, axes = drawing(8, 3.6)
    slow = [EQUAL, StageTimes.of(2.0), EQUAL, EQUAL]
    rows = (
        ("longer backwards", pipeline.one_f_one_b(4, 4), StageTimes.of(1.0, 3.0), 0.0, 1.2),
        ("one slow stage", pipeline.one_f_one_b(4, 4), slow, 0.0, 1.02),
        ("messages take time", pipeline.one_f_one_b(4, 4), EQUAL, 0.6, 1.16),
    )
    for number, (name, schedule, times, latency_s, unit) in enumerate(rows):
        x, y = ((4, 29), (43, 29), (23.5, 12))[number]
        word(axes, x + 17, y + 4.6, name, size=10)
        boxes(axes, schedule, x, y, unit, times=times, link=Link(latency_s, float("inf")), high=2.4, gap=0.5,
              text=False, ranks=False)  # fmt: skip
    save(figure, "wrong")


def chunks() -> None:
    """Eight pieces on four ranks, twice round."""
    figure, axes = drawing(8, 3.0)
    for rank in range(4):
        x = 12 + 17 * rank
        axes.add_patch(Rectangle((x - 2, 5), 13, 19, facecolor=PALE, edgecolor=GREY))
        word(axes, x + 4.5, 26, f"rank {rank}")
    for rank in range(4):
        x = 12 + 17 * rank
        box(axes, x, 16.5, 9, 5, f"piece {rank}", facecolor=LEFT)
        box(axes, x, 7.5, 9, 5, f"piece {rank + 4}", facecolor=RIGHT)
        if rank < 3:
            arrow(axes, (x + 9.2, 19), (x + 16.8, 19))
            arrow(axes, (x + 9.2, 10), (x + 16.8, 10))
    axes.plot([72.2, 75.5, 75.5, 6.5, 6.5], [19, 19, 14.5, 14.5, 10], color=INK, linewidth=1)
    arrow(axes, (6.5, 10), (11.8, 10))
    word(axes, 40, 2.4, "from rank 3 back to rank 0, and round once more", size=9.5)
    save(figure, "chunks")


def halves() -> None:
    """The two products of a linear layer's backward pass, and who waits for them."""
    figure, axes = drawing(8, 2.6)
    box(axes, 58, 10, 16, 6, "gradient of\nthe outputs", facecolor=PALE)
    word(axes, 66, 18.6, "arrives from the stage behind", size=8.5, color=GREY)
    box(axes, 28, 16, 17, 6, "I: gradient of\nthe inputs", facecolor=YELLOW)
    box(axes, 28, 4, 17, 6, facecolor=GREEN)
    word(axes, 36.5, 7, "W: gradient of\nthe weights", size=9.5, color="black")
    arrow(axes, (57.4, 14), (45.6, 19))
    arrow(axes, (57.4, 12), (45.6, 7))
    arrow(axes, (27.4, 19), (19.6, 19))
    word(axes, 10.5, 19, "the stage before\nis waiting for it", size=9.5)
    word(axes, 10.5, 7, "nobody waits\nbefore the step", size=9.5)
    save(figure, "halves")


def studio() -> None:
    """A planned and a measured pipeline, as the studio shows them."""
    schedule, times = pipeline.one_f_one_b(4, 6), StageTimes.of(0.020)
    with Cluster(4) as ranks:
        measured = pipeline.run_pipeline(ranks, schedule, times)
    pipeline_gantt(simulate(schedule, times), measured, title="1F1B").save(HERE / "07_studio.png")


def grid() -> None:
    """Two pipelines of two stages."""
    figure, axes = drawing(8, 2.9)
    for row in range(2):
        y = 17.5 - 12 * row
        word(axes, 11, y + 3, f"pipeline {row}:\nhalf of the batch", size=9.5)
        for stage, (left, colour) in enumerate(((23, LEFT), (53, RIGHT))):
            box(axes, left, y, 18, 6, f"rank {2 * row + stage}: stage {stage}", facecolor=colour)
        arrow(axes, (41.4, y + 3), (52.6, y + 3), arrowstyle="<|-|>")
        word(axes, 47, y + 5, "activations", size=8.5)
    for left, stage in ((32, 0), (62, 1)):
        arrow(axes, (left, 17), (left, 12), arrowstyle="<|-|>", linestyle=":", linewidth=1.6)
        word(axes, left + 1.2, 14.5, f"gradients of stage {stage}", size=8.5, ha="left")
    save(figure, "grid")


def clinic_bytes() -> None:
    """Two pipelines, and a link between them that has no rest."""
    figure, axes = drawing(8, 2.2)
    for row, y in enumerate((14.5, 2.5)):
        box(axes, 12, y, 52, 4.6, "", facecolor=LEFT if row == 0 else RIGHT)
        word(axes, 38, y + 2.3, f"pipeline {row}", color="black")
    box(axes, 12, 8.6, 52, 4.4, "", facecolor=INK)
    word(axes, 38, 10.8, "the link between them: always full", color="white")
    word(axes, 70, 10.8, "?", size=22, weight="bold")
    save(figure, "clinic_bytes")


def clinic_loss() -> None:
    """The more micro-batches, the shorter the step."""
    figure, axes = drawing(8, 2.3)
    for row, m in enumerate((1, 2, 4, 8)):
        y = 17.5 - 5 * row
        for number in range(m):
            box(axes, 18 + 24 / m * number, y, 24 / m - 0.3, 3.4, facecolor=YELLOW)
        word(axes, 9, y + 1.7, f"{m} micro-batch{'es' * (m > 1)}", size=9.5)
        arrow(axes, (48, y + 1.7), (48 + 24 / m, y + 1.7), linewidth=2)
    word(axes, 53, 21.9, "the step that is taken", size=9.5)
    save(figure, "clinic_loss")


def clinic_send() -> None:
    """Two ranks, and nothing moves."""
    figure, axes = drawing(8, 2.0)
    for left, rank, colour in ((8, 0, LEFT), (56, 1, RIGHT)):
        box(axes, left, 5, 16, 9, "", facecolor=colour)
        word(axes, left + 8, 9.5, f"rank {rank}\nstands still", color="black")
    arrow(axes, (25, 9.5), (55, 9.5), arrowstyle="<|-|>", linestyle="--")
    word(axes, 40, 9.5, "?", size=22, weight="bold", bbox=WHITE)
    word(axes, 40, 16.6, "GPipe: it ends.  1F1B: it does not.", size=10)
    save(figure, "clinic_send")


def production() -> None:
    """One table, two runtimes."""
    figure, axes = drawing(8, 2.0)
    box(axes, 5, 5.5, 24, 9, "0F0,0F1,0B0,...\n1F0,1B0,1F1,...", facecolor=PALE)
    word(axes, 17, 17, "a schedule, as CSV", size=10)
    box(axes, 46, 11.5, 30, 5.5, "this course's runtime", facecolor=LEFT)
    box(axes, 46, 2.8, 30, 5.5, "torch.distributed.pipelining", facecolor=YELLOW)
    arrow(axes, (29.6, 11), (45.4, 14))
    arrow(axes, (29.6, 9), (45.4, 5.8))
    save(figure, "production")


def quiz() -> None:
    figure, axes = drawing(8, 2.3)
    end = boxes(axes, pipeline.one_f_one_b(4, 6), 9, 17.5, 2.4, text=False)
    word(axes, (9 + end) / 2, 11, "?", size=30, weight="bold", bbox={**WHITE, "pad": 4})
    time_axis(axes, end, 2.4)
    save(figure, "quiz")


if __name__ == "__main__":
    for draw in (
        staircase,
        pieces,
        formula,
        thin,
        table,
        pile,
        choice,
        train,
        wrong,
        chunks,
        halves,
        studio,
        grid,
        clinic_bytes,
        clinic_loss,
        clinic_send,
        production,
        quiz,
    ):
        draw()
