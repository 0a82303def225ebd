"""Problems on paper of lesson 05: sharded data parallelism at real size."""

from __future__ import annotations

import math
import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sized, sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]

_NUMBERS = (("bfloat16", 2), ("float32", 4))
_BUS_GB_PER_S = {4: (119, 116), 8: (69.0, 68.6), 16: (55.0, 54.5), 32: (28.0, 27.9), 64: (11.0, 11.1)}
_BUS_SOURCE = "Bus bandwidths: Hugging Face, The Ultra-Scale Playbook (2025), 256 MB on nodes of 8 H100 with EFA."
_STATES = "A parameter takes 2 bytes as weight, 2 as gradient, and 12 as AdamW's states and master weight."


@problem("05.fits", "On how many GPUs does it fit?", unit="GPUs")
def _fits(draw: random.Random) -> Posed:
    stage, name, kinds = draw.choice(
        (
            (1, "llama-2-13b", ("8x A100", "8x H100")),
            (2, "llama-3-70b", ("8x B200", "8x MI300X")),
            (3, "llama-3-70b", ("8x A100", "8x H100", "8x H200")),
            (3, "gpt-3-175b", ("8x H100", "8x H200", "8x B200")),
            (3, "llama-3-405b", ("8x H100", "8x H200", "8x B200", "8x MI300X")),
        )
    )
    model, machine, room_gb = MODELS[name], MACHINES[draw.choice(kinds)], draw.choice((10, 15, 20, 25))
    billions, memory_gb = model.parameters / 1e9, machine.memory_bytes / 1e9
    whole, shared = {1: (4, 12), 2: (2, 14), 3: (0, 16)}[stage]
    left_gb = memory_gb - room_gb - whole * billions
    gpus = math.ceil(shared * billions / left_gb)
    return Posed(
        text=f"A job trains {sized(model)} with ZeRO stage {stage} on GPUs of {memory_gb:.2f} GB. {_STATES} On each "
        f"GPU {room_gb} GB must stay free for activations and all else. At least how many GPUs does the job need?",
        value=gpus,
        way=(
            f"At stage {stage}, {f'{whole} bytes a parameter stay' if whole else 'nothing stays'} whole on each GPU. "
            f"{shared} bytes a parameter are shared out.",
            f"What is whole takes {whole} × {billions:.2f} × 10⁹ bytes. So {memory_gb:.2f} − {room_gb} − "
            f"{whole * billions:.2f} = {left_gb:.2f} GB are left for the share.",
            f"What is shared takes {shared} × {billions:.2f} × 10⁹ bytes = {said(shared * billions, 'GB')}.",
            f"{said(shared * billions, 'GB')} / {left_gb:.2f} GB = {shared * billions / left_gb:.2f}, so {gpus} GPUs.",
        ),
        slips=(
            Wrong(
                math.ceil(16 * billions / (memory_gb - room_gb)) if whole else math.ceil(12 * billions / left_gb),
                "Which of weights, gradients and optimizer states does this stage share out?",
            ),
            Wrong(math.ceil(shared * billions / (left_gb + room_gb)), "Something else needs memory on each GPU, too."),
            Wrong(math.ceil(2 * billions / (memory_gb - room_gb)), "Those are the weights alone. Training holds more."),
        ),
        sources=(
            machine.source,
            sizes_source(model),
            "2 + 2 + 12 bytes: Rajbhandari et al., ZeRO (2020), section 3.1.",
        ),
        beside="MPT-70B with FSDP and full recomputation trains 883 tokens a second and GPU on 32 H100, and 1,039 on "
        "64 with larger micro-batches (MosaicML's llm-foundry).",
    )


@problem("05.sends", "Weights and gradients under way", unit="GB")
def _sends(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("llama-2-7b", "llama-3-8b", "llama-2-13b", "llama-3-70b"))]
    gpus, pieces = draw.choice((32, 64, 128)), draw.choice((8, 16))
    stays, is_quiet = draw.choice((False, True)), draw.choice((False, True))
    gathers, sums = pieces * (1 if stays else 2), 1 if is_quiet else pieces
    unit_gb = (gpus - 1) / gpus * model.parameters / 1e9
    sent_gb = unit_gb * (2 * gathers + 4 * sums)
    after = "stay whole from forward to backward" if stays else "are let go after forward, and gathered again"
    return Posed(
        text=f"{gpus} GPUs train {sized(model)} with ZeRO-3. A step accumulates {pieces} micro-batches, "
        f"{'with' if is_quiet else 'without'} `no_sync`. Weights travel in bfloat16 and gradients in float32. The "
        f"weights of a unit {after}. After backward the whole weights are let go. How much does a GPU send in a step?",
        value=sent_gb,
        way=(
            f"Each micro-batch gathers all weights {'once' if stays else 'twice'}: {gathers} all-gathers of 2 bytes "
            "for each parameter.",
            f"Gradients are reduce-scattered {'once a step' if is_quiet else 'in each micro-batch'}: {sums} of 4 bytes "
            "for each parameter.",
            f"Each of these collectives sends {gpus - 1}/{gpus} of its bytes.",
            f"{gpus - 1}/{gpus} × ({gathers} × 2 + {sums} × 4) × {model.parameters / 1e9:.2f} × 10⁹ bytes = "
            f"{said(sent_gb, 'GB')}.",
        ),
        slips=(
            Wrong(
                unit_gb * (2 * gathers + 4 * (pieces if is_quiet else 1)),
                "In how many of the micro-batches do gradients travel? Look for `no_sync`.",
            ),
            Wrong(
                unit_gb * (2 * (3 * pieces - gathers) + 4 * sums),
                "How often is a unit gathered in a micro-batch? Look at what becomes of its weights after forward.",
            ),
            Wrong(unit_gb * (4 * gathers + 8 * sums), "An all-gather sends half as much as an all-reduce."),
        ),
        sources=(sizes_source(model),),
    )


@problem("05.room", "What stays whole between micro-batches", unit="GB")
def _room(draw: random.Random) -> Posed:
    name, kinds = draw.choice(
        (
            ("llama-2-7b", ("8x A100", "8x H100", "8x H200")),
            ("llama-3-8b", ("8x A100", "8x H100", "8x H200")),
            ("llama-2-13b", ("8x H200", "8x B200", "8x MI300X")),
        )
    )
    model, machine, gpus = MODELS[name], MACHINES[draw.choice(kinds)], draw.choice((16, 32, 64, 128))
    word, num_bytes = draw.choice(_NUMBERS)
    billions, memory_gb = model.parameters / 1e9, machine.memory_bytes / 1e9
    whole_gb, share_gb = (2 + num_bytes) * billions, 12 * billions / gpus
    left_gb = memory_gb - whole_gb - share_gb
    return Posed(
        text=f"{gpus} GPUs of {memory_gb:.1f} GB train {sized(model)} with ZeRO-3. To send less, weights stay whole "
        f"in bfloat16 from micro-batch to micro-batch, and `no_sync` keeps the gradients on the GPU, in {word}. "
        "AdamW's states and master weights take 12 bytes a parameter, and are shared out. How much memory is left on "
        "a GPU before the last micro-batch?",
        value=left_gb,
        way=(
            f"Weights are whole, with 2 bytes, and so are gradients, with {num_bytes}: {2 + num_bytes} × "
            f"{billions:.2f} × 10⁹ bytes = {said(whole_gb, 'GB')}.",
            f"A GPU holds its share of the rest: 12 × {billions:.2f} × 10⁹ bytes / {gpus} = {said(share_gb, 'GB')}.",
            f"{memory_gb:.1f} GB − {said(whole_gb, 'GB')} − {said(share_gb, 'GB')} = {said(left_gb, 'GB')}.",
        ),
        slips=(
            Wrong(
                memory_gb - (14 + num_bytes) * billions / gpus,
                "Between two steps all of it is shared out. Here the next micro-batch is still to come.",
            ),
            Wrong(
                memory_gb - 2 * billions - (12 + num_bytes) * billions / gpus,
                "With `no_sync` nobody has sent the gradients away. How many of them does a GPU hold then?",
            ),
            Wrong(
                memory_gb - (8 - num_bytes) * billions - share_gb,
                "How many bytes does a number take in which these gradients are kept?",
            ),
            Wrong(whole_gb + share_gb, "That is what a GPU holds. The question is what remains beside it."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("05.ports", "What leaves a node", unit="ms")
def _ports(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x A100", "8x H100"))]
    model, nodes = MODELS[draw.choice(("llama-2-7b", "llama-3-8b", "llama-2-13b"))], draw.choice((2, 4, 8, 16, 32))
    word, num_bytes = draw.choice(_NUMBERS)
    port = machine.inter.bandwidth_bytes_per_s / 1e9
    factor = 2 * (nodes - 1) / nodes
    leaves_gb = factor * num_bytes * model.parameters / 1e9
    sends_ms = leaves_gb / (8 * port) * 1e3
    return Posed(
        text=f"{nodes} nodes of 8 GPUs train {sized(model)}. Hybrid sharding shards within a node and replicates "
        f"between nodes. Gradients travel in {word}, and rings average each shard's gradients over the nodes. A node "
        f"has 8 ports of {port:.0f} GB/s each, and all of them are used. For how long do they send in a step?",
        value=sends_ms,
        way=(
            f"Weights stay inside a node. Gradients take {num_bytes} × {model.parameters / 1e9:.2f} × 10⁹ bytes = "
            f"{said(num_bytes * model.parameters / 1e9, 'GB')}, an eighth of it on each GPU.",
            f"Each GPU's eighth goes around a ring of {nodes} nodes: 2 × {nodes - 1}/{nodes} = {factor:.3g} times.",
            f"So the eight GPUs of a node send {said(leaves_gb, 'GB')} to others.",
            f"Eight ports send {8 * port:.0f} GB/s: {said(leaves_gb, 'GB')} take {said(sends_ms, 'ms')}.",
        ),
        slips=(
            Wrong(8 * sends_ms, "Either one port does all the work, or each GPU averages more than its own shard."),
            Wrong(sends_ms / 2, "Gradients are averaged between nodes: that is both halves of an all-reduce."),
            Wrong(sends_ms / 8, "That is one GPU's shard on all ports. Each GPU of the node has a shard to average."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("05.floor", "When more ranks save little", unit="GPUs")
def _floor(draw: random.Random) -> Posed:
    names = ("llama-2-7b", "llama-3-8b", "llama-2-13b", "llama-2-70b", "llama-3-70b", "llama-3-405b")
    model, ahead = MODELS[draw.choice(names)], draw.choice((1, 2, 3))
    word, num_bytes = draw.choice(_NUMBERS)
    each = 2 * (1 + ahead) + num_bytes
    block, state_gb = model.layer_parameters / 1e9, 16 * model.parameters / 1e9
    gpus = state_gb / (each * block)
    fetched = "the next block" if ahead == 1 else f"the next {ahead} blocks"
    return Posed(
        text=f"ZeRO-3 trains {sized(model)}, a block to a unit, with {block * 1e3:,.0f} million parameters each. "
        f"{_STATES} At the fullest moment of backward a GPU holds more than its share. The block that "
        f"computes has its weights whole in bfloat16, and its gradients whole in {word}. The weights of {fetched} have "
        "been fetched ahead. "
        "On how many GPUs is what is whole as large as a GPU's share of the state?",
        value=gpus,
        way=(
            f"Whole are the weights of {1 + ahead} blocks and the gradients of one: {1 + ahead} × 2 + {num_bytes} = "
            f"{each} bytes for each parameter of a block, {said(each * block, 'GB')}.",
            f"All of the state takes 16 × {model.parameters / 1e9:.2f} × 10⁹ bytes = {said(state_gb, 'GB')}.",
            f"The share is as large on {said(state_gb, 'GB')} / {said(each * block, 'GB')} = {said(gpus, 'GPUs')}. "
            "With more of them, most of what a GPU holds no longer shrinks.",
        ),
        slips=(
            Wrong(gpus * each / (2 + num_bytes), "What has been fetched ahead needs room as well."),
            Wrong(gpus * 12 / 16, "Weights and gradients have their shares as well. A GPU keeps all four kinds."),
            Wrong(gpus / 8, "Those are the weights' shares alone. A GPU keeps a share of all the state."),
            Wrong(gpus * each / 2, "That is one block's weights and no more. What else is whole at that moment?"),
        ),
        sources=(sizes_source(model), "2 + 2 + 12 bytes: Rajbhandari et al., ZeRO (2020), section 3.1."),
    )


@problem("05.waits", "ZeRO-3 on a thin network", unit="s")
def _waits(draw: random.Random) -> Posed:
    model, tokens = MODELS[draw.choice(("llama-2-7b", "llama-3-8b", "llama-2-13b"))], draw.choice((1024, 2048, 4096))
    gpus, gbits = draw.choice((16, 32, 64)), 100 if tokens == 4096 else draw.choice((100, 200))
    word, num_bytes = draw.choice(_NUMBERS)
    billions, rate, port = model.parameters / 1e9, draw.choice((110, 125)), gbits / 8
    forward_s = 2 * billions * tokens / rate / 1e3
    gather_s = (gpus - 1) / gpus * 2 * billions / port
    sum_s = gather_s * num_bytes / 2
    first_s, second_s = gather_s - forward_s, gather_s + sum_s - 2 * forward_s
    return Posed(
        text=f"{gpus} A100 train {sized(model)} with ZeRO-3. A ring joins them. Each node has one port of {gbits} "
        f"Gbit/s, so the ring passes {port:g} GB/s. Weights are let go after forward. They travel in bfloat16, and "
        f"gradients in {word}. A GPU takes {tokens:,} tokens in a step, and computes {rate} TFLOP/s. Messages run "
        "beside the computing of their own pass, in turn. Leave latency out. For how long does a GPU wait in a step?",
        value=first_s + second_s,
        way=(
            f"An all-gather of everything takes {gpus - 1}/{gpus} × 2 × {billions:.2f} × 10⁹ bytes / {port:g} GB/s = "
            f"{said(gather_s, 's')}, and the reduce-scatter {said(sum_s, 's')}.",
            f"Forward computes for 2 × {billions:.2f} × 10⁹ × {tokens:,} / {rate} TFLOP/s = {said(forward_s, 's')}. "
            f"It waits {said(first_s, 's')} for its all-gather.",
            f"Backward computes for {said(2 * forward_s, 's')}, beside an all-gather and the reduce-scatter, "
            f"{said(gather_s + sum_s, 's')} together: it waits {said(second_s, 's')}.",
            f"{said(first_s, 's')} + {said(second_s, 's')} = {said(first_s + second_s, 's')}.",
        ),
        slips=(
            Wrong(second_s, "Forward waits as well. It has an all-gather of its own."),
            Wrong(
                2 * gather_s + sum_s,
                "Messages are under way for so long, and so long is the step. A GPU computes for a part of it.",
            ),
            Wrong(
                4 * gather_s + 2 * sum_s - 3 * forward_s,
                "An all-gather and a reduce-scatter each send half as much as an all-reduce.",
            ),
        ),
        sources=(sizes_source(model),),
        beside="Narayanan et al. (2021), table 2, train 175 billion parameters with ZeRO-3 on A100. By it a "
        "batch of 1,536 sequences takes 81.6 s on 384 GPUs, and 66.7 s on four times as many.",
    )


@problem("05.tokens", "How many tokens hide ZeRO-3's messages?", unit="tokens")
def _tokens(draw: random.Random) -> Posed:
    nodes, rate = draw.choice(tuple(_BUS_GB_PER_S)), draw.choice((350, 375, 400, 425, 450))
    model = MODELS[draw.choice(("llama-2-7b", "llama-3-8b", "llama-2-13b"))]
    (gather, sums), gpus = _BUS_GB_PER_S[nodes], 8 * nodes
    part = (gpus - 1) / gpus
    forward_ms, backward_ms = part * 2 / gather * 1e3, part * (2 / gather + 4 / sums) * 1e3
    first, second = forward_ms * rate / 2, backward_ms * rate / 4
    return Posed(
        text=f"{gpus} H100 train {sized(model)} with ZeRO-3. Weights are let go after forward. They travel in "
        f"bfloat16 at a bus bandwidth of {gather} GB/s, and gradients in float32 at {sums} GB/s. A GPU computes "
        f"{rate} TFLOP/s. Messages run beside the computing of their own pass, in turn. Leave latency "
        "out. How many tokens does each GPU need at least in a step, so that all messages hide?",
        value=second,
        way=(
            f"Take a billion parameters. An all-gather passes {gpus - 1}/{gpus} × 2 GB at {gather} GB/s, in "
            f"{said(forward_ms, 'ms')}. Forward computes {2 / rate:.3g} ms for a token: {said(first, 'tokens')}.",
            f"Beside backward go an all-gather, and a reduce-scatter of {gpus - 1}/{gpus} × 4 GB at {sums} "
            f"GB/s: {said(backward_ms, 'ms')}. Backward computes {4 / rate:.3g} ms for a token: "
            f"{said(second, 'tokens')}.",
            f"With more parameters all of it grows alike. The larger number hides both: {said(second, 'tokens')}.",
        ),
        slips=(
            Wrong(first, "That hides weights in forward, or gradients alone. Backward has both."),
            Wrong(
                second * 2, "Half of the computing is missing. A multiplication and its addition are two operations."
            ),
            Wrong(second * gpus, "That is the batch of all GPUs together. The question is about each of them."),
        ),
        sources=(_BUS_SOURCE, MACHINES["8x H100"].source, sizes_source(model)),
        beside="torchtitan's benchmark trains Llama 3 8B by FSDP with 16,384 tokens a GPU and step, at "
        "5,762 tokens a second and GPU on 8 H100. On 128 it is 5,605.",
    )


PROBLEMS = (_fits, _sends, _room, _ports, _floor, _waits, _tokens)
