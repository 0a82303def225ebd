"""Who else of the course is on this machine, and whether its notebooks spread over the GPUs."""

from __future__ import annotations

from course_lib.devices import Device, Machine
from course_lib.devices.gpu_choice import VARIABLE as GPUS
from course_lib.devices.lock_files import VARIABLE as SEATS
from course_lib.devices.seats import Survey, survey
from course_lib.doctor.finding import Finding

__all__ = ["check_seats"]


def check_seats(here: Machine, seen: Survey | None = None) -> Finding:
    """What the lock files of the course say now; ``seen`` replaces looking at them."""
    if here.refused_choice:
        advice = f"Until then no ranks start. Mend {GPUS}, or unset it to use every GPU that CUDA shows."
        return Finding("seats", "blocked", here.refused_choice, advice)
    seen = survey() if seen is None else seen
    if seen.others is None and seen.reason.endswith("=off"):
        return Finding("seats", "ok", f"{seen.reason}: notebooks do not know of each other")
    if seen.others is None:
        detail = f"no lock files ({seen.reason}), so notebooks do not know of each other"
        if len(here.devices) + len(here.spare_devices) < 2:
            return Finding("seats", "ok", detail)
        advice = (
            f"Every learner's ranks begin at GPU 0. Set {SEATS} to a folder on this machine's own disk or memory that "
            "every learner may write to (chmod 1777)."
        )
        return Finding("seats", "warning", detail, advice)
    verb = "are" if len(seen.others) > 1 else "is"
    detail = f"{seen.others} of this course {verb} here now, by the lock files in {seen.folder}"
    gpus = [*here.devices, *here.spare_devices]
    counts = [f"{_name(gpu)}: {len(seen.others.on([gpu]))}" for gpu in gpus] if seen.others else []
    detail = "; ".join([detail, ", ".join(counts)] if counts else [detail])
    return Finding("seats", "warning", detail, seen.warning) if seen.warning else Finding("seats", "ok", detail)


def _name(gpu: Device) -> str:
    return gpu.uuid if gpu.is_mig_slice or gpu.board is None else f"GPU {gpu.board}"
