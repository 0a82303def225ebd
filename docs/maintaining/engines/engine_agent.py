"""The agent of a node within an engine of ipyparallel: what the notebook calls there.

``start``, ``call`` and ``more`` come by ``apply``, in the engine's main thread; ``more`` waits. Questions come by the
control channel: ipykernel answers those in a thread of its own, so also while ``more`` waits.
"""

import pickle
import queue

_events = queue.Queue()
_agent = None
_pending = set()


def start(ranks, world_size, store):
    global _agent
    from IPython import get_ipython
    from node_agent import NodeAgent

    _agent = NodeAgent(ranks, world_size, store, _events.put)
    _pending.update(ranks)
    kernel = get_ipython().kernel
    kernel.control_handlers["course_status_request"] = _reply_with(kernel, lambda _: _agent.status())
    kernel.control_handlers["course_interrupt_request"] = _reply_with(kernel, lambda _: _agent.interrupt())
    kernel.control_handlers["course_reset_request"] = _reply_with(kernel, lambda content: _reset(content["ranks"]))
    kernel.control_handlers["course_end_request"] = _reply_with(kernel, lambda _: _end())


def call(wire):
    _pending.update(_agent.ranks)
    _agent.call(wire)
    return more()


def more():
    """Events, and whether no more are to come: all answers, or those until the first that is not well."""
    found = []
    while _pending:
        event = _events.get()
        found.append(event)
        _pending.discard(event[1])
        if event[0] != "answer" or event[2][0] != "done":
            break
    return found, not _pending


def _reset(ranks):
    _pending.update(set(ranks) & set(_agent.ranks))
    _agent.reset(ranks)


def _end():
    _agent.end()
    _events.put(("ended", 0, 0))


def _reply_with(kernel, question):
    def handle(stream, ident, parent):
        kernel.session.send(
            stream,
            "abort_reply",
            content={"status": "ok"},
            parent=parent,
            ident=ident,
            buffers=[pickle.dumps(question(parent["content"]))],
        )

    return handle
