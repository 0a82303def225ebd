"""Several nodes on this machine: a real torchrun agent each, in a network of its own with a link between (lesson 12).

Read in this order:

- ``nodes.py``: ``Nodes``, what a learner holds: makes the nodes, starts jobs on them, counts bytes
- ``surroundings.py``: what this machine allows: namespaces or loopback alone, and why
- ``warden.py``: the one process under which everything runs, and which leaves nothing behind
- ``namespaces.py``, ``families.py``: what the warden does: networks, and ends of processes
- ``keeper.py``: our end of the line to the warden
- ``command.py``: the command line and the environment of an agent
- ``meeting_place.py``: a store for rendezvous that stands apart
- ``launch.py``: what a rank does before and after the learner's program
- ``job.py``: waits, kills, starts again
- ``records.py``, ``events.py``: who began where, and what happened, in order
- ``outcome.py``: what ranks printed, returned and raised
- ``failures.py``, ``reports.py``: whose fault it was, in a sentence
- ``counters.py``: the kernel's count of bytes, also for ranks
- ``arguments.py``: sentences about what cannot be
"""

from course_lib.lazy import loads_when_used

_HOME_OF = {
    "Event": "events",
    "Job": "job",
    "JobFailed": "failures",
    "JobTimeout": "failures",
    "Link": "nodes",
    "Nodes": "nodes",
    "link_bytes": "counters",
}
__all__ = list(_HOME_OF)
__getattr__, __dir__ = loads_when_used(__name__, _HOME_OF)
