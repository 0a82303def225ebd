"""``course plan``: every way to cut one model onto a cluster, ranked, with its memory and time, and why not the others.

An example
    course plan --model llama-3-8b --machine 8xh100 --nodes 4 --batch 512 --seq 8192

    asks how to train Llama 3 8B on four machines of eight H100, 512 sequences of 8,192 tokens in each step. The page
    has the fastest layouts, where the time and the memory of the first one go, why others were refused, and advice.

    --tokens 15T --price-per-gpu-hour 2     adds days, energy and cost of the whole training
    --max-gpus 256 --tokens 15T --days 90   how many GPUs it takes to be done in 90 days
    --layout "tp=8 pp=2"                    asks about layouts like that alone, and why they do not run
    --why "tp8 pp2 zero1"                   takes one layout apart, line by line, with the formula of each part
    --from rank0.json                       takes what products and collectives reached from your own trace
    --compare "tp8" "tp4 pp2"               sets two side by side, and says what makes the difference
    --pick 2 --type torchtitan              what to type for the second layout
    --picture plan.png --json plan.json     the same to look at, and for programs

A layout is written as tp8 pp2 dp4 mb1 zero1 sp
    tp8        eight GPUs share each product of matrices (tensor parallelism, lesson 08)
    sp         and share out the positions between products (sequence parallelism, 08)
    cp2        two GPUs share each sequence (context parallelism, lesson 10)
    pp2        two stages share the layers (pipeline parallelism, lesson 07); v4: interleaved, 4 virtual stages a rank
    dp4        four parts of the batch, a copy of the model for each (data parallelism, lesson 04)
    zero1      the copies share out optimizer states; zero2 gradients too, zero3 weights too (FSDP, lesson 05);
               zero3/8: among 8 neighbours, with copies of that (hybrid sharding)
    ep8        eight GPUs of the data axis share out the experts (expert parallelism, lesson 10)
    etp1       and have a mesh of their own: then ep counts GPUs of tp, cp and dp of a stage, and etp of them cut each
               expert (parallel folding, 10f); looked at where it is asked for, as in --layout "etp=1"
    mb1        a micro-batch of one sequence goes through at a time; gradients add up until the batch is done
               (1, 2, 4, 8 and 16 are tried; --layout "mb=32" asks about another)
    selective  every second product is computed again in backward; full: whole layers are (lesson 01)
    offload    optimizer states stay in the host's memory
The GPUs are tp x cp x pp x dp. MFU is the model's own arithmetic beside what the GPUs could have done by their data
sheet. Exposed is communication that does not hide behind arithmetic.

Times come from a model with eight constants, fitted to runs that others published. Each stands with its band: between
these times 8 of 10 published runs lay, where constants had been fitted to other clusters (`course bench published`).
The page names the layouts that are a tie. A plan fills at most 93 % of a GPU's memory: runs that fill more were found
to get slow.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

__all__ = ["parse"]

_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in a sentence, as all else here does, and not by ending the program."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}. `course plan --help` has an example.")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; ValueError for a word that is none, and for a number that is none."""
    parser = _Parser(
        prog="course plan",
        usage="course plan --model NAME --machine NAME [--nodes N] --batch N --seq N [more]",
        description=(__doc__ or "").replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _model(parser.add_argument_group("the model: by name, by a file, or by sizes").add_argument)
    _cluster(parser.add_argument_group("the cluster").add_argument)
    _job(parser.add_argument_group("the job").add_argument)
    _limits(parser.add_argument_group("limits, and ways of a step").add_argument)
    _shown(parser.add_argument_group("what is shown").add_argument)
    return parser.parse_args(list(arguments))


def _model(option: Callable[..., object]) -> None:
    option("--model", metavar="NAME", help="llama-3-8b, mixtral-8x7b and others (any other name lists them), or the "
           "path of a config.json")  # fmt: skip
    option("--config", metavar="FILE", help="a Hugging Face config.json")
    option(
        "--sizes", metavar="WORDS", help='sizes by hand, as in "layers=32 hidden=4096 heads=32 kv_heads=8 ffn=14336 '
        'vocab=32000 gated"; experts=8 experts_per_token=2 for experts; beside --model they change it',
    )  # fmt: skip


def _cluster(option: Callable[..., object]) -> None:
    option("--machine", metavar="NAME", default="8xh100", help="8xh100 (the default), 8xa100, h200 and others (any "
           "other name lists them), or the file that calibrate() keeps: then the plan is for that machine")  # fmt: skip
    option("--nodes", metavar="N", type=_whole, help="how many such machines (default 1)")
    option("--gpus", metavar="N", type=_whole, help="how many GPUs of such machines, in place of --nodes")
    option("--max-gpus", metavar="N", type=_whole, help="the most GPUs to look at. Tries 1, 2, 4 and so "
           "on, and plans for the fewest that meet --days, or for the fastest")  # fmt: skip
    option("--network-gbit", metavar="N", type=_number, help="what one node can send to others, in "
           "Gbit/s, if the network is not that of the machine's maker: 25 for Ethernet of 25 Gbit/s")  # fmt: skip
    option("--profile", metavar="NAME", help="constants of one cluster, from its published runs "
           "(default: typical of clusters with this GPU)")  # fmt: skip
    option("--from", metavar="FILE", dest="own_file", type=Path, help="a trace of torch.profiler from a "
           "job on this machine, or the file that calibrate() keeps. Its numbers replace typical ones, and the "
           "page names them")  # fmt: skip


def _job(option: Callable[..., object]) -> None:
    option("--dtype", metavar="NAME", default="bfloat16", help="the type of the layers' matrices: "
           "bfloat16 (the default), or float8 where the GPU has a rate for it")  # fmt: skip
    option("--batch", metavar="N", type=_whole, required=True, help="sequences a step, over all GPUs")
    option("--seq", metavar="N", type=_whole, required=True, help="tokens a sequence")


def _limits(option: Callable[..., object]) -> None:
    option("--memory", metavar="GB", type=_number, help="the most memory of one GPU to use, in 1e9 bytes")
    option(
        "--tokens",
        metavar="N",
        type=_number,
        help="tokens of the whole training, as in 1e12 or 15T: adds days and energy",
    )
    option("--days", metavar="N", type=_number, help="the most days that training on --tokens may take")
    option("--price-per-gpu-hour", metavar="N", type=_number, help="adds the cost of training on --tokens")
    option(
        "--watts",
        metavar="N",
        type=_number,
        help="power of one GPU (default: its data sheet's); hosts need more on top",
    )
    option("--offload", action="store_true", help="keep optimizer states in the host's memory")
    option("--layout", metavar="WORDS", help='only layouts like this, as in "tp=8 pp=2 mb=1 zero=1", with dp, cp, ep, '
           "etp, v, shard and recompute")  # fmt: skip


def _shown(option: Callable[..., object]) -> None:
    option("--top", metavar="N", type=_whole, default=10, help="how many layouts to print (default 10)")
    option("--brief", action="store_true", help="leave out the meanings of words, and why other layouts do not run")
    option("--pick", metavar="N", type=_whole, default=1, help="the layout to look at, by its number (default 1)")
    option(
        "--type",
        metavar="PROGRAM",
        help="what to type for it: course, torchtitan, megatron, deepspeed or all",
    )
    option("--why", metavar="LAYOUT", help="in place of the page: each part of this layout's step and "
           "memory, with its formula")  # fmt: skip
    option("--compare", metavar="LAYOUT", nargs=2, help="in place of the page: two layouts side by side")
    option("--picture", metavar="FILE", type=Path, help="draw the first layouts into this .png or .svg")
    option(
        "--json",
        metavar="FILE",
        type=Path,
        help="keep the whole plan in this file, as JSON; - prints it in place of the page",
    )


def _whole(word: str) -> int:
    try:
        return int(word.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number, such as 8192") from None


def _number(word: str) -> float:
    """A number above zero, with k, M, B or T for thousands and so on."""
    text = word.replace(",", "").replace("_", "").strip().lower()
    unit = _UNITS.get(text[-1:])
    try:
        value = float(text if unit is None else text[:-1]) * (unit or 1.0)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(
            f"{word} is not a number above zero, such as 80 or 1e12 (k, M, B and T stand for thousand, million, "
            "billion and trillion)"
        )
    return value
