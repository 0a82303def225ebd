"""What goes with a learner to a cluster, tried before: dry runs of launch scripts, and the variables that matter there.

For lesson 12, part d. The files themselves lie in ``course_lib/examples/launch`` and ``course_lib/examples/preflight``.

- ``sbatch.py``     reads the ``#SBATCH`` lines of a script, and knows which there are
- ``dry_run.py``    runs a script with stand-ins for ``srun``, ``ssh`` and others: what it would start where
- ``stand_ins.py``  those programs
- ``in_a_pod.py``   what a pod of a TrainJob finds in its environment
- ``sick_script.py``, ``sick_cluster.py``  for the clinics of the lesson
- ``variables.py``  environment variables of NCCL, gloo, torch and torchrun, by symptom
"""

from course_lib.take_along.dry_run import (
    Agent,
    DryRun,
    dry_run_limit,
    dry_run_sbatch,
    dry_run_ssh,
    launch_file,
)
from course_lib.take_along.in_a_pod import pod_environment
from course_lib.take_along.sbatch import read_sbatch
from course_lib.take_along.sick_cluster import sick_links
from course_lib.take_along.sick_script import LOG, his_script
from course_lib.take_along.variables import SYMPTOMS, VARIABLES, Variable, variables_for

__all__ = [
    "LOG",
    "SYMPTOMS",
    "VARIABLES",
    "Agent",
    "DryRun",
    "Variable",
    "dry_run_limit",
    "dry_run_sbatch",
    "dry_run_ssh",
    "his_script",
    "launch_file",
    "pod_environment",
    "read_sbatch",
    "sick_links",
    "variables_for",
]
