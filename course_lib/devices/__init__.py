"""What this machine has: cores, memory, GPUs and the links between them, by what this process may use."""

from course_lib.devices.gpus import Device, Link
from course_lib.devices.this_machine import Machine, Tier, look, machine

__all__ = ["Device", "Link", "Machine", "Tier", "look", "machine"]
