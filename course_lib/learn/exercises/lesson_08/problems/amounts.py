"""Problems on paper of lesson 08: logits that stay cut, and bytes beside those of data parallelism."""

from __future__ import annotations

import random

from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["even", "scores"]


@problem("08.scores", "Logits that stay cut", unit="GB")
def scores(draw: random.Random) -> Posed:
    name = draw.choice(("llama-2-13b", "llama-3-8b", "llama-3-70b", "gpt-3-175b"))
    model, ranks = MODELS[name], draw.choice((4, 8))
    tokens = draw.choice((2048, 4096, 8192, 12288, 16384))
    whole_gb = 4 * tokens * model.vocab / 1e9
    value = whole_gb * (ranks - 1) / ranks
    return Posed(
        text=f"{ranks} GPUs share {name} by tensor parallelism, and cut its vocabulary of {model.vocab:,} tokens "
        f"evenly. A micro-batch has {tokens:,} positions, and logits are in float32. One team gathers all logits on "
        "every GPU. Another leaves them cut, and has a vocabulary-parallel cross-entropy. Leave out gradients, and "
        "the few numbers that the loss sends. How much less memory do logits take on a GPU of the second team?",
        value=value,
        way=(
            f"All logits: {tokens:,} × {model.vocab:,} × 4 bytes = {said(whole_gb, 'GB')}.",
            f"Left cut, a GPU has 1/{ranks} of them: {said(whole_gb / ranks, 'GB')}.",
            f"{said(whole_gb, 'GB')} − {said(whole_gb / ranks, 'GB')} = {said(value, 'GB')}.",
        ),
        slips=(
            Wrong(whole_gb, "That is what all logits take. The second team has a part of them."),
            Wrong(
                whole_gb / ranks, "That is what a GPU of the second team has. The question is how much less that is."
            ),
            Wrong(4 * tokens * model.hidden * (ranks - 1) / ranks / 1e9, "A position has a logit for each token."),
            Wrong(value / 4, "A number in float32 takes four bytes."),
        ),
        sources=(sizes_source(MODELS[name]),),
    )


@problem("08.even", "From how many tokens on does tensor parallelism send more?", unit="tokens")
def even(draw: random.Random) -> Posed:
    name = draw.choice(
        ("llama-3.2-1b", "llama-2-7b", "llama-3-8b", "llama-2-13b", "llama-3-70b", "llama-3-405b", "gpt-3-175b")
    )
    model, ranks = MODELS[name], draw.choice((4, 8))
    word, num_bytes = draw.choice((("bfloat16", 2), ("float32", 4)))
    halves, how = draw.choice(
        (
            (8, "with one all-reduce forward and one backward for each region"),
            (10, "with sequence parallelism, and gather the input of each region anew in the backward pass"),
        )
    )
    layer_m = round(model.layer_parameters / 1e6)
    value = layer_m * 1e6 * num_bytes / (halves * model.hidden)
    calls = "four all-reduces are eight halves" if halves == 8 else "eight halves, and two all-gathers more: ten"
    return Posed(
        text=f"A layer of {name} has {layer_m:,} million parameters and is {model.hidden:,} wide. {ranks} GPUs work "
        f"on it. With data parallelism a ring averages its gradients once a step, in {word}. With tensor parallelism "
        f"they cut it {how}. Activations are in bfloat16. Count what a GPU sends for this layer, forward and "
        "backward. Under tensor parallelism norms send nothing. How many tokens must the whole batch have, so that "
        "both ways send equally many bytes?",
        value=value,
        way=(
            f"Data: two halves of an all-reduce of {layer_m:,} × 10⁶ × {num_bytes} bytes = "
            f"{said(layer_m * num_bytes / 1e3, 'GB')}.",
            f"Tensor: {calls}. Each is of tokens × {model.hidden:,} × 2 bytes, for all tokens of the batch.",
            f"Each half sends {ranks - 1}/{ranks} of its buffer, so that {ranks - 1}/{ranks} drops out: "
            f"2 × {said(layer_m * num_bytes / 1e3, 'GB')} = {halves} × tokens × {2 * model.hidden:,} bytes.",
            f"2 × {layer_m * num_bytes:,} × 10⁶ / ({halves} × {2 * model.hidden:,}) = {said(value, 'tokens')}.",
        ),
        slips=(
            Wrong(value * 2, "That counts the two gates forward. Gates send backward, too."),
            Wrong(value / 2, "You have counted one half of the all-reduce of gradients."),
            Wrong(value * ranks, "In a tensor group every GPU works on all tokens of the batch."),
        ),
        sources=(sizes_source(MODELS[name]),),
    )
