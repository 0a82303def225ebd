"""Problems on paper of lesson 00: shards, messages and hangs at real size."""

from __future__ import annotations

import math
import random

from course_lib.cost.collectives.machines import MACHINES
from course_lib.learn.catalogue.problem_spec import Posed, Wrong, problem
from course_lib.learn.paper.model_sizes import sizes_source
from course_lib.learn.paper.typed import said
from course_lib.plan.inputs.models import MODELS

__all__ = ["PROBLEMS"]


@problem("00.latency", "From which size on is latency small?", unit="kB")
def _latency(draw: random.Random) -> Posed:
    machine = MACHINES[draw.choice(("8x V100", "8x A100", "8x H100", "8x B200"))]
    where, link = draw.choice((("two GPUs of one node", machine.intra), ("GPUs of two nodes", machine.inter)))
    share = draw.choice((0.05, 0.1, 0.2, 0.25))
    product_kb = link.latency_s * link.bandwidth_bytes_per_s / 1e3
    size_kb = (1 - share) / share * product_kb
    latency, rate = f"{link.latency_s * 1e6:.0f} µs", f"{link.bandwidth_bytes_per_s / 1e9:.4g} GB/s"
    return Posed(
        text=f"A message goes between {where} of the machine {machine.name}. The link carries {rate} in one "
        f"direction. Suppose that its latency is {latency}. How large must the message be, so that latency is only "
        f"{100 * share:.0f} % of its time?",
        value=size_kb,
        way=(
            f"Latency is {100 * share:.0f} % of the time, so the bytes take the other {100 - 100 * share:.0f} %.",
            f"The bytes take {100 - 100 * share:.0f} % / {100 * share:.0f} % = {(1 - share) / share:.3g} times as "
            f"long as the latency: {said((1 - share) / share * link.latency_s * 1e6, 'µs')}.",
            f"In that time {rate} carry {said(size_kb, 'kB')}.",
        ),
        slips=(
            Wrong(product_kb, "With that size, latency and bytes take equally long. Latency is then half of the time."),
            Wrong(share / (1 - share) * product_kb, "There the bytes are the small part of the time, and not latency."),
            Wrong(size_kb * 8, "The link's rate is in bytes each second. You have given bits."),
            Wrong(size_kb * 2, "The message goes one way. The rate in the text is that of one direction already."),
        ),
        sources=(machine.source, "Latency: a round number of the course."),
    )


@problem("00.fewest", "From how many GPUs on do the shards fit?", unit="GPUs")
def _fewest(draw: random.Random) -> Posed:
    model = MODELS[draw.choice(("gpt-3-175b", "llama-3-405b", "megatron-530b"))]
    machine = MACHINES[draw.choice(("8x A100", "8x H100", "8x H200"))]
    billions, memory_gb = round(model.parameters / 1e9, 2), round(machine.memory_bytes / 1e9, 1)
    free_gb, num_bytes = draw.choice((35, 45, 55, 60, 65)), draw.choice((2, 4))
    weights_gb = billions * num_bytes
    gpus = math.ceil(weights_gb / (memory_gb - free_gb))
    return Posed(
        text=f"{model.name} has {billions:.2f} billion weights of {num_bytes} bytes each. They are cut into equal "
        f"shards, one for each GPU. A GPU of the machine {machine.name} has {memory_gb} GB of memory, of which "
        f"{free_gb} GB must stay free for other things. Any number of GPUs will do, not only whole nodes. What is the "
        "smallest number of GPUs that holds the weights?",
        value=gpus,
        way=(
            f"All weights take {billions:.2f} × {num_bytes} = {said(weights_gb, 'GB')}.",
            f"A shard may take {memory_gb} − {free_gb} = {memory_gb - free_gb:.1f} GB.",
            f"{said(weights_gb, 'GB')} / {memory_gb - free_gb:.1f} GB = {weights_gb / (memory_gb - free_gb):.2f}, "
            f"rounded up: {gpus} GPUs.",
        ),
        slips=(
            Wrong(math.ceil(weights_gb / memory_gb), "Your shards fill the GPUs. Some memory has to stay free."),
            Wrong(
                math.ceil(weights_gb / (memory_gb - free_gb) / 8),
                "You have counted nodes of eight GPUs, and not GPUs.",
            ),
            Wrong(math.ceil(billions / (memory_gb - free_gb)), "You have counted one byte for each weight."),
        ),
        sources=(machine.source, sizes_source(model)),
    )


@problem("00.log", "How often to log the mean loss", unit="steps")
def _log(draw: random.Random) -> Posed:
    gpus, latency_us = draw.choice((512, 1024, 2048, 4096)), draw.choice((5, 6, 8, 10))
    step_ms = draw.choice((250, 300, 400, 500, 600))
    sum_ms = 2 * (gpus - 1) * latency_us / 1e3
    allowed_ms = step_ms / 1e3
    steps = math.ceil(sum_ms / allowed_ms)
    return Posed(
        text=f"A job has {gpus:,} ranks, and a step takes {step_ms} ms without any logging. To log the mean loss, all "
        f"ranks all-reduce one number around a ring. Suppose that a message takes {latency_us} µs, whatever its size, "
        f"and that nothing hides this time. Logging may add 0.1 % to the time of training. The job logs "
        "once in every k steps. What is the smallest k?",
        value=steps,
        way=(
            f"The ring passes on 2 × ({gpus:,} − 1) = {2 * (gpus - 1):,} messages, one after the other.",
            f"They take {2 * (gpus - 1):,} × {latency_us} µs = {said(sum_ms, 'ms')}.",
            f"For each step 0.1 % of {step_ms} ms are allowed, which is {said(allowed_ms, 'ms')}.",
            f"{said(sum_ms, 'ms')} / {said(allowed_ms, 'ms')} = {sum_ms / allowed_ms:.2f}, rounded up: {steps} steps.",
        ),
        slips=(
            Wrong(
                math.ceil(sum_ms / 2 / allowed_ms), "The partial sums go round once, and then the sum has to go too."
            ),
            Wrong(math.ceil(sum_ms / step_ms), "You have compared with a whole step, and not with the share allowed."),
            Wrong(
                sum_ms / allowed_ms / 10,
                "You have taken one per cent. The share that logging may add is smaller.",
            ),
        ),
    )


@problem("00.absent", "Who does not come to the last all-reduce?", unit="ranks")
def _absent(draw: random.Random) -> Posed:
    ranks, batch = draw.choice((256, 512, 1024)), draw.choice((4, 8, 16))
    full, sixteenths = draw.choice((120, 150, 180)), draw.choice((3, 4, 5, 6, 7, 9, 10, 11, 12))
    extra = ranks // 16 * sixteenths + draw.choice((1, 2, 3))
    items = ranks * batch * full + extra
    return Posed(
        text=f"{ranks:,} ranks share {items:,} texts by the rule of exercise 1. The blocks are as even as can be, and "
        f"the first ranks take one text more. Each rank goes once through its block in batches of {batch} texts, and a "
        "last batch may be shorter. In each batch the rank calls one all-reduce of all ranks. The job hangs in the "
        "last all-reduce. How many ranks do not come to it?",
        value=ranks - extra,
        way=(
            f"{items:,} / {ranks:,} is {batch * full:,}, and {extra} texts are left over.",
            f"So {extra} ranks have {batch * full + 1:,} texts, and the other {ranks - extra} have {batch * full:,}.",
            f"{batch * full:,} texts are {full} whole batches of {batch}. One text more is a batch more, of one text.",
            f"The {extra} ranks wait in that all-reduce. The other {ranks:,} − {extra} = {ranks - extra} ranks have "
            "ended, and do not come.",
        ),
        slips=(
            Wrong(extra, "These are the ranks that do come, and wait. The cause lies with the others."),
            Wrong(ranks - 1, "No rank takes all texts that are left over. The first ranks take one each."),
            Wrong(full, "That is the number of whole batches of a rank, and not a number of ranks."),
        ),
    )


@problem("00.watchdog", "How long may the watchdog wait?", unit="min")
def _watchdog(draw: random.Random) -> Posed:
    hangs, restart_min = draw.choice((6, 7, 8, 9, 10, 12)), draw.choice((2, 3, 4))
    percent, gpus = draw.choice((1, 1.5, 2)), draw.choice((512, 1024, 2048))
    week_min = 7 * 24 * 60
    lost_min = week_min * percent / 100
    limit_min = lost_min / hangs - restart_min
    return Posed(
        text=f"A job on {gpus:,} GPUs is to run day and night. Suppose that it hangs {hangs} times a week. Each time "
        "all GPUs wait until the watchdog ends the job at its time limit. Then the job starts again, which takes "
        f"{restart_min} min more. Work since the last checkpoint is left out. At most {percent} % of a week may be "
        "lost in this way. How long may the watchdog's time limit be?",
        value=limit_min,
        way=(
            f"A week has 7 × 24 × 60 = {week_min:,} min, of which {percent} % are {said(lost_min, 'min')}.",
            f"For each of {hangs} hangs that leaves {said(lost_min, 'min')} / {hangs} = "
            f"{said(lost_min / hangs, 'min')}.",
            f"The start takes {restart_min} min of it, so the limit is {said(limit_min, 'min')}. All GPUs wait at the "
            "same time, so their number does not matter.",
        ),
        slips=(
            Wrong(lost_min / hangs, "The start of the job is lost time too, after each hang."),
            Wrong(lost_min - restart_min, "That would be for a single hang in the week."),
            Wrong(limit_min + 2 * restart_min, "The start leaves less for the watchdog, and not more."),
            Wrong(
                lost_min / 7 / hangs, "The hangs are those of a week. You have taken the time that one day may lose."
            ),
        ),
        beside="Llama 3 405B met 419 unexpected interruptions in 54 days on up to 16,384 H100, of all kinds. "
        "Source: The Llama 3 Herd of Models, arXiv 2407.21783, 2024, section 3.3.4.",
    )


PROBLEMS = (_latency, _fewest, _log, _absent, _watchdog)
