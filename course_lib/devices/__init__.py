"""What this machine has: cores, memory, GPUs and the links between them, by what this process may use."""

from course_lib.devices.gpus import Device, GpuLink
from course_lib.devices.this_machine import Machine, Tier, look, machine, seated

__all__ = ["Device", "GpuLink", "Machine", "Tier", "look", "machine", "seated"]
