"""Every way to share work among ranks, written from scratch to be read; production code uses PyTorch's own."""

from course_lib.parallel.recording import RECORDABLE, record

__all__ = ["RECORDABLE", "record"]
