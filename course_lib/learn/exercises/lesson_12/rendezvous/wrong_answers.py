"""Usual wrong answers to 12.rendezvous, each of which runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.learn.catalogue.exercise import Mistake

__all__ = ["MISTAKES"]

Agent = dict[str, str]
_OWN = ("localhost", "127.0.0.1")


def _place(agent: Agent) -> tuple[str, str]:
    host, _, port = agent["endpoint"].partition(":")
    return (agent["address"] if host in _OWN else host), port or "29400"


def _limits(agent: Agent) -> tuple[int, int]:
    least, _, most = agent["nnodes"].partition(":")
    return int(least), int(most or least)


def _hosted(agents: list[Agent], place: Callable[[Agent], Any]) -> set[Any]:
    return {place(agent) for agent in agents if _place(agent)[0] == agent["address"]}


def _key(agent: Agent) -> tuple[Any, ...]:
    return _place(agent), agent["rdzv_id"], _limits(agent)


def _word(number: int, come: int, least: int, most: int) -> str:
    if come < least:
        return "too few"
    return "complete" if number < most else "too many"


def _told(
    agents: list[Agent],
    *,
    key: Callable[[Agent], Any] = _key,
    is_hosted: Callable[[Agent], bool] | None = None,
    word: Callable[[int, int, int, int], str] = _word,
) -> dict[str, str]:
    """The right answer, with one of its parts changed."""
    stores = _hosted(agents, _place)
    known = is_hosted or (lambda agent: _place(agent) in stores)
    with_store = [agent for agent in agents if known(agent)]
    fates = {agent["node"]: "no store" for agent in agents}
    for agent in with_store:
        met = [other["node"] for other in with_store if key(other) == key(agent)]
        fates[agent["node"]] = word(met.index(agent["node"]), len(met), *_limits(agent))
    return fates


def _one_loopback(agents: list[Agent]) -> dict[str, str]:
    def as_typed(agent: Agent) -> Any:
        host, _, port = agent["endpoint"].partition(":")
        return ("here" if host in _OWN else host), port or "29400"

    return _told(
        agents,
        key=lambda agent: (as_typed(agent), agent["rdzv_id"], _limits(agent)),
        is_hosted=lambda agent: agent["endpoint"].partition(":")[0] in _OWN or _place(agent) in _hosted(agents, _place),
    )


def _as_typed(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, key=lambda agent: (agent["endpoint"], agent["rdzv_id"], _limits(agent)))


def _no_default_port(agents: list[Agent]) -> dict[str, str]:
    def place(agent: Agent) -> tuple[str, str]:
        return _place(agent)[0], agent["endpoint"].partition(":")[2]

    stores = _hosted(agents, place)
    return _told(
        agents,
        key=lambda agent: (place(agent), agent["rdzv_id"], _limits(agent)),
        is_hosted=lambda agent: place(agent) in stores,
    )


def _any_store(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, is_hosted=lambda agent: True)


def _no_id(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, key=lambda agent: (_place(agent), _limits(agent)))


def _no_nnodes(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, key=lambda agent: (_place(agent), agent["rdzv_id"]))


def _no_port(agents: list[Agent]) -> dict[str, str]:
    hosts = {host for host, _ in _hosted(agents, _place)}
    return _told(
        agents,
        key=lambda agent: (_place(agent)[0], agent["rdzv_id"], _limits(agent)),
        is_hosted=lambda agent: _place(agent)[0] in hosts,
    )


def _least_alone(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, key=lambda agent: (_place(agent), agent["rdzv_id"], _limits(agent)[0]))


def _as_many_as_may(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, word=lambda number, come, least, most: _word(number, come, most, most))


def _no_greatest(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, word=lambda number, come, least, most: "complete" if come >= least else "too few")


def _all_too_many(agents: list[Agent]) -> dict[str, str]:
    return _told(
        agents,
        word=lambda number, come, least, most: "too many" if come > most else _word(number, come, least, most),
    )


def _one_too_many(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, word=lambda number, come, least, most: _word(number - 1 if number else 0, come, least, most))


def _the_last_ones(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, word=lambda number, come, least, most: _word(come - 1 - number, come, least, most))


def _more_than_least(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, word=lambda number, come, least, most: _word(number, come, least + 1, most))


def _any_agent_there(agents: list[Agent]) -> dict[str, str]:
    addresses = {agent["address"] for agent in agents}
    return _told(agents, is_hosted=lambda agent: _place(agent)[0] in addresses)


def _only_the_host(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, is_hosted=lambda agent: _place(agent)[0] == agent["address"])


def _store_of_the_job(agents: list[Agent]) -> dict[str, str]:
    stores = {(_place(a), a["rdzv_id"]) for a in agents if _place(a)[0] == a["address"]}
    return _told(agents, is_hosted=lambda agent: (_place(agent), agent["rdzv_id"]) in stores)


def _numbers_as_text(agents: list[Agent]) -> dict[str, str]:
    return _told(
        agents,
        word=lambda number, come, least, most: "too few" if str(come) < str(least) else _word(number, come, come, most),
    )


def _range_as_typed(agents: list[Agent]) -> dict[str, str]:
    return _told(agents, key=lambda agent: (_place(agent), agent["rdzv_id"], agent["nnodes"]))


def _largest_alone(agents: list[Agent]) -> dict[str, str]:
    met = [_key(agent) for agent in agents]
    largest = max(met, key=met.count, default=None)
    right = _told(agents)
    return {
        agent["node"]: "too few"
        if right[agent["node"]] in ("complete", "too many") and _key(agent) != largest
        else right[agent["node"]]
        for agent in agents
    }


def _without_the_lost(agents: list[Agent]) -> dict[str, str]:
    return {node: word for node, word in _told(agents).items() if word != "no store"}


MISTAKES = (
    Mistake(
        "one-loopback",
        "You take every loopback endpoint for the same place. On each node it means that node itself: an agent that "
        "names it comes to a store of its own.",
        _one_loopback,
    ),
    Mistake(
        "endpoints-as-typed",
        "You compare endpoints as they were typed. Two that look different can be one place: a host without a port "
        "means 29400, and a loopback endpoint the agent's own address.",
        _as_typed,
    ),
    Mistake(
        "no-default-port",
        "An endpoint without a port means port 29400. Yours is no port at all, and so another place.",
        _no_default_port,
    ),
    Mistake(
        "a-store-everywhere",
        "You never look whether there is a store. Where no agent opens one, no agent gets as far as waiting: "
        '"no store".',
        _any_store,
    ),
    Mistake(
        "id-forgotten",
        "You count agents of another `rdzv_id` in. One store may serve several jobs, and keeps a list for each id.",
        _no_id,
    ),
    Mistake(
        "nnodes-forgotten",
        "You count agents together whose `nnodes` differ. Here only those meet that agree in it.",
        _no_nnodes,
    ),
    Mistake(
        "port-forgotten",
        "You compare hosts, and not ports. On one host there is a store for each port that an agent opens.",
        _no_port,
    ),
    Mistake(
        "least-alone",
        "You compare the least number of `nnodes` alone. Agents meet that agree in the greatest as well.",
        _least_alone,
    ),
    Mistake(
        "as-many-as-may-come",
        'You wait for the greatest number. "1:4" asks for one at least: two that come are complete.',
        _as_many_as_may,
    ),
    Mistake(
        "no-greatest",
        'You let in every agent that comes. Once the greatest number is there, the others are "too many".',
        _no_greatest,
    ),
    Mistake(
        "all-too-many",
        'Where too many come, you turn all of them away. The first ones, up to the greatest number, are "complete".',
        _all_too_many,
    ),
    Mistake(
        "one-too-many",
        "You let one more in than the greatest number. Agents counted from 0 are in while their number is less.",
        _one_too_many,
    ),
    Mistake(
        "the-last-ones",
        "Where too many come, you take the last ones. The first ones are in.",
        _the_last_ones,
    ),
    Mistake(
        "more-than-the-least",
        "You want more than the least number. The least number itself is enough.",
        _more_than_least,
    ),
    Mistake(
        "any-agent-there",
        "You take it that there is a store wherever an agent runs. It opens one only at the endpoint that was given to "
        "it: at this host, and at this port.",
        _any_agent_there,
    ),
    Mistake(
        "only-the-host",
        "You give a store only to the agent that opens it. All others that name this place reach it too.",
        _only_the_host,
    ),
    Mistake(
        "a-store-of-its-own-id",
        "You ask that a store be opened by an agent of the same `rdzv_id`. A store serves every agent that comes; the "
        "id names a list in it.",
        _store_of_the_job,
    ),
    Mistake(
        "numbers-as-text",
        'You compare numbers as texts, and "9" comes after "10". Make the ends of `nnodes` integers first.',
        _numbers_as_text,
    ),
    Mistake(
        "range-as-typed",
        '"2" and "2:2" are the same: two at least, two at most. You take them for different.',
        _range_as_typed,
    ),
    Mistake(
        "one-meeting",
        "You let only the largest meeting be complete. Several jobs can meet at the same time, each with enough nodes "
        "of its own.",
        _largest_alone,
    ),
    Mistake(
        "lost-left-out",
        'Agents without a store are missing in what you return. Each node has its word, also "no store".',
        _without_the_lost,
    ),
)
