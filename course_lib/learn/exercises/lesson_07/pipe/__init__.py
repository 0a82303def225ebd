"""07.pipe: a pipeline runtime of one's own, in six steps; each demands what those before it demand, and more.

``stages.py`` has stages that note what is done with them, ``cases.py`` the tables and what one process gives,
``trial.py`` a few steps on a rank, ``reports.py`` what is looked at, ``right.py`` what is expected; ``signs.py`` and
``mistakes.py`` are about wrong answers.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_07.pipe import mistakes
from course_lib.learn.exercises.lesson_07.pipe.cases import AWKWARD, CHUNKS, MESSAGES, PLAIN, SPLIT
from course_lib.learn.exercises.lesson_07.pipe.reports import (
    PipeAwkwardReport,
    PipeMemoryReport,
    PipeMessagesReport,
    PipeValuesReport,
)
from course_lib.learn.exercises.lesson_07.pipe.right import right
from course_lib.learn.exercises.lesson_07.pipe.trial import trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["PIPE_STEPS"]

_FORBIDDEN = (
    "course_lib.parallel.pipeline.Pipeline",
    "course_lib.parallel.pipeline.batch_run.BatchRun",
    "course_lib.parallel.pipeline.stage_run.StageRun",
    "course_lib.parallel.pipeline.split_backward.backward_for_inputs",
    "torch.distributed.pipelining.PipelineStage",
)
_CHUNKS = (*PLAIN, *MESSAGES, *CHUNKS)


def _judge(world_sizes: tuple[int, ...], labels: tuple[str, ...], report: type[PipeValuesReport]) -> RankJudge:
    cases = tuple(Case(label, (label,), right(label, report)) for label in labels)
    return by_trial(world_sizes, cases, trial, compare=compare, timeout_s=8.0)


PIPE_STEPS = (
    Exercise(
        name="07.pipe_values",
        title="Your pipeline, 1: the values",
        judge=_judge((2, 3), PLAIN, PipeValuesReport),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "Which rank has what an F needs, and which has what a B needs? What must be kept from one to the other?",
            "Go through `schedule.rows[me.rank]`. An F receives into `room(stage, i)`, makes that a leaf that requires "
            "a gradient, runs the stage, keeps input and output, and sends the output's numbers. A B receives into "
            "`room(stage + 1, i)`, goes back from the output, and sends the input's gradient.",
            "F: `x = arrived.requires_grad_()`, `out = stages[s](x)`, `kept[s, i] = x, out`, send `out.detach()` to "
            "`rank_of_stage[s + 1]`. B: `x, out = kept.pop((s, i))`, `out.backward(arrived)`, send `x.grad`. On the "
            "last stage `out` is `loss_of(out, targets[i])` by its share of the rows.",
        ),
        forbidden=_FORBIDDEN,
        passed="Losses and gradients of one process in two steps, by rows of GPipe and one that comes back first.",
    ),
    Exercise(
        name="07.pipe_messages",
        title="Your pipeline, 2: messages",
        judge=_judge((2, 3), (*PLAIN, *MESSAGES), PipeMessagesReport),
        mistakes=mistakes.OF_MESSAGES,
        hints=(
            "Under 1F1B one neighbour sends down while the other sends up. Who waits for whom?",
            "Start what an action has made at once, and wait for it later: `start([send(...)])` comes back before the "
            "message has arrived. Keep what it returns until you have called it.",
            "`begun[key] = start([send(out.detach(), rank)])`; for what you need, `start([recv(room, rank)])()`. After "
            "the row: `for wait in begun.values(): wait()`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Each activation and each gradient travelled once, in its own bytes, as soon as it was made.",
    ),
    Exercise(
        name="07.pipe_memory",
        title="Your pipeline, 3: memory",
        judge=_judge((2, 3), (*PLAIN, *MESSAGES), PipeMemoryReport),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "When is nobody to need the input of a micro-batch any more? Who still has a name for it?",
            "Take it out of your dictionary with `pop`. A sent output is held by what `start` gave, until you call "
            "that. Which message proves that it has arrived?",
            "In B of (s, i): `begun.pop(('F', s, i))()`, since its gradient is there; and `kept.pop((s, i))`. "
            "`room(...)` when you need it, and no earlier. Losses as `loss.detach()`.",
        ),
        forbidden=_FORBIDDEN,
        passed="As many micro-batches are in flight as the table says, and after the step nothing is left.",
    ),
    Exercise(
        name="07.pipe_chunks",
        title="Your pipeline, 4: several stages on a rank",
        judge=_judge((2, 3), _CHUNKS, PipeMemoryReport),
        mistakes=mistakes.OF_CHUNKS,
        hints=(
            "Which rank holds the next stage? In which order does it send to you, and in which do you need it?",
            "Messages carry no name: they arrive in the order of sending. So all ranks need one order. The table is "
            "known to everybody: `schedule.dependencies.order` walks through it, step by step.",
            "Go through `order`: what is made in a step is given to sender and receiver when the next step begins. "
            "Before each of your own actions `start` all that was given to you since the last one, then wait for the "
            "one that you need. Where both stages are here, put the tensor where it is looked for.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your class is right with stages on any rank, and with messages that are needed in another order than "
        "they are sent.",
    ),
    Exercise(
        name="07.pipe_split",
        title="Your pipeline, 5: backwards in two halves",
        judge=_judge((2, 3), (*_CHUNKS, *SPLIT), PipeMemoryReport),
        mistakes=mistakes.OF_SPLIT,
        hints=(
            "Autograd can be asked for some gradients alone. Which does I need, and what must W still find?",
            "I: `torch.autograd.grad` of the output by the input, which keeps the graph. W: a backward of the same "
            "output into the parameters alone. Keep for W what I was given.",
            "I: `(grad,) = torch.autograd.grad(out, x, given, retain_graph=True)`, and `later[s, i] = out, given`. W: "
            "`torch.autograd.backward(out, given, inputs=[p for p in stage.parameters() if p.requires_grad])`. On "
            "stage 0 I has nothing to do.",
        ),
        forbidden=_FORBIDDEN,
        passed="I gives the gradient of the input alone, W those of the weights, each once; W may come late.",
    ),
    Exercise(
        name="07.pipe_awkward",
        title="Your pipeline, 6: awkward models",
        judge=_judge((3, 1), (*_CHUNKS, *SPLIT, *AWKWARD), PipeAwkwardReport),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "Which stage has no gradient to give, and which none to take? What do the others wait for, when one fails?",
            "A rank that fails goes on with its row: it sends tensors of the right shapes, so that nobody waits, and "
            "raises at the end. Tied weights: both ranks send what *this batch* has added, and add what comes.",
            "`except Exception as error: failed = error`, then send `room(...).fill_(nan)` for what would have been "
            "made, and after the row `raise failed`. Before the row: `earlier = weight.grad`, `weight.grad = None`; "
            "after it exchange, add, and add `earlier`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Your class is right with tied and frozen weights, uneven rows, two dtypes, two pipelines, on one "
        "rank, and with a stage that fails.",
    ),
)
