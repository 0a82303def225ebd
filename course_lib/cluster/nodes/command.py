"""``course nodes up``, ``status`` and ``down``: other machines on which this user's notebooks have ranks."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from course_lib.base.paths import library_folder
from course_lib.base.text import counted
from course_lib.cluster.nodes.addresses import address_towards, checked_address, where_ssh_goes
from course_lib.cluster.nodes.allocation import allocate, release
from course_lib.cluster.nodes.errors import NodeLost, NodesUnlike
from course_lib.cluster.nodes.facts import NodeFacts
from course_lib.cluster.nodes.found import meet
from course_lib.cluster.nodes.node_clock import NodeClock
from course_lib.cluster.nodes.record import VARIABLE, NodesRecord, record_path

__all__ = ["main"]

_MOST_LOCAL = 8
_MOST_APART_S = 2  # of two machines' times of day


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Gives 0 well, 1 where something did not go, 2 for a wrong command line."""
    args = _parser().parse_args(argv)
    try:
        if args.what == "up":
            return _up(args)
        return _status() if args.what == "status" else _down()
    except (NodesUnlike, NodeLost, ValueError, OSError) as error:
        print(f"course nodes {args.what}: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="course nodes", description="Other machines for the ranks of your notebooks.")
    verbs = parser.add_subparsers(dest="what", metavar="{up,status,down}", required=True)
    of_up = verbs.add_parser("up", help="check that they answer, and let your notebooks use them")
    where = of_up.add_mutually_exclusive_group(required=True)
    where.add_argument("--hosts", metavar="A,B", help="machines that ssh reaches without a password, in this order")
    where.add_argument("--local", type=int, metavar="N", help="N nodes that are all this machine, to try things out")
    where.add_argument("--slurm", action="store_true", help="ask Slurm for nodes, and wait; `down` gives them back")
    of_up.add_argument("--nodes", type=int, metavar="N", help="how many nodes to ask Slurm for (default: 2)")
    of_up.add_argument(
        "--gpus-per-node", type=int, metavar="N", help="GPUs of each node to ask Slurm for (default: none)"
    )
    of_up.add_argument(
        "--slurm-option", action="append", default=[], metavar="TEXT", help="passed on to salloc; may be repeated"
    )
    of_up.add_argument(
        "--address", default="", help="the address by which the hosts reach this machine (default: by its network)"
    )
    of_up.add_argument("--python", default=sys.executable, metavar="PATH", help="the Python there (default: as here)")
    of_up.add_argument("--clone", default="", metavar="FOLDER", help="the course's folder there (default: as here)")
    of_up.add_argument(
        "--ssh-option",
        action="append",
        default=[],
        metavar="TEXT",
        help="passed on to ssh, as =-p2222; may be repeated",
    )
    verbs.add_parser("status", help="which nodes there are, and whether they answer")
    verbs.add_parser("down", help="let your notebooks keep their ranks on this machine again")
    return parser


def _up(args: argparse.Namespace) -> int:
    path = record_path()
    if os.environ.get(VARIABLE) == "off":
        raise ValueError(f"{VARIABLE}=off keeps your notebooks on this machine; `unset {VARIABLE}` first")
    if path.exists():
        raise ValueError(
            "your notebooks have nodes already; `course nodes status` shows them, `course nodes down` lets them go"
        )
    record = _asked(args)
    try:
        print(_table(record, args.clone))
        record.write(path)
    except BaseException:
        _release(record)
        raise
    print("Cluster(n) and shared_cluster(n) in your notebooks now take them all, until `course nodes down`.")
    return 0


def _asked(args: argparse.Namespace) -> NodesRecord:
    if args.slurm:
        return _of_slurm(args)
    for name, given in (("--nodes", args.nodes), ("--gpus-per-node", args.gpus_per_node)):
        if given is not None:
            raise ValueError(f"{name} {given} is for --slurm; with --hosts leave it out")
    if args.slurm_option:
        raise ValueError(f"--slurm-option={args.slurm_option[0]} is for --slurm; ssh's options go by --ssh-option=")
    if args.hosts is None:
        if not 1 <= args.local <= _MOST_LOCAL:
            raise ValueError(f"--local {args.local} must be from 1 to {_MOST_LOCAL}; use 2")
        if args.address or args.clone or args.ssh_option or args.python != sys.executable:
            raise ValueError("--local takes no other option, for all its nodes are this Python here; leave them out")
        return NodesRecord(tuple(f"here-{number}" for number in range(args.local)), "127.0.0.1", starter="here")
    hosts = tuple(host.strip() for host in args.hosts.split(",") if host.strip())
    if not hosts or any(host.startswith("-") for host in hosts):
        raise ValueError(f"--hosts {args.hosts!r} names no machine; give such as --hosts a,b")
    if len(set(hosts)) < len(hosts):
        raise ValueError(f"--hosts {args.hosts!r} names a machine twice; name each once")
    address = checked_address(args.address) if args.address else _address_for(hosts[0], args.ssh_option)
    clone = args.clone or str(library_folder())
    return NodesRecord(hosts, address, args.python, clone, tuple(args.ssh_option))


def _of_slurm(args: argparse.Namespace) -> NodesRecord:
    if args.ssh_option:
        raise ValueError(f"--ssh-option={args.ssh_option[0]} is for --hosts; Slurm's nodes are reached by srun")
    nodes = 2 if args.nodes is None else args.nodes
    if nodes < 1:
        raise ValueError(f"--nodes {nodes} must be at least 1; use 2")
    if args.gpus_per_node is not None and args.gpus_per_node < 0:
        raise ValueError(f"--gpus-per-node {args.gpus_per_node} must be at least 0; leave it out for none")
    print(f"Slurm is asked for {counted(nodes, 'node')}; Ctrl-C takes that back.", flush=True)
    job, hosts = allocate(nodes, gpus_per_node=args.gpus_per_node or 0, options=args.slurm_option)
    print(f"job {job}: {', '.join(hosts)}")
    try:
        address = checked_address(args.address) if args.address else address_towards(hosts[-1])
    except BaseException:
        release(job)
        raise
    return NodesRecord(hosts, address, args.python, args.clone or str(library_folder()), starter="srun", job=job)


def _release(record: NodesRecord) -> None:
    if record.job:
        release(record.job)


def _address_for(host: str, ssh_options: Sequence[str]) -> str:
    try:
        return address_towards(where_ssh_goes(host, ssh_options))
    except ValueError as error:
        raise ValueError(f"{error}. If ssh reaches it, give this machine's address: --address ADDRESS") from None


def _status() -> int:
    record = NodesRecord.current()
    if record is None:
        print("Your notebooks have no nodes; their ranks are on this machine.")
    else:
        print(_table(record))
    return 0


def _down() -> int:
    path = record_path()
    had_some = path.exists()
    with contextlib.suppress(ValueError):  # what is no record goes as well
        if (record := NodesRecord.read(path)) is not None:
            _release(record)
    path.unlink(missing_ok=True)
    print("Your notebooks have no nodes any more. Ranks that are there end with their notebook." if had_some
          else "Your notebooks had no nodes.")  # fmt: skip
    return 0


def _clock_words(clock: NodeClock) -> str:
    """A part of a sentence where its time of day is not ours; times of files, and of logs, are told by it."""
    apart_s = round(abs(clock.day_ahead_s))
    if apart_s <= max(_MOST_APART_S, clock.right_to_s):
        return ""
    where = "ahead of" if clock.day_ahead_s > 0 else "behind"
    return f"; its clock is {apart_s:,} s {where} this machine's: type `sudo timedatectl set-ntp true` on both"


def _table(record: NodesRecord, clone: str = "") -> str:
    """Meet the nodes, and say what they are. Raises ``ValueError`` where the course is not in ``clone`` there."""
    found = meet(record)
    elsewhere = [facts for node in found.nodes if (facts := node.facts) and not _has_clone(facts, clone)]
    lines = [f"this machine, as the nodes reach it: {record.address}"]
    for node in found.nodes:
        facts = node.facts
        assert facts is not None
        gpus = f"{facts.num_gpus} GPUs" if facts.num_gpus else "no GPU"
        folder = "" if facts.has_folder else "; your folder is not there, so its ranks work in the home folder"
        ports = "" if facts.shuts_ports else "; its system has no filter that could close the ports of its ranks"
        lines.append(
            f"  node {node.number}  {facts.host}: {facts.cores} cores, {gpus}, Python {facts.python}, "
            f"PyTorch {facts.torch}{folder}{ports}{_clock_words(node.clock)}"
        )
        node.hang_up()
    if elsewhere:
        facts = elsewhere[0]
        raise ValueError(
            f"--clone {clone} is no folder of the course on {facts.host}; the Python there has the course in "
            f"{' and '.join(facts.course_folders)}. Name that folder, or leave --clone out"
        )
    return "\n".join(lines)


def _has_clone(facts: NodeFacts, clone: str) -> bool:
    """Whether the course is in this folder there, which may be named from the home folder on; no name is no wish."""
    tail = os.path.normpath(clone)
    return not clone or any(one == tail or one.endswith(os.sep + tail) for one in facts.course_folders)
