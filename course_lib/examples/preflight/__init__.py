"""Look a cluster over before a job runs on it: links, clocks, GPUs, memory, limits, versions.

It stands alone: copy this folder to where you work. It needs torch, 2.6 or newer, and nothing of the course. ::

    cp -r course_lib/examples/preflight ~/my_project/ && cd ~/my_project

    python -m preflight                                             # one process: what one can see of its machine
    torchrun --standalone --nproc-per-node 4 -m preflight           # four, on four GPUs or on the CPU
    sbatch slurm.sbatch -m preflight --machine h100 --between-gbit 400 --json /shared/preflight.json

``--machine`` names the data sheet that links within a node are held against, ``--between-gbit`` says what the network
card of each rank is sold as. Without them links are compared with each other alone.

Every line ends in one of three verdicts: ``ok``; ``look``, with what is odd and where; ``could not check``, with why.
On a machine that others use as well, a rate may be odd for their sake: look twice.
What cannot be looked at on a machine, such as GPUs where there are none, is said, not left out. Exit codes: 0 where
nothing is odd, 1 where something is, 2 for a setting that argparse refuses. Under torchrun it is 0 in place of 1
unless ``--strict`` asks for it: torchrun would call ranks failed, start them again, and bury the table.

The files, in the order in which to read them: ``check.py`` (all of it in order), ``machine.py`` (what a process can
tell of its machine), ``gpus.py``, ``measure.py`` (times of messages, clocks and products), ``judge_machines.py`` and
``judge_speed.py`` (what is odd), ``report.py`` (the table).
"""
