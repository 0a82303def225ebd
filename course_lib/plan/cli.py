"""``course plan``: every way to cut one model onto a cluster, ranked, with its memory and time, and why not the others.

    course plan --model llama-3-8b --machine 8xh100 --nodes 4 --batch 512 --seq 8192

A layout is written as tp8 pp2 dp4 mb1: eight ranks share each layer (tensor), two stages share the layers (pipeline),
four ranks share the batch (data), and a rank takes one sequence at a time (micro-batch). cp2: two ranks share each
sequence (context); v2: two chunks a stage, interleaved; zero1, 2, 3: optimizer states, gradients, weights shared out on
the data axis (zero3/8: among 8 neighbours); sp: sequence parallel; selective, full: what of the activations is computed
again. ``--layout "tp=8 pp=2"`` asks about layouts like that alone.

Times come from a model with eight constants, fitted to runs that others published (``course bench published``). Expect
5 to 10 % where GPUs and program are like those, and more elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Print the plan; 0 where something runs, 1 where nothing does, 2 for a wish that cannot be understood."""
    options = _parser().parse_args(list(arguments))
    try:
        from course_lib.plan.command import plan  # with numpy, which --help does without

        return plan(options)
    except ValueError as error:
        print(f"course plan: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, help="llama-3-8b and others, or the path of a config.json")
    parser.add_argument("--machine", default="8xh100", help="a machine by name (default 8xh100)")
    parser.add_argument("--nodes", type=int, default=1, help="how many such machines (default 1)")
    parser.add_argument("--gpus", type=int, help="how many GPUs of them, in place of --nodes")
    parser.add_argument("--batch", type=int, required=True, help="sequences a step, over all GPUs")
    parser.add_argument("--seq", type=int, required=True, help="tokens a sequence")
    parser.add_argument(
        "--memory", type=float, metavar="GB", help="a limit below what a GPU has, in 1e9 bytes"
    )
    parser.add_argument("--tokens", type=float, help="of the whole training: adds days and energy")
    parser.add_argument("--days", type=float, help="a limit on the days of --tokens")
    parser.add_argument("--price", type=float, help="of one GPU for an hour: adds the cost")
    parser.add_argument("--offload", action="store_true", help="optimizer states in the host's memory")
    parser.add_argument("--profile", help="constants of one cluster, by name (default: typical of the GPU)")
    parser.add_argument("--layout", help='only layouts like this, as in "tp=8 pp=2 mb=1 zero=1"')
    parser.add_argument("--top", type=int, default=10, help="how many layouts to print (default 10)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="also keep the plan in this file")
    return parser
