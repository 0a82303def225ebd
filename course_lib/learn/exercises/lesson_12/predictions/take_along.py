"""Part d of lesson 12: scripts, variables, and a look at a new cluster before it is used."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence

from course_lib.examples.preflight.judge_speed import Pair, slow_links
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.take_along import DryRun

__all__ = ["TAKE_ALONG"]

_STARTED = ("1 torchrun, 16 ranks", "2 torchruns, 2 ranks", "2 torchruns, 16 ranks", "16 torchruns, 16 ranks")
_KILLERS = (
    "torchrun: it gives ranks 30 seconds, and they take longer",
    "srun: a SIGTERM to it ends its step",
    "Slurm: the time was up before the signal came",
    "the ranks: they do not handle SIGTERM",
)
_UNSAID = ("1", "2", "torchrun ends: --nnodes is missing")
_SICK = (
    "the link between two ranks",
    "rank 0",
    "rank 1",
    "rank 2",
    "rank 3",
    "nothing: all links are like that",
)


def _started(run: DryRun) -> Explanation:
    """From the dry run of the script as it stands."""
    one, tasks, _, each = _STARTED
    count = len(run.agents)
    return Explanation(
        measured=f"{count} torchrun{'s' * (count != 1)}, {run.num_ranks} ranks",
        label="in the dry run",
        because=f"srun starts as many tasks as nodes times tasks a node: {count}. Each is a torchrun, and each of them "
        f"starts {run.agents[0].num_ranks} ranks, one for each GPU of its node. The script itself runs once, on the "
        "first node; without srun there would be no torchrun on any other.",
        misreadings={
            one: "That would be so if the script called torchrun without srun. The script runs on the first node "
            "alone, and the other node would be idle.",
            tasks: "Those are the tasks. torchrun turns each of them into several ranks.",
            each: "That would be so with eight tasks on a node, and each torchrun with a single rank. Count the tasks.",
        },
    )


def _tasks(run: DryRun) -> Explanation:
    """From the dry run with eight tasks a node."""
    host = run.agents[0].host
    agents = [agent for agent in run.agents if agent.host == host]
    ranks = sum(agent.num_ranks for agent in agents)
    each = agents[0].num_ranks
    return Explanation(
        measured=ranks,
        label="in the dry run",
        because=f"{len(agents)} torchruns on a node, of {each} ranks each. And each says `--nnodes "
        f"{agents[0].read.nnodes}`: so the first {agents[0].read.nnodes} agents that arrive make up a job. Perhaps "
        "both are on the same node, where their ranks use the same GPUs. The others wait until they give up, after "
        "some minutes. No line of the log says that there are too many. Let either torchrun or Slurm start the ranks "
        "of a node, not both.",
        misreadings={
            each: "He wanted that. But two programs each start eight, and one starts the other.",
            len(run.agents): "Those are the torchruns on all nodes.",
            2 * each: "You added the two numbers. But each of the eight tasks starts eight.",
            len(agents) * len(run.agents): "Those are the ranks of both nodes.",
        },
    )


def _killed(steps: Sequence[str]) -> Explanation:
    """From the dry run of his script near its limit."""
    slow, srun, late, deaf = _KILLERS
    return Explanation(
        measured=srun if any(line.startswith("srun got SIGTERM") for line in steps) else late,
        label="in the dry run",
        because="`$step` is the process number of srun. srun hands some signals on. But at SIGTERM srun ends itself: "
        '"forcing job termination". Slurm then kills the processes of the step, and no rank gets a signal before that. '
        "And srun's process number does not reach ranks on other machines: Slurm's daemons start those. "
        "The course's own script had this fault, until it ran on a real Slurm.",
        misreadings={
            slow: "Those 30 seconds begin when torchrun gets the signal. It would say so in the log, and has not.",
            late: "The signal came five minutes early, and the job has ended in the same second.",
            deaf: "They do: on SIGTERM `train_ddp` finishes its step and saves. But here they did not get a SIGTERM.",
        },
    )


def _unsaid(here: Namespace, there: Namespace) -> Explanation:
    """From torchrun's parser without and with Trainer's variables."""
    one, _, refuses = _UNSAID
    return Explanation(
        measured=there.nnodes,
        label="by torchrun's parser",
        because="Each option of torchrun may also be set by a variable: PET_ and the option's name. Trainer sets "
        f"PET_NNODES={there.nnodes} and the others, so the command in the file stays the same for any number of "
        f"nodes. Without them the same words mean --nnodes {here.nnodes}, with {here.nproc_per_node} rank. An "
        "option on the command line would win.",
        misreadings={
            one: "That would be so if you typed this command yourself. In the pod there are environment variables as "
            "well.",
            refuses: "--nnodes has a default: one node.",
        },
    )


def _sheet(between_gbit: float) -> Explanation:
    """From what the card is sold as."""
    rate = between_gbit / 8
    return Explanation(
        measured=round(rate, 1),
        label="computed",
        because=f"A byte has 8 bits: {rate:.0f} GB/s, in each direction. Bus bandwidth (02) has the factor 2(n-1)/n in "
        "it, so that it can be compared with a link, for any number of ranks. Good clusters reach 80 to 95 % of "
        "it with messages of some hundred MB; below 60 % `preflight` says `look`. Where "
        "switches add up (SHARP, 02a) each byte is sent once, and bus bandwidth can show up to twice the card. And one "
        "card for each of 8 GPUs is eight times this for the node. Ask the seller whether there is a card for each "
        "GPU or one for the machine.",
        misreadings={
            between_gbit: "Networks are sold in bits, memory and messages are counted in bytes.",
            rate / 2: "An all-reduce does send twice the message, and bus bandwidth counts all that is sent.",
            2 * rate: "A card sends and receives at this rate at once. Bus bandwidth counts one direction.",
        },
    )


def _cable(links: Mapping[tuple[int, int], tuple[float, float]]) -> Explanation:
    """From latency and bandwidth of every pair."""
    slow = slow_links(links)
    ranks = sorted({rank for pair in links for rank in pair})
    sick = [rank for rank in ranks if slow and all(pair in slow for pair in links if rank in pair)]
    nothing, pair_of_ranks = _SICK[-1], _SICK[0]
    measured = f"rank {sick[0]}" if len(sick) == 1 else pair_of_ranks if slow else nothing
    return Explanation(
        measured=measured,
        because=_why_sick(links, slow, sick) if slow else "No pair stands out.",
        misreadings=_innocent(measured) if slow else {},
    )


def _why_sick(links: Mapping[Pair, tuple[float, float]], slow: Sequence[Pair], sick: Sequence[int]) -> str:
    """What the slow pairs say, with what other programs of this machine may have added to them."""
    if len(sick) != 1:
        seen = ", ".join(f"{a}-{b}" for a, b in sorted(slow))
        are = "pair is" if len(slow) == 1 else "pairs are"
        return f"The slow {are} {seen}. A bad card would make all links of one rank slow."
    own = sorted(pair for pair in slow if sick[0] in pair)
    fast = [rate for pair, (_, rate) in links.items() if pair not in slow]
    others = ", ".join(f"{a}-{b}" for a, b in sorted(set(slow) - set(own)))
    alone = (
        f"({others} stands out as well; it may have waited for a core of this machine.)"
        if others
        else "No pair without it is slow."
    )
    return (
        f"The slow pairs are {', '.join(f'{a}-{b}' for a, b in own)}: at most "
        f"{max(links[pair][1] for pair in own) / 1e6:.0f} MB/s, where others reach {max(fast, default=0.0) / 1e6:.0f}. "
        f"Rank {sick[0]} is in all of them. {alone} One bad card or cable explains all of this. In an all-reduce it "
        "slows all ranks, and no rank's own log shows it."
    )


def _innocent(measured: str) -> dict[str, str]:
    """A sentence for every choice but the right one."""
    told = {rank: f"Look for a pair with {rank} in it that is fast." for rank in _SICK[1:-1]}
    told[_SICK[0]] = "One link would make one pair slow. Count the slow ones."
    told[_SICK[-1]] = "Half of the pairs are many times faster than the other half."
    return {choice: text for choice, text in told.items() if choice != measured}


TAKE_ALONG: tuple[Asked, ...] = (
    Asked(
        name="12.started",
        question="Two nodes of eight GPUs, one task on each node: what starts in all?",
        choices=_STARTED,
        tell=_started,
    ),
    Asked(
        name="12.tasks",
        question="Eight tasks a node, and the rest as it was: ranks on each node?",
        unit="ranks",
        tell=_tasks,
        low=1,
        high=1000,
    ),
    Asked(
        name="12.killed",
        question="What ended the ranks before they could save?",
        choices=_KILLERS,
        tell=_killed,
    ),
    Asked(
        name="12.unsaid",
        question="torchrun -m train_ddp in a pod: how many nodes?",
        choices=_UNSAID,
        tell=_unsaid,
    ),
    Asked(
        name="12.sheet",
        question="A card of 400 Gbit/s for each rank, rings: the highest bus bandwidth?",
        unit="GB/s",
        tell=_sheet,
        high=10_000,
    ),
    Asked(name="12.cable", question="What is faulty?", choices=_SICK, tell=_cable),
)
