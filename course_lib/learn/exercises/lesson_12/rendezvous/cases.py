"""The agents on which 12.rendezvous is tried: one thing is wrong with most groups, and nothing with some."""

from __future__ import annotations

__all__ = ["CASES"]

Agents = list[dict[str, str]]


def _agents(*rows: str) -> Agents:
    """From rows "address endpoint id nnodes"; the nodes are called n0, n1, ... as they come."""
    keys = ("address", "endpoint", "rdzv_id", "nnodes")
    return [{"node": f"n{number}", **dict(zip(keys, row.split(), strict=True))} for number, row in enumerate(rows)]


def _named(agents: Agents, *names: str) -> Agents:
    return [{**agent, "node": name} for agent, name in zip(agents, names, strict=True)]


CASES: dict[str, Agents] = {
    "two agents that agree": _agents("10.0.0.1 10.0.0.1:29500 a 2", "10.0.0.2 10.0.0.1:29500 a 2"),
    "the host comes last": _agents("10.0.0.7 10.0.0.2:29500 a 2", "10.0.0.2 10.0.0.2:29500 a 2"),
    "two ids": _agents("10.0.0.1 10.0.0.1:29500 a 2", "10.0.0.2 10.0.0.1:29500 A 2"),
    "two ports": _agents("10.0.0.1 10.0.0.1:29500 a 2", "10.0.0.2 10.0.0.1:29501 a 2"),
    "an endpoint at a node that has no agent": _agents("10.0.0.1 10.0.0.9:29500 a 2", "10.0.0.2 10.0.0.9:29500 a 2"),
    "loopback on both nodes": _agents("10.0.0.1 127.0.0.1:29500 a 2", "10.0.0.2 127.0.0.1:29500 a 2"),
    "loopback on the other node": _agents("10.0.0.1 10.0.0.1:29500 a 2", "10.0.0.2 localhost:29500 a 2"),
    "loopback on the host alone": _agents("10.0.0.1 localhost:29500 a 2", "10.0.0.2 10.0.0.1:29500 a 2"),
    "both names of the loopback": _agents("10.0.0.1 localhost:4000 a 1:3", "10.0.0.2 127.0.0.1:4000 a 1:3"),
    "a host without a port": _agents("10.0.0.1 10.0.0.1 a 2", "10.0.0.2 10.0.0.1:29400 a 2"),
    "endpoints without ports": _agents(
        "10.0.0.1 localhost a 2:3", "10.0.0.2 10.0.0.1 a 2:3", "10.0.0.3 localhost a 2:3"
    ),
    "an endpoint that begins like an agent's address": _agents(
        "10.0.0.1 10.0.0.12:29500 a 2", "10.0.0.2 10.0.0.12:29500 a 2"
    ),
    "an endpoint without a port, and one with another": _agents("10.0.0.1 10.0.0.1 a 2", "10.0.0.2 10.0.0.1:29500 a 2"),
    "nnodes that differ": _agents(
        "10.0.0.1 10.0.0.1:29500 a 2", "10.0.0.2 10.0.0.1:29500 a 3", "10.0.0.3 10.0.0.1:29500 a 3"
    ),
    "two ways to write nnodes": _agents("10.0.0.1 10.0.0.1:29500 a 2", "10.0.0.2 10.0.0.1:29500 a 2:2"),
    "one least number, two greatest": _agents(
        "10.0.0.1 10.0.0.1:29500 a 2:3", "10.0.0.2 10.0.0.1:29500 a 2:4", "10.0.0.3 10.0.0.1:29500 a 2:4"
    ),
    "two of one to four": _agents("10.0.0.1 10.0.0.1:29500 a 1:4", "10.0.0.2 10.0.0.1:29500 a 1:4"),
    "two of three to four": _agents("10.0.0.1 10.0.0.1:29500 a 3:4", "10.0.0.2 10.0.0.1:29500 a 3:4"),
    "four for two places": _agents(
        "10.0.0.4 10.0.0.1:29500 a 2",
        "10.0.0.1 10.0.0.1:29500 a 2",
        "10.0.0.2 10.0.0.1:29500 a 2",
        "10.0.0.3 10.0.0.1:29500 a 2",
    ),
    "five for one to three places": _agents(
        "10.0.0.1 10.0.0.1:29500 a 1:3",
        "10.0.0.2 10.0.0.1:29500 a 1:3",
        "10.0.0.3 10.0.0.1:29500 a 1:3",
        "10.0.0.4 10.0.0.1:29500 a 1:3",
        "10.0.0.5 10.0.0.1:29500 a 1:3",
    ),
    "two jobs on one store": _agents(
        "10.0.0.1 10.0.0.1:29500 a 2",
        "10.0.0.3 10.0.0.1:29500 b 3",
        "10.0.0.2 10.0.0.1:29500 a 2",
        "10.0.0.4 10.0.0.1:29500 b 3",
        "10.0.0.5 10.0.0.1:29500 b 3",
    ),
    "another job's store": _agents(
        "10.0.0.1 10.0.0.1:29500 a 1", "10.0.0.2 10.0.0.1:29500 b 2", "10.0.0.3 10.0.0.1:29500 b 2"
    ),
    "an agent that names another port than the one at its node": _agents(
        "10.0.0.1 10.0.0.1:29500 a 1", "10.0.0.2 10.0.0.1:29600 b 1"
    ),
    "names that are no numbers": _named(
        _agents(
            "10.0.0.9 10.0.0.8:1234 run 2:3",
            "10.0.0.8 10.0.0.8:1234 run 2:3",
            "10.0.0.7 localhost:1234 run 2:3",
        ),
        "trainer-b",
        "trainer-a",
        "login",
    ),
    "one agent": _agents("10.0.0.1 localhost:29500 a 1"),
    "ten or more nodes": _agents(*(f"10.0.0.{n} 10.0.0.12:29500 a 10:12" for n in range(1, 15))),
    "nine nodes where ten are needed": _agents(*(f"10.0.0.{n} 10.0.0.1:29500 a 10:12" for n in range(1, 10))),
    "eleven nodes where nine are enough": _agents(*(f"10.0.0.{n} 10.0.0.1:29500 a 9:11" for n in range(1, 12))),
    "all sorts at once": _agents(
        "10.0.0.2 10.0.0.1 a 2:3",
        "10.0.0.1 localhost:29400 a 2:3",
        "10.0.0.3 localhost a 2:3",
        "10.0.0.4 10.0.0.1:29400 b 1",
        "10.0.0.5 10.0.0.9 a 2:3",
        "10.0.0.6 10.0.0.1 a 2:3",
        "10.0.0.7 10.0.0.1 a 2:3",
        "10.0.0.8 10.0.0.1:29401 a 2:3",
    ),
    "no agents": [],
}
