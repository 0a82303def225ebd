"""Problems on paper of lesson 06: model parallelism at real size."""

from __future__ import annotations

import math
import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sized, sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]

_NETWORKS = (("infiniband edr", 100), ("infiniband hdr", 200), ("infiniband ndr", 400))
_NUMBERS = (("bfloat16", 2), ("float32", 4))
_NAIVE = "one batch at a time goes through the stages, there and back."


@problem("06.crosses", "There and back across a cut", unit="ms")
def _crosses(draw: random.Random) -> Posed:
    names = ("llama-3-8b", "llama-2-13b", "llama-3-70b", "gpt-3-175b", "llama-3-405b")
    model, (link, gbits) = MODELS[draw.choice(names)], draw.choice(_NETWORKS)
    batch, length = draw.choice((1, 2, 4, 8)), draw.choice((2048, 4096))
    word, num_bytes = draw.choice(_NUMBERS)
    one_mb = batch * length * model.hidden * num_bytes / 1e6
    moves_ms = 2 * one_mb / (gbits / 8)
    return Posed(
        text=f"One of the cuts of {model.name} lies between two nodes. The model has {model.layers} blocks, and is "
        f"{model.hidden:,} wide. A batch has {batch} sequences of {length:,} tokens, and what crosses a cut is {word}. "
        f"The link between the nodes carries {gbits} Gbit/s each way. Leave its latency out. For how long do messages "
        "of a training step travel across this cut?",
        value=moves_ms,
        way=(
            f"An activation has {batch} × {length:,} × {model.hidden:,} numbers of {num_bytes} bytes: "
            f"{said(one_mb, 'MB')}.",
            f"It goes to the right, and its gradient, as large, to the left: {said(2 * one_mb, 'MB')}.",
            f"{gbits} Gbit/s are {gbits / 8:g} GB/s, so that takes {said(moves_ms, 'ms')}.",
        ),
        slips=(
            Wrong(moves_ms / 2, "The activation alone does not train the first half. What comes back?"),
            Wrong(moves_ms / 8, "The link is given in bits, and a tensor takes bytes."),
            Wrong(moves_ms * model.layers, "This is about one cut. The model's depth does not enter."),
        ),
        sources=(f"Bandwidth of {link}: its standard.", sizes_source(model)),
    )


@problem("06.whole", "What whole blocks leave", unit="GB")
def _whole(draw: random.Random) -> Posed:
    name, kinds, rooms = draw.choice(
        (
            ("llama-2-13b", ("4x RTX 4090",), (5, 8, 10)),
            ("llama-3-70b", ("8x A100", "8x H100", "8x H200"), (30, 40, 50)),
            ("gpt-3-175b", ("8x H100", "8x H200", "8x B200", "8x MI300X"), (20, 30, 40)),
            ("llama-3-405b", ("8x H200", "8x B200", "8x MI300X"), (20, 25, 30)),
        )
    )
    model, machine, room_gb = MODELS[name], MACHINES[draw.choice(kinds)], draw.choice(rooms)
    word, each = draw.choice((("bfloat16", 16), ("float32", 18)))
    block_gb, memory_gb = each * model.layer_parameters / 1e9, machine.memory_bytes / 1e9
    fit = math.floor((memory_gb - room_gb) / block_gb)
    gpus = math.ceil(model.layers / fit)
    most = math.ceil(model.layers / gpus)
    return Posed(
        text=f"{model.name} has {model.layers} blocks of {model.layer_parameters / 1e6:,.0f} million parameters each. "
        f"Gradients are {word}, so training takes {each} bytes a parameter. Stages are whole blocks, one to a GPU of "
        f"{memory_gb:.2f} GB. On each GPU at least {room_gb} GB must stay free. Stem and head have GPUs of their own, "
        "which you leave out. You take as few GPUs as that allows, and deal the blocks out as evenly as can be. How "
        "much memory is left on the fullest GPU?",
        value=memory_gb - most * block_gb,
        way=(
            f"A block takes {each} × {model.layer_parameters / 1e6:,.0f} × 10⁶ bytes = {said(block_gb, 'GB')}.",
            f"A GPU has {said(memory_gb - room_gb, 'GB')} for blocks: room for {(memory_gb - room_gb) / block_gb:.2f}, "
            f"so for {fit} whole.",
            f"{model.layers} blocks / {fit} = {model.layers / fit:.4g}, so {gpus} GPUs. Dealt out evenly, the fullest "
            f"holds {most}.",
            f"{memory_gb:.2f} GB − {most} × {said(block_gb, 'GB')} = {said(memory_gb - most * block_gb, 'GB')}.",
        ),
        slips=(
            Wrong(room_gb, "That is what has to stay free. Whole blocks do not fill the rest."),
            Wrong(
                memory_gb - math.floor(memory_gb / block_gb) * block_gb,
                "You have filled the GPU with blocks. Keep the room free first.",
            ),
            Wrong(most * block_gb, "That is what the blocks take. The question is what remains beside them."),
            Wrong(
                memory_gb - most * block_gb * 4 / each,
                "Those are weights and gradients of 2 bytes each. The optimizer has most of the bytes.",
            ),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("06.rate", "Many GPUs, few at work", unit="tokens/s")
def _rate(draw: random.Random) -> Posed:
    name, kinds = draw.choice(
        (
            ("llama-2-13b", ("8x A100", "8x H100")),
            ("llama-3-70b", ("8x A100", "8x H100", "8x H200", "8x B200")),
            ("gpt-3-175b", ("8x H100", "8x H200", "8x B200")),
        )
    )
    model, machine, share = MODELS[name], MACHINES[draw.choice(kinds)], draw.choice((0.35, 0.4, 0.45))
    gpus, room_gb = draw.choice((64, 128, 256)), draw.choice((20, 30))
    memory_gb, state_gb = machine.memory_bytes / 1e9, 16 * model.parameters / 1e9
    stages = math.ceil(state_gb / (memory_gb - room_gb))
    replicas, flops_per_s = gpus // stages, machine.matmul_flops_per_s["bfloat16"] * share
    one = flops_per_s / (6 * model.parameters)
    return Posed(
        text=f"{gpus} GPUs of {memory_gb:.1f} GB train {sized(model)}, whose state of 16 bytes a parameter is cut in "
        f"equal stages. On each GPU {room_gb} GB stay free. Take as few stages as that allows, and as many replicas of "
        f"the cut model as there are GPUs for. In each, {_NAIVE} A GPU at work computes "
        f"{flops_per_s / 1e12:.0f} TFLOP/s, with six operations for each parameter and token. Messages are left out. "
        f"How many tokens a second does the job train for each of its {gpus} GPUs?",
        value=replicas * one / gpus,
        way=(
            f"The state takes 16 × {model.parameters / 1e9:.2f} × 10⁹ bytes = {said(state_gb, 'GB')}. A GPU has "
            f"{said(memory_gb - room_gb, 'GB')} for it, so there are {stages} stages.",
            f"{gpus} GPUs / {stages} make {replicas} whole replicas.",
            f"In a replica one GPU computes at a time: {flops_per_s / 1e12:.0f} TFLOP/s / (6 × "
            f"{model.parameters / 1e9:.2f} × 10⁹) = {said(one, 'tokens/s')}.",
            f"{replicas} × {said(one, 'tokens/s')} / {gpus} = {said(replicas * one / gpus, 'tokens/s')}.",
        ),
        slips=(
            Wrong(
                one, "It would be so much if all GPUs worked at once. In a replica a batch is in one stage at a time."
            ),
            Wrong(replicas * one, "That is the whole job. The question is about each of its GPUs."),
            Wrong(replicas * one / gpus / stages, "A GPU waits, but it also computes no more than its own stage."),
            Wrong(replicas * one / gpus * 3, "Two operations are forward's. Training goes back as well."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("06.head", "A head makes one stage longer", unit="%")
def _head(draw: random.Random) -> Posed:
    name, counts = draw.choice(
        (
            ("llama-3.2-1b", (2, 4, 8)),
            ("llama-2-7b", (2, 4, 8, 16)),
            ("llama-3-8b", (2, 4, 8, 16)),
            ("llama-2-13b", (4, 8, 10, 20)),
            ("llama-3-70b", (8, 10, 16, 20)),
            ("llama-3-405b", (7, 9, 14, 18)),
        )
    )
    model, stages = MODELS[name], draw.choice(counts)
    blocks, block, head = model.layers // stages, model.layer_parameters / 1e6, model.embedding_parameters / 1e6
    waits = head / (blocks * block + head)
    return Posed(
        text=f"{model.name} has {model.layers} blocks of {block:,.1f} million parameters each. Its head is a matrix "
        f"of {model.vocab:,} × {model.hidden:,}. The model is cut in {stages} stages with as many blocks each, and "
        "the last has the head as well. Time goes by parameters, and looking tokens up in the stem costs nothing. "
        "Leave out attention over the sequence and all messages. In a pipeline all stages compute at once, and wait "
        "for the slowest. For what share of the time does a stage without the head wait?",
        value=100 * waits,
        way=(
            "A matrix takes as much computing for a token as it has numbers, times six. So compare numbers.",
            f"{blocks} blocks have {blocks} × {block:,.1f} = {blocks * block:,.0f} million. The head has {head:,.0f} "
            "million more.",
            f"The last stage has {blocks * block + head:,.0f} million. The others wait for {head:,.0f} of them.",
            f"{head:,.0f} / {blocks * block + head:,.0f} = {said(100 * waits, '%')}.",
        ),
        slips=(
            Wrong(100 * head / (blocks * block), "The last stage is longer by so much. Which time is the whole here?"),
            Wrong(100 * head / (model.layers * block + head), "That is a share of the whole model, not of one stage."),
            Wrong(100 * (1 - waits), "Such a stage works for so long. The question is how long it waits."),
        ),
        sources=(
            sizes_source(model),
            "Llama 3 405B has one block less in its first and in its last stage: arXiv 2407.21783, section 3.3.",
        ),
    )


@problem("06.network", "How slow may the links be?", unit="GB/s")
def _network(draw: random.Random) -> Posed:
    name, counts = draw.choice(
        (
            ("llama-2-13b", (4, 8)),
            ("llama-3-70b", (16, 20, 40)),
            ("gpt-3-175b", (48, 96)),
            ("llama-3-405b", (126,)),
        )
    )
    model, stages, share = MODELS[name], draw.choice(counts), draw.choice((0.01, 0.02, 0.05, 0.1))
    flops_per_s = draw.choice((350e12, 400e12, 450e12))
    computes_us = 6 * model.parameters / flops_per_s * 1e6
    sent_mb = 2 * (stages - 1) * 2 * model.hidden / 1e6
    needed = sent_mb / (computes_us * share) * 1e3
    return Posed(
        text=f"{sized(model)} is cut in {stages} stages, one to a GPU. It is {model.hidden:,} wide, and {_NAIVE} A "
        f"GPU at work computes {flops_per_s / 1e12:.0f} TFLOP/s, with six operations for each parameter and token. "
        "What crosses a cut is bfloat16, and nobody computes meanwhile. Latency is left out. All the moving may take "
        f"{100 * share:.0f} % of the time of all the computing. How fast must each link be at least?",
        value=needed,
        way=(
            f"Computing takes 6 × {model.parameters / 1e9:.2f} × 10⁹ / {flops_per_s / 1e12:.0f} TFLOP/s = "
            f"{said(computes_us, 'µs')} for a token, one GPU after the other.",
            f"A token crosses {stages - 1} cuts, there and back: 2 × {stages - 1} × {model.hidden:,} × 2 bytes = "
            f"{said(sent_mb, 'MB')}.",
            f"{100 * share:.0f} % of the computing are {said(computes_us * share, 'µs')}. The batch does not matter, "
            "as both grow with it.",
            f"{said(sent_mb, 'MB')} / {said(computes_us * share, 'µs')} = {said(needed, 'GB/s')}.",
        ),
        slips=(
            Wrong(needed / 2, "Something comes back over each cut as well."),
            Wrong(needed * stages, "Computing is not over after one stage. All of them compute, one after the other."),
            Wrong(needed / (stages - 1), "That is one cut. A batch crosses all of them, one after the other."),
            Wrong(needed * 3, "Two operations are forward's. Both ways are moved, and both passes computed."),
        ),
        sources=(sizes_source(model),),
    )


@problem("06.copies", "One matrix in two places", unit="times")
def _copies(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("gpt-2-xl", "llama-3.2-1b", "gpt-3-175b"))]
    tokens, (word, num_bytes) = draw.choice([2**i for i in range(10, 17)]), draw.choice(_NUMBERS)
    table_mb = model.embedding_parameters * num_bytes / 1e6
    crossed_mb = 2 * tokens * model.hidden * 2 / 1e6
    return Posed(
        text=f"{model.name} is {model.hidden:,} wide, and one matrix of {model.vocab:,} × {model.hidden:,} is tied. "
        f"The first stage looks {tokens:,} tokens up in it, and the last scores with it. After backward each of the "
        f"two sends the other its gradient of the matrix, in {word}, both at the same time. At a cut between blocks "
        "an activation and its gradient cross in bfloat16, one after the other. All links are equal, with full speed "
        "each way, and latency is left out. How many times as long as one cut's messages do the tied gradients take?",
        value=table_mb / crossed_mb,
        way=(
            f"Each gradient of the matrix has {model.vocab:,} × {model.hidden:,} × {num_bytes} bytes = "
            f"{said(table_mb, 'MB')}. They pass each other, so that counts once.",
            f"Across a cut go 2 × {tokens:,} × {model.hidden:,} × 2 bytes = {said(crossed_mb, 'MB')}, there and back.",
            f"On equal links times are as bytes: {said(table_mb, 'MB')} / {said(crossed_mb, 'MB')} = "
            f"{said(table_mb / crossed_mb, 'times')}.",
        ),
        slips=(
            Wrong(2 * table_mb / crossed_mb, "Count again what goes one after the other, and what at the same time."),
            Wrong(crossed_mb / table_mb, "That is the other way round."),
            Wrong(num_bytes / 4, "You have counted rows of tokens. The gradient has all rows of the matrix."),
        ),
        sources=(sizes_source(model),),
    )


@problem("06.offload", "Cut it, or move the states out?", unit="tokens")
def _offload(draw: random.Random) -> Posed:
    name, stages = draw.choice((("llama-2-7b", 2), ("llama-3-8b", 2), ("llama-2-13b", 3), ("llama-2-13b", 4)))
    model = MODELS[name]
    kind, rates, speeds = draw.choice((("A100", (110, 125, 140), (20, 25)), ("H100", (350, 400, 450), (40, 50))))
    rate, copies = draw.choice(rates), draw.choice(speeds)
    billions = model.parameters / 1e9
    copied_s, token_us = 24 * billions / copies, 6 * billions / rate * 1e3
    tokens = copied_s * 1e6 / (token_us * (stages - 1))
    return Posed(
        text=f"{sized(model)} is too large for one {kind}. You may cut it in {stages} stages, without a pipeline: one "
        "GPU computes at a time, and messages take no time. Or each GPU trains alone with offload. The host keeps "
        "AdamW's states and the master weights, 12 bytes a parameter. In each step they come to the GPU and then go "
        f"back, at {copies} GB/s, and nobody computes meanwhile. A GPU at work computes {rate} TFLOP/s, six operations "
        "for each parameter and token. From how many tokens in a step on does a GPU with offload train more "
        "tokens a second than one of the cut job?",
        value=tokens,
        way=(
            f"A token takes 6 × {billions:.2f} × 10⁹ / {rate} TFLOP/s = {said(token_us, 'µs')} of computing.",
            f"In the cut job that keeps {stages} GPUs for as long, so {stages - 1} × {said(token_us, 'µs')} of each "
            "token are lost by waiting.",
            f"Offload loses 2 × 12 × {billions:.2f} × 10⁹ bytes / {copies} GB/s = {said(copied_s, 's')} in each step, "
            "however many tokens it has.",
            f"Both lose as much at {said(copied_s, 's')} / {said(token_us * (stages - 1), 'µs')} = "
            f"{said(tokens, 'tokens')}. Accumulation reaches more without more memory.",
        ),
        slips=(
            Wrong(tokens / 2, "The states come, and they go back as well."),
            Wrong(tokens * 16 / 12, "Weights and gradients stay on the GPU. What does the host keep?"),
            Wrong(tokens * 3, "Two operations are forward's. Backward keeps the other GPUs waiting, too."),
        ),
        sources=(sizes_source(model),),
    )


PROBLEMS = (_crosses, _whole, _rate, _head, _network, _copies, _offload)
