"""Usual wrong answers to 11.fits, each with what it mixes up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from course_lib.learn.catalogue.exercise import Mistake
from course_lib.plan import Job, Layout
from course_lib.plan.estimate.stage_memory import BytesEach

__all__ = ["MISTAKES"]


_STATES = {"weights": 3, "gradients": 2, "optimizer": 1}  # from which sharding on each is shared out


@dataclass(frozen=True)
class _Slip:
    """The right way, and one thing wrong. Each field replaces one factor of the right answer."""

    tables: Callable[[int, int], int] = lambda stage, stages: (stage == 0) + (stage == stages - 1)
    in_flight: Callable[[int, int, int], int] = lambda stage, stages, count: min(stages - stage, count)
    is_shared: Callable[[int, int], bool] = lambda sharding, first: sharding >= first
    has_logits: Callable[[int, int], bool] = lambda stage, stages: stage == stages - 1
    inside_again: Callable[[int, float], float] = lambda in_flight, layers: 1.0
    layers_by_pp: bool = True
    kept_by_tp: bool = True
    logits_by_tp: bool = True
    states_by_tp: bool = True
    tables_by_tp: bool = True
    kept_by_dp: bool = False
    recomputes: bool = True
    always_recomputes: bool = False
    micro_batches: bool = True

    def __call__(self, job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
        model, tp, pp = job.model, layout.tp, layout.pp
        layers = model.layers / (pp if self.layers_by_pp else 1)
        tables = self.tables(stage, pp) * model.embedding_parameters / (tp if self.tables_by_tp else 1)
        numbers = layers * model.layer_parameters / (tp if self.states_by_tp else 1) + tables
        states = {
            name: getattr(each, name.removesuffix("s"))
            * numbers
            / (layout.dp if self.is_shared(layout.sharding, first) else 1)
            for name, first in _STATES.items()
        }
        tokens = job.seq * (layout.micro_batch if self.micro_batches else 1)
        in_flight = self.in_flight(stage, pp, layout.num_micro_batches(job.batch))
        again = (layout.recompute == "full" and self.recomputes) or self.always_recomputes
        kept = in_flight * layers * (each.input if again else each.layer)
        kept += self.inside_again(in_flight, layers) * each.layer if again else 0.0
        kept /= (tp if self.kept_by_tp else 1) * (layout.dp if self.kept_by_dp and layout.sharding == 3 else 1)
        logits = each.logit * tokens * model.vocab * self.has_logits(stage, pp)
        return states | {"activations": tokens * kept, "logits": logits / (tp if self.logits_by_tp else 1)}


def _weights_first(sharding: int, first: int) -> bool:
    return sharding >= 4 - first


def _only_its_own(sharding: int, first: int) -> bool:
    return sharding == first


_RIGHT = _Slip()  # nothing wrong; the library's function may not be called


def _whole_batch(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    """All sequences of the rank at once."""
    count = layout.num_micro_batches(job.batch)
    found = _RIGHT(job, layout, stage, each)
    in_flight = min(layout.pp - stage, count)
    inside = each.layer * layout.micro_batch * job.seq / layout.tp * (layout.recompute == "full")
    return found | {
        "activations": (found["activations"] - inside) * count / in_flight + inside,
        "logits": found["logits"] * count,
    }


def _rounded_down(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    """Of a step as many sequences as fill their micro-batches."""
    a_round = layout.micro_batch * layout.dp
    return _RIGHT(replace(job, batch=job.batch // a_round * a_round), layout, stage, each)


def _one_number(job: Job, layout: Layout, stage: int, each: BytesEach) -> float:
    return sum(_RIGHT(job, layout, stage, each).values())


def _in_gb(job: Job, layout: Layout, stage: int, each: BytesEach) -> dict[str, float]:
    return {name: size / 1e9 for name, size in _RIGHT(job, layout, stage, each).items()}


_TABLE_LESS = "The tables of the vocabulary are missing: the first stage looks tokens up, the last one scores them."

# Name, what is said, and the answer.
_SAID: tuple[tuple[str, str, Any], ...] = (
    (
        "layers-by-no-stage",
        "Every stage has all layers here. In a pipeline of pp stages each has 1/pp of them.",
        _Slip(layers_by_pp=False),
    ),
    (
        "one-in-flight",
        "Here a stage keeps the activations of one micro-batch. Until the first of them comes back from the last "
        "stage, 1F1B has let more of them in.",
        _Slip(in_flight=lambda stage, stages, count: 1),
    ),
    (
        "as-gpipe",
        "Here a stage keeps all micro-batches of a step, as GPipe does. In 1F1B it begins with backwards "
        "as soon as it can.",
        _Slip(in_flight=lambda stage, stages, count: count),
    ),
    (
        "all-stages-alike",
        "Every stage keeps as many micro-batches as there are stages here. The later a stage, the sooner a micro-batch "
        "comes back to it.",
        _Slip(in_flight=lambda stage, stages, count: min(stages, count)),
    ),
    (
        "more-than-there-are",
        "Your bytes are right with many micro-batches. With fewer micro-batches than stages, no stage can keep more "
        "than there are.",
        _Slip(in_flight=lambda stage, stages, count: stages - stage),
    ),
    (
        "last-keeps-most",
        "The number of micro-batches in flight grows from stage to stage here. The first stage waits longest.",
        _Slip(in_flight=lambda stage, stages, count: min(stage + 1, count)),
    ),
    (
        "one-too-few",
        "One micro-batch in flight is missing: the last stage has one, the one before it two.",
        _Slip(in_flight=lambda stage, stages, count: min(stages - stage - 1, count)),
    ),
    (
        "activations-shared",
        "In your answer sharding 3 cuts activations as well. Ranks share out what belongs to the model. A rank keeps "
        "the activations of its own sequences whole.",
        _Slip(kept_by_dp=True),
    ),
    (
        "weights-first",
        "The stages of sharding are the other way round here: the optimizer goes first, and the weights last.",
        _Slip(is_shared=_weights_first),
    ),
    (
        "only-its-own",
        "Sharding 2 cuts the gradients here, and leaves the optimizer whole. Each stage adds to the one before.",
        _Slip(is_shared=_only_its_own),
    ),
    (
        "one-sharding-late",
        "Each part is shared out one stage of sharding too late here. Sharding 1 cuts the optimizer, 2 the gradients "
        "as well, 3 the weights as well.",
        _Slip(is_shared=lambda sharding, first: sharding > first),
    ),
    (
        "always-shared",
        "The data axis cuts states here whatever `sharding` says. At 0 each data rank has all of them.",
        _Slip(is_shared=lambda sharding, first: True),
    ),
    (
        "never-shared",
        "`sharding` makes no difference here.",
        _Slip(is_shared=lambda sharding, first: False),
    ),
    (
        "logits-on-all",
        "Every stage has logits here. They are made where the output table is.",
        _Slip(has_logits=lambda stage, stages: True),
    ),
    ("no-tables", _TABLE_LESS, _Slip(tables=lambda stage, stages: 0)),
    (
        "tables-on-all",
        "Every stage has both tables of the vocabulary here. The first stage looks tokens up, the last one scores "
        "them.",
        _Slip(tables=lambda stage, stages: 2),
    ),
    (
        "one-table",
        "One stage alone has one table here. It is the first and the last, so it looks tokens up and scores them.",
        _Slip(tables=lambda stage, stages: int(stage in (0, stages - 1))),
    ),
    (
        "states-not-by-tp",
        "The tensor axis does not cut the layers' weights here. It cuts every matrix.",
        _Slip(states_by_tp=False),
    ),
    (
        "tables-not-by-tp",
        "The tensor axis cuts the layers here, and not the tables. The vocabulary is shared out as well.",
        _Slip(tables_by_tp=False),
    ),
    (
        "activations-not-by-tp",
        "The tensor axis does not cut the activations here. With sequence parallelism it cuts all that a layer keeps.",
        _Slip(kept_by_tp=False),
    ),
    (
        "logits-not-by-tp",
        "The tensor axis does not cut the logits here. Each of its ranks scores its own part of the vocabulary.",
        _Slip(logits_by_tp=False),
    ),
    (
        "kept-inside",
        "`recompute` makes no difference here.",
        _Slip(recomputes=False),
    ),
    (
        "recomputes-always",
        'Every layout is computed again here, also one with `recompute` "none". `recompute` is a text, and as a '
        'condition every text except the empty one is true: compare it with "full".',
        _Slip(always_recomputes=True),
    ),
    (
        "inputs-alone",
        "With recomputation you count the inputs. When a layer is computed again, all that it keeps comes back for a "
        "moment: once, for one layer of one micro-batch.",
        _Slip(inside_again=lambda in_flight, layers: 0.0),
    ),
    (
        "inside-in-flight",
        "With recomputation the inside of a layer is counted for each micro-batch in flight. Only the one that is on "
        "its way back is computed again.",
        _Slip(inside_again=lambda in_flight, layers: float(in_flight)),
    ),
    (
        "inside-of-all",
        "With recomputation the inside of all layers is counted. One layer at a time is computed again.",
        _Slip(inside_again=lambda in_flight, layers: layers),
    ),
    (
        "one-sequence",
        "Each micro-batch has one sequence here. It has `layout.micro_batch` of them.",
        _Slip(micro_batches=False),
    ),
    (
        "whole-batch",
        "All micro-batches of a step are there at once here. They come one after the other.",
        _whole_batch,
    ),
    (
        "batch-rounded-down",
        "The micro-batches of a step are rounded down here. The last one of them need not be full: "
        "`layout.num_micro_batches(job.batch)` counts it.",
        _rounded_down,
    ),
    (
        "one-number",
        "One number came back. Give a dictionary of the five parts: a sum hides where it goes.",
        _one_number,
    ),
    ("in-gb", "These are gigabytes. The parts are wanted in bytes.", _in_gb),
)

MISTAKES = tuple(Mistake(name, said, answer) for name, said, answer in _SAID)
