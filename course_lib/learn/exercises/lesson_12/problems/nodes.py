"""What crosses between nodes: steps of training that shard over all or inside, and an hierarchical all-reduce."""

from __future__ import annotations

import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["shards", "storeys"]


@problem("12.shards", "Shards over all, or inside a node", unit="s")
def shards(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model = MODELS[draw.choice(("llama-3-8b", "llama-2-13b", "llama-3-70b"))]
    nodes, pieces = draw.choice((4, 8, 16, 32)), draw.choice((3, 4, 6, 8))
    port, ports, gpus = machine.inter.bandwidth_bytes_per_s, machine.ports_per_node, 8 * nodes
    whole_gb = 2 * model.parameters / 1e9
    all_gb = (2 * pieces + 1) * (gpus - 1) / gpus * whole_gb
    hybrid_gb = 2 * (nodes - 1) / nodes * whole_gb
    node_gb = ports * port / 1e9
    saved_s = (all_gb - hybrid_gb) / node_gb
    return Posed(
        text=f"{model.name} ({model.parameters / 1e9:.2f} billion parameters, 2 bytes for a weight or a gradient) is "
        f"trained on {nodes} nodes {machine.name}. A step has {pieces} pieces. Sharded over all GPUs, each piece "
        "gathers all weights twice, and gradients are reduce-scattered once, after the last piece. With hybrid "
        "sharding all of these stay inside the nodes, and one all-reduce of gradients goes between nodes. A ring "
        f"leaves each node once, and the node's {ports} ports of {port / 1e9:.0f} GB/s share its bytes. How much "
        "longer do the ports send in a step if all GPUs share the weights?",
        value=saved_s,
        way=(
            f"All weights, or all gradients, are {said(whole_gb, 'GB')}. A node's ports send {node_gb:.0f} GB/s "
            "together.",
            f"Over all: (2 × {pieces} + 1) × {gpus - 1}/{gpus} × {whole_gb:.4g} GB = {said(all_gb, 'GB')} leave a "
            "node.",
            f"Hybrid: an all-reduce between {nodes} nodes, 2 × {nodes - 1}/{nodes} × {whole_gb:.4g} GB = "
            f"{said(hybrid_gb, 'GB')}. Each GPU sends an eighth of it.",
            f"({all_gb:.4g} − {hybrid_gb:.4g}) GB/{node_gb:.0f} GB/s = {said(saved_s, 's')}.",
        ),
        slips=(
            Wrong(all_gb / node_gb, "That is the whole time of sharding over all. The difference was asked for."),
            Wrong(saved_s * ports, "That is for one port. Each GPU of a node has a port of its own."),
            Wrong(
                (3 * (gpus - 1) / gpus * whole_gb - hybrid_gb) / node_gb,
                "Weights are gathered anew for each piece, and not once a step.",
            ),
            Wrong(
                (all_gb - pieces * (gpus - 1) / gpus * whole_gb - hybrid_gb) / node_gb,
                "Weights are gathered for forward and once more for backward.",
            ),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("12.storeys", "When is the hierarchical all-reduce quicker?", unit="GPUs")
def storeys(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "8x B200"))]
    size_gb, between_us, inside_us = draw.choice((0.5, 1, 2, 4)), draw.choice((8, 12, 16)), draw.choice((4, 5))
    inside, port = machine.intra.bandwidth_bytes_per_s, machine.inter.bandwidth_bytes_per_s
    extra_ms = 2 * 7 / 8 * size_gb * 1e12 / inside + 14 * inside_us / 1e3
    saved_us = 2 * 7 / 8 * between_us
    gpus = extra_ms * 1e3 / saved_us
    return Posed(
        text=f"Gradients of {size_gb:g} GB are all-reduced on n GPUs, in nodes {machine.name}. A message takes "
        f"{between_us} µs to start between nodes and {inside_us} µs inside. A flat ring has 2 (n − 1) rounds, and each "
        f"waits for a start between nodes. The hierarchical way has 7 rounds at {inside / 1e9:.0f} GB/s inside, a ring "
        "between the n/8 GPUs of one local rank, and 7 rounds inside again. Between nodes both ways "
        f"send equally many bytes through each port of {port / 1e9:.0f} GB/s, so that time is the same. In the rounds "
        "inside each message is an eighth of the gradients. From how many GPUs on is the hierarchical way quicker?",
        value=gpus,
        way=(
            f"Inside, the hierarchical way sends 2 × 7/8 × {size_gb:g} GB at {inside / 1e9:.0f} GB/s and starts 14 "
            f"times: {said(extra_ms, 'ms')} more than the flat way.",
            "Between nodes it has 2 (n/8 − 1) rounds and not 2 (n − 1). That saves 2 × 7/8 × n starts of "
            f"{between_us} µs, {said(saved_us, 'µs')} for each GPU.",
            f"Both are equal at n = {said(extra_ms, 'ms')}/{said(saved_us, 'µs')} = {said(gpus, 'GPUs')}.",
        ),
        slips=(
            Wrong(gpus / 2, "The parts are handed round inside twice: to add up, and to share out the sums."),
            Wrong(gpus / 8, "That is the number of nodes. The answer was asked for in GPUs."),
            Wrong(gpus * inside / port, "The steps inside go over NVLink, and not over a port."),
            Wrong(gpus * 8, "In a round inside, a GPU sends an eighth of the bytes, and not all of them."),
        ),
        sources=(machine.source,),
        beside="Hugging Face's Ultra-Scale Playbook has all-reduces of 256 MB on nodes of 8 H100 with EFA. The bus "
        "bandwidth fell from 362 GB/s on 2 nodes to 33 on 64.",
    )
