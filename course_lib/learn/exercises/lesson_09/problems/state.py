"""Problems on paper of lesson 09: who writes what, and what a rank holds at the fullest moment."""

from __future__ import annotations

import random

from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["moment", "written"]

_STAGED = (
    ("llama-3-70b", 4), ("llama-3-70b", 8), ("llama-3-405b", 14), ("llama-3-405b", 18), ("gpt-3-175b", 8),
    ("gpt-3-175b", 12), ("megatron-530b", 21), ("megatron-530b", 35),
)  # fmt: skip


@problem("09.written", "A checkpoint by files of ranks", unit="s")
def written(draw: random.Random) -> Posed:
    name, stages = draw.choice(_STAGED)
    model, replicas, node_gb_s = MODELS[name], draw.choice((3, 6, 8)), draw.choice((2, 3, 4, 5))
    billions, nodes = round(model.parameters / 1e9, 1), stages * replicas
    folder_gb = 12 * billions
    once_s, all_s = folder_gb / (nodes * node_gb_s), replicas * folder_gb / (nodes * node_gb_s)
    value = all_s - once_s
    return Posed(
        text=f"{name} has {billions} billion parameters. It is trained on the mesh dp_replicate={replicas}, "
        f"pp={stages}, tp=8, on {nodes} nodes of 8 GPUs. A checkpoint has weights and two moments, all in float32. "
        f"Suppose that each node writes {node_gb_s} GB/s, and that all nodes share the work evenly. One team saves "
        "with DCP, which writes each number once. In another team each rank writes all of these numbers that it "
        "holds, in a file of its own. Leave out that tp copies norms. How much longer does the second team's "
        "checkpoint take?",
        value=value,
        way=(
            f"Each number once: {billions} × 10⁹ × 3 × 4 bytes = {said(folder_gb, 'GB')}.",
            f"{nodes} nodes write {nodes * node_gb_s} GB/s, so DCP takes {said(once_s, 's')}.",
            f"pp and tp cut the model, and {replicas} replicas hold copies. Files by rank are "
            f"{replicas} × {said(folder_gb, 'GB')} and take {said(all_s, 's')}.",
            f"{said(all_s, 's')} − {said(once_s, 's')} = {said(value, 's')}.",
        ),
        slips=(
            Wrong(all_s, "That is the whole time of the second team. How much longer is it than the first team's?"),
            Wrong(once_s, "That is the time of the first team. How much longer does the second team take?"),
            Wrong(value / 3, "The two moments belong in the folder as well."),
            Wrong(value * 4 / 3, "Gradients are made anew. They do not belong in a checkpoint."),
            Wrong(value * nodes, "All nodes write at the same time."),
        ),
        sources=(sizes_source(MODELS[name]),),
    )


@problem("09.moment", "The fullest moment of a sharded stage", unit="GB")
def moment(draw: random.Random) -> Posed:
    name, stages = draw.choice(_STAGED)
    model, shards = MODELS[name], draw.choice((4, 8, 16, 32))
    layers, layer_m = model.layers // stages, round(model.layer_parameters / 1e6)
    part = layers * layer_m * 1e6 / 8
    kept_gb, gradients_gb, layer_gb = 16 * part / shards / 1e9, 4 * part / 1e9, 2 * layer_m * 1e6 / 8 / 1e9
    value = kept_gb + gradients_gb + layer_gb
    return Posed(
        text=f"A layer of {name} has {layer_m:,} million parameters. On the mesh pp={stages}, dp_shard={shards}, tp=8 "
        f"a stage has {layers} layers. A rank keeps its shards of weights, gradients and states, 16 bytes for each "
        "parameter in them. For each micro-batch the stage gathers one layer at a time, with weights in bfloat16. "
        "The gradients of the stage stay whole in float32 until the batch is over. Leave out activations, embedding "
        "and output. How much does a rank hold at the fullest moment?",
        value=value,
        way=(
            f"tp leaves a rank {layers} × {layer_m:,} × 10⁶ / 8 = {part / 1e9:.4g} × 10⁹ parameters of its stage.",
            f"Kept: 16 bytes × {part / 1e9:.4g} × 10⁹ / {shards} = {said(kept_gb, 'GB')}.",
            f"Whole gradients, as large as tp leaves them: 4 bytes × {part / 1e9:.4g} × 10⁹ = "
            f"{said(gradients_gb, 'GB')}.",
            f"One gathered layer: 2 bytes × {layer_m:,} × 10⁶ / 8 = {said(layer_gb, 'GB')}.",
            f"Together {said(value, 'GB')}.",
        ),
        slips=(
            Wrong(kept_gb, "That is what is kept between steps. At the fullest moment some tensors are whole."),
            Wrong(kept_gb + layer_gb, "With stages, gradients are whole until the batch is over."),
            Wrong(value + 7 * (gradients_gb + layer_gb), "A whole tensor is as large as tp leaves it."),
            Wrong(16 * part / 1e9 + layer_gb, "That is without shards. States are never gathered."),
        ),
        sources=(sizes_source(MODELS[name]),),
    )
