"""Several nodes on this machine: a real torchrun agent each, in a network of its own with a link between (lesson 12).

In the order to read:

- ``arguments.py``: sentences about nodes, ranks, programs and links that cannot be
- ``ports.py``: A port at which agents meet, from where the system itself takes none
- ``records.py``: who began where: a small file that each rank writes when it begins, and what is read from all of them
- ``rendezvous_server.py``: A store for rendezvous in a process of its own
- ``supervisor/``: The one process under which nodes run, and which leaves nothing behind
- ``command.py``: the command line of an agent, which is torchrun's own, and the environment that it and its ranks see
- ``launch.py``: what a rank does around the learner's program
- ``failures.py``: whose fault it was: from what the ranks kept, what the agents wrote, and which exit codes they saw
- ``events.py``: what happened in a job, in order
- ``outcome.py``: what a job leaves to read
- ``reports.py``: the story of a job that failed or had no end
- ``job.py``: one job on the nodes
- ``nodes.py``: ``Nodes``: what a learner holds
"""

from course_lib.base.lazy import loads_when_used

_HOME_OF = {
    "Event": "events",
    "NodesJob": "job",
    "JobFailed": "failures",
    "JobTimeout": "failures",
    "Link": "nodes",
    "Nodes": "nodes",
    "link_bytes": "supervisor.counters",
}
__all__ = list(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
