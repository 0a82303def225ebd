"""The control: a plain agent a node, started by ssh (or srun), that speaks over its own stdin and stdout."""

import os
import sys
import threading
from multiprocessing.connection import Connection

up = Connection(os.dup(1), readable=False)
down = Connection(os.dup(0), writable=False)
os.dup2(2, 1)  # whatever prints here does not spoil the line
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
lock = threading.Lock()


def tell(message):
    with lock:
        up.send(message)


def main():
    ranks, world_size, store = down.recv()
    from node_agent import NodeAgent

    agent = NodeAgent(ranks, world_size, store, tell)
    kind = ""
    try:
        while True:
            kind, *details = down.recv()
            if kind == "status":
                threading.Thread(target=lambda n: tell(("status", n, agent.status())), args=details).start()
            elif kind == "end":
                break
            else:
                getattr(agent, kind)(*details)
    except EOFError:
        pass  # the notebook has gone, or the connection
    agent.end()
    tell(("ended", 0, 0)) if kind == "end" else None


if __name__ == "__main__":
    sys.exit(main())
