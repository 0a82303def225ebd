"""12.rendezvous: which agents meet."""

from __future__ import annotations

from answer_table import Row


def _place(agent):
    host, _, port = agent["endpoint"].partition(":")
    if host in ("localhost", "127.0.0.1"):
        host = agent["address"]
    return host, port or "29400"


def _fates(agents, is_host):
    stores = {_place(agent) for agent in agents if is_host(_place(agent)[0], agent["address"])}
    lists = {}
    out = {}
    for agent in agents:
        if _place(agent) not in stores:
            out[agent["node"]] = "no store"
            continue
        least, _, most = agent["nnodes"].partition(":")
        lists.setdefault((_place(agent), agent["rdzv_id"], int(least), int(most or least)), []).append(agent["node"])
    for (_, _, least, most), nodes in lists.items():
        for number, node in enumerate(nodes):
            out[node] = "too few" if len(nodes) < least else "complete" if number < most else "too many"
    return out


def plain(agents):
    return _fates(agents, lambda host, address: host == address)


def host_by_its_beginning(agents):
    return _fates(agents, lambda host, address: host.startswith(address))


def asks_for_ever_without_a_port(agents):
    for agent in agents:
        while ":" not in agent["endpoint"] and agent["endpoint"] == "localhost":
            pass
    return plain(agents)


ROWS = [
    Row(answer=plain, verdict="passed", why="stores first, then lists by all that must agree"),
    Row(
        answer=host_by_its_beginning,
        verdict="not yet",
        why="10.0.0.12 begins like 10.0.0.1 and is another node",
        words=("begins like an agent's address",),
    ),
    Row(
        answer=asks_for_ever_without_a_port,
        verdict="too slow",
        why="the case is named so that it can follow 'with'",
        words=("with endpoints without ports",),
        unsaid=("with without",),
        long=True,
    ),
]
