"""Right answers to 12.rendezvous in other styles than the lesson's, and mutants of its solution that are as right."""

from __future__ import annotations

from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlsplit

__all__ = ["ANSWERS", "SAME"]

Agents = list[dict[str, str]]


class _Goal(NamedTuple):
    host: str
    port: int
    id: str
    least: int
    most: int


def by_tuples(agents: Agents) -> dict[str, str]:
    """A named tuple for what must be equal; each agent looks at all others."""
    goals = []
    for agent in agents:
        url = urlsplit(f"//{agent['endpoint']}")
        host = agent["address"] if url.hostname in ("localhost", "127.0.0.1") else url.hostname or ""
        numbers = [int(number) for number in agent["nnodes"].split(":")]
        goals.append(_Goal(host, url.port or 29400, agent["rdzv_id"], numbers[0], numbers[-1]))
    fates: dict[str, str] = {}
    for number, (agent, goal) in enumerate(zip(agents, goals, strict=True)):
        if not any(o[:2] == goal[:2] and a["address"] == o.host for a, o in zip(agents, goals, strict=True)):
            fates[agent["node"]] = "no store"
        elif goals.count(goal) < goal.least:
            fates[agent["node"]] = "too few"
        else:
            fates[agent["node"]] = "complete" if goals[:number].count(goal) < goal.most else "too many"
    return fates


def by_sorting(agents: Agents) -> dict[str, str]:
    """Sorted by what must be equal, then in groups."""

    def key(agent: dict[str, str]) -> tuple[Any, ...]:
        host, port = (agent["endpoint"] + ":29400").split(":")[:2]
        if host == "localhost" or host.startswith("127."):
            host = agent["address"]
        least, most = (agent["nnodes"] + ":" + agent["nnodes"]).split(":")[:2]
        return host, port, agent["rdzv_id"], int(least), int(most)

    opened = {key(agent)[:2] for agent in agents if key(agent)[0] == agent["address"]}
    fates: dict[str, str] = {}
    for (host, port, _, least, most), group in groupby(sorted(agents, key=key), key):
        names = [agent["node"] for agent in group]  # sorted() keeps the order of equal ones
        words = ["complete"] * min(most, len(names)) + ["too many"] * (len(names) - most)
        if len(names) < least:
            words = ["too few"] * len(names)
        if (host, port) not in opened:
            words = ["no store"] * len(names)
        fates.update(zip(names, words, strict=True))
    return fates


class _Store:
    def __init__(self) -> None:
        self.is_open = False
        self.lists: dict[Any, list[str]] = {}


def by_objects(agents: Agents) -> dict[str, str]:
    """A store is an object with lists; what becomes of its nodes is told at the end."""
    stores: dict[str, _Store] = {}
    for agent in agents:
        endpoint = agent["endpoint"] if ":" in agent["endpoint"] else agent["endpoint"] + ":29400"
        host, port = endpoint.split(":")
        host = {"localhost": agent["address"], "127.0.0.1": agent["address"]}.get(host, host)
        store = stores.setdefault(f"{host}:{port}", _Store())
        store.is_open |= host == agent["address"]
        nnodes = agent["nnodes"] if ":" in agent["nnodes"] else f"{agent['nnodes']}:{agent['nnodes']}"
        store.lists.setdefault((agent["rdzv_id"], nnodes), []).append(agent["node"])
    fates: dict[str, str] = {}
    for store in stores.values():
        for (_, nnodes), names in store.lists.items():
            least, most = map(int, nnodes.split(":"))
            for name in names:
                fates[name] = "no store" if not store.is_open else "too few" if len(names) < least else "complete"
            if store.is_open and len(names) >= least:
                fates |= dict.fromkeys(names[most:], "too many")
    return fates


def by_counting_down(agents: Agents) -> dict[str, str]:
    """All begin as too few; words are put right where a list is long enough."""
    fates = {agent["node"]: "too few" for agent in agents}
    places: dict[str, tuple[str, str]] = {}
    for agent in agents:
        host, colon, port = agent["endpoint"].rpartition(":")
        if not colon:
            host, port = port, "29400"
        places[agent["node"]] = agent["address"] if host in {"localhost", "127.0.0.1"} else host, port
    opened = [places[agent["node"]] for agent in agents if places[agent["node"]][0] == agent["address"]]
    for agent in agents:
        node, ends = agent["node"], agent["nnodes"].split(":")
        same = [
            other["node"]
            for other in agents
            if places[other["node"]] == places[node]
            and other["rdzv_id"] == agent["rdzv_id"]
            and (other["nnodes"].split(":")[0], other["nnodes"].split(":")[-1]) == (ends[0], ends[-1])
        ]
        if places[node] not in opened:
            fates[node] = "no store"
        elif len(same) >= int(ends[0]):
            fates[node] = "complete" if node in same[: int(ends[-1])] else "too many"
    return fates


ANSWERS = (by_tuples, by_sorting, by_objects, by_counting_down)
SAME: dict[str, str] = {
    "why_not_complete: gradients switched off": "There is no tensor in it.",
    "9: `words[node] = 'no store'` after `if places[node] in stores:`": (
        "Either way the word stands there before the meetings are counted, and is replaced where there is a store."
    ),
}
