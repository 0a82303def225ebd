"""What this machine has: cores, memory, GPUs and the links between them, by what this process may use.

In the order to read:

- ``container_limits.py``: what the system lets this process use
- ``gpus.py``: the NVIDIA GPUs of this machine and what joins them, asked of the driver's management library (NVML)
- ``gpu_choice.py``: which of the GPUs that CUDA shows this process may use
- ``lock_files.py``: A folder that all users of a machine share, in which each running process of the course holds a
  file locked
- ``rows.py``: what is told in rows of (what, how much)
- ``seats.py``: A seat: which GPUs this process uses, chosen so that the notebooks of a class spread over all of a
  machine
- ``torch_builds.py``: which build of PyTorch is installed, and which one a GPU needs
- ``this_machine.py``: what this machine has, and what that makes possible
"""

from course_lib.devices.gpus import Device, GpuLink
from course_lib.devices.this_machine import Machine, Tier, look, machine, seated

__all__ = ["Device", "GpuLink", "Machine", "Tier", "look", "machine", "seated"]
