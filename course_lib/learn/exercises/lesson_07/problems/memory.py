"""Problems on paper of lesson 07: what a stage keeps for micro-batches that are in flight."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["held", "room"]

_KEPT = 34  # bytes for a number of a layer's input
_CUT = (
    ("llama-2-7b", 4), ("llama-2-7b", 8), ("llama-3-8b", 4), ("llama-3-8b", 8), ("llama-2-13b", 8), ("llama-2-13b", 10),
)  # fmt: skip


def _assumed(tokens: int, width: int) -> str:
    return (
        f"A micro-batch is one sequence of {tokens:,} tokens, and the model is {width:,} wide. Suppose that a layer "
        f"keeps {_KEPT} bytes for each token and channel until its backward. "
    )


@problem("07.held", "What a rank of 1F1B keeps", unit="GB")
def held(draw: random.Random) -> Posed:
    name, stages = draw.choice(_CUT)
    model = MODELS[name]
    rank, tokens, micro_batches = draw.randrange(1, stages - 1), draw.choice((2048, 4096)), draw.choice((32, 64, 128))
    layers = model.layers // stages
    layer_gb = _KEPT * tokens * model.hidden / 1e9
    in_flight = stages - rank
    value = in_flight * layers * layer_gb
    return Posed(
        text=f"A pipeline of {stages} GPUs, ranks 0 to {stages - 1}, trains {name}. Each rank has a stage of {layers} "
        f"of the {model.layers} layers. The schedule is 1F1B, with {micro_batches} micro-batches. "
        f"{_assumed(tokens, model.hidden)}"
        f"Leave out the embedding and the output. How much do the activations on rank {rank} take at their peak?",
        value=value,
        way=(
            f"For one micro-batch a layer keeps {_KEPT} × {tokens:,} × {model.hidden:,} bytes = "
            f"{said(layer_gb, 'GB')}.",
            f"A stage has {layers} layers: {said(layers * layer_gb, 'GB')} for each micro-batch in flight.",
            "Under 1F1B a rank holds as many micro-batches as there are stages from its own to the last: "
            f"{stages} − {rank} = {in_flight}.",
            f"{in_flight} × {said(layers * layer_gb, 'GB')} = {said(value, 'GB')}.",
        ),
        slips=(
            Wrong(
                micro_batches * layers * layer_gb,
                "That is GPipe, which holds all micro-batches. 1F1B holds fewer.",
            ),
            Wrong(stages * layers * layer_gb, "That is the first rank, which holds the most. Which rank is asked?"),
            Wrong((rank + 1) * layers * layer_gb, "You have counted stages from the first one. Count to the last one."),
            Wrong(layers * layer_gb, "That is one micro-batch. How many have had their forward, and no backward yet?"),
            Wrong(in_flight * layer_gb, "That is a single layer. A stage has several."),
        ),
        sources=(f"Sizes of {name}: its published config.json.",),
        beside="For layers of GPT-3's form Korthikanti et al. (2022) count 34 bytes, with the scores of attention "
        "computed anew.",
    )


@problem("07.room", "The best bubble that fits GPipe", unit="%")
def room(draw: random.Random) -> Posed:
    name, stages = draw.choice((*_CUT, ("llama-2-13b", 4)))
    model, machine = MODELS[name], MACHINES["8x H100"]
    tokens = draw.choice((2048, 4096))
    layers = model.layers // stages
    layer_gb = _KEPT * tokens * model.hidden / 1e9
    stage_gb = layers * layer_gb
    state_gb = 16 * model.parameters / stages / 1e9
    memory_gb = machine.memory_bytes / 1e9
    most = min(int((memory_gb - state_gb - 2) / stage_gb - 0.5), 12)
    fits = draw.randrange(2, most + 1)
    free_gb = round((fits + 0.5) * stage_gb, 1)
    value = 100 * (stages - 1) / (fits + stages - 1)
    return Posed(
        text=f"{stages} H100 GPUs train {name} as a GPipe pipeline: {layers} layers in each stage. "
        f"{_assumed(tokens, model.hidden)}Each GPU has {free_gb} GB free for activations, and nothing is "
        "computed anew. Messages take no time, and all stages are equally slow. The number of micro-batches is as "
        "large as memory allows. What is the idle share of the pipeline?",
        value=value,
        way=(
            f"A stage keeps {layers} × {_KEPT} × {tokens:,} × {model.hidden:,} bytes = {said(stage_gb, 'GB')} for each "
            "micro-batch.",
            f"GPipe holds all micro-batches of a step. {free_gb} GB / {said(stage_gb, 'GB')} = "
            f"{free_gb / stage_gb:.2f}, so {fits} fit.",
            f"Idle share: (p − 1)/(m + p − 1) = {stages - 1}/({fits} + {stages - 1}).",
            f"That is {said(value, '%')}.",
        ),
        slips=(
            Wrong(
                100 * (stages - 1) / fits,
                "You have divided the waiting by the work. The idle share divides by the whole step.",
            ),
            Wrong(
                100 * (stages - 1) / (int(free_gb / layer_gb) + stages - 1),
                "That is a stage of a single layer. A stage keeps the activations of all its layers.",
            ),
            Wrong(100 - value, "That is the share in which the ranks work."),
        ),
        sources=(f"Sizes of {name}: its published config.json.",),
        beside="GPipe's authors (Huang et al., 2019) computed activations anew in the backward pass. They found that "
        "the bubble hardly counts with four times as many micro-batches as stages.",
    )
