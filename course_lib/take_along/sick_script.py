"""A launch script with something wrong in it, and the log of a job that it started, for a clinic of lesson 12d."""

from __future__ import annotations

from course_lib.take_along.dry_run import launch_file

__all__ = ["LOG", "his_script"]

_OURS, _HIS = 'scancel --signal=TERM "$SLURM_JOB_ID"', 'kill -TERM "$step"'

LOG = """\
0: rank 0 of 4 sum 4.0
1: rank 3 of 4 sum 4.0
1: rank 2 of 4 sum 4.0
0: rank 1 of 4 sum 4.0
srun: forcing job termination
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
0: slurmstepd-n0: error: *** STEP 4.0 ON n0 CANCELLED AT 2026-11-22T21:13:26 ***
srun: error: n1: task 1: Killed
srun: launch/slurm: _step_signal: Terminating StepId=4.0
srun: error: n0: task 0: Killed
slurmstepd-n0: error: *** JOB 4 ON n0 CANCELLED AT 2026-11-22T21:13:26 DUE TO JOB REQUEUE ***"""
"""As Slurm 22.05 wrote it (two nodes of two ranks, both on one machine), up to the requeue; warnings about names of
hosts and the ends of the ranks' lines are left out."""


def his_script() -> str:
    """The course's Slurm script with one line of its end as a colleague wrote it."""
    script = launch_file("slurm.sbatch").read_text()
    if script.count(_OURS) != 1:
        raise AssertionError(f"{_OURS!r} stands in slurm.sbatch {script.count(_OURS)} times")
    comment = script[script.index("# When the time is nearly up") : script.index('stopped=""')]
    return script.replace(comment, "# When the time is nearly up.\n").replace(_OURS, _HIS)
