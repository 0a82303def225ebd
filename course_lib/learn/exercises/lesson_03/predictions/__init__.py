"""What lesson 03 asks before a run, and tells after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.cost.collectives.collective_cost import collective_cost
from course_lib.layouts.link import Link
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation
from course_lib.parallel.data.threads.thread_race import Race, interpreter_lock

__all__ = ["PREDICTIONS"]

_ANY_LINK = Link(latency_s=10e-6, bandwidth_bytes_per_s=10e9)  # bytes do not depend on it


def _rows(seen: Sequence[int]) -> Explanation:
    return Explanation(
        measured=max(seen),
        because="One process has one loader. Its batch is the whole batch, and each device gets a share.",
        misreadings={
            32: "It is so with DistributedDataParallel, lesson 04, where each process has a loader of its own. Here "
            "there is one loader, one batch, and it is cut.",
            128: "The class adds no rows: it cuts the batch of the loader.",
        },
    )


def _copies(copied_bytes: float, model_bytes: int) -> Explanation:
    """From what is copied in one step, and the size of the model's parameters."""
    naive = collective_cost("all_reduce", model_bytes, _ANY_LINK, num_ranks=4, algorithm="naive")
    return Explanation(
        measured=round(copied_bytes / model_bytes, 1),
        model=round((naive.bytes_sent[0] + naive.bytes_received[0]) / model_bytes, 1),
        because="Weights go to three devices forward, and gradients come from three devices backward, in every step.",
        misreadings={
            3: "That counts what goes out. From each of the three devices comes a gradient, as large as the weights.",
            0: "The replicas are new at every forward pass: nothing of the last step is left in them.",
            1: "Each of three devices needs all of the weights, and sends all of the gradients.",
            8: "Replica 0 sits with the model: nothing travels for it.",
        },
        apart="These are counted bytes, not times: noise cannot change them. Look whether the model has changed since "
        "its size was computed, and run the cells again, from the section Four steps on.",
    )


def _mean(running_mean: float) -> Explanation:
    return Explanation(
        measured=running_mean,
        because="Replica 0 wrote into the module's own buffer. The other three wrote into copies that nobody kept.",
        misreadings={
            25: "That is the mean of the whole batch, and no replica ever sees the whole batch.",
            40: "The last part's replica wrote 40 into a copy, and the copy is gone.",
        },
    )


def _device_0(held: Mapping[str, Mapping[str, int]]) -> Explanation:
    """From the bytes by label that each device holds."""
    sizes = {device: sum(by_label.values()) for device, by_label in held.items()}
    return Explanation(
        measured=round(sizes["device 0"] / sizes["device 1"], 2),
        because="Gradients and the optimizer's state come with every model. The outputs of the *whole* batch, and what "
        "the loss keeps of them, come with the way in which this class works.",
        misreadings={
            1: "Each device has its own weights and activations. Device 0 also has what there is only once: gradients, "
            "the optimizer's state, the gathered outputs and the loss.",
            4: "The layers' activations are shared out evenly, and they are the largest part on every device.",
        },
    )


def _threads(race: Race) -> Explanation:
    because = (
        "Each layer is a little Python and a short operator. The threads pass the lock to each other hundreds of "
        "times a step. "
    )
    if interpreter_lock() == "off":
        because = (
            "Your Python has no such lock. Where two threads do not come near twice the speed here, the reason is "
            "cores that are not free, or memory that both touch."
        )
    elif race.threads_speed_up < 1.1:
        because += "Here that used up nearly all that they saved, or more."
    else:
        because += (
            "Here they gained a little all the same: on this machine an operator takes long, compared with the "
            "Python around it. The lock is free for that time."
        )
    if race.processes_speed_up < 1.3:
        because += (
            f" But two processes, which share no lock, came to {race.processes_speed_up:.2f} times only: they hardly "
            "had two free cores. So a part of what the threads lost is other work on this machine. Race again later."
        )
    return Explanation(
        measured=round(race.threads_speed_up, 2),
        because=because,
        misreadings={
            lambda times: (
                times > 2.2
            ): "Two workers that share the work evenly come to 2 at most, each on a free core. Two "
            "threads share one interpreter as well, with much Python between short operators.",
            lambda times: times > 1.3: "Two processes can come near that, each on a free core. Two threads share one "
            "interpreter, with much Python between short operators.",
            lambda times: (
                times < 0.6
            ): "The threads do get in each other's way, but one computes while the other waits.",
        },
    )


_STANDS_STILL = (
    "the threads overwrite each other",
    "a replica counts on itself, and is thrown away",
    "the optimizer resets it",
    "dropout is off in replicas",
)


def _self() -> Explanation:
    return Explanation(
        measured=_STANDS_STILL[1],
        label="the evidence says",
        because="Every forward saw a replica that was made a moment ago, from a module that says 0. It counts to 1, "
        "and then the replica is thrown away, as all replicas are.",
        misreadings={
            _STANDS_STILL[0]: "Then some counts would be lost, and others not. Every one of twenty calls saw a 1.",
            _STANDS_STILL[2]: "There is no optimizer in this evidence.",
            _STANDS_STILL[3]: "Nothing suggests it. What stands still is the number from which the share is computed.",
        },
    )


_FORGOT = (
    "the file was cut short",
    "no name in the file fits",
    "the model is in training mode",
    "it was never trained",
)


def _keys() -> Explanation:
    return Explanation(
        measured=_FORGOT[1],
        label="the evidence says",
        because="The wrapper holds the model under the name `module`, and `state_dict` puts that before every name. "
        "With strict=False what does not fit is skipped, and here that is all of it.",
        misreadings={
            _FORGOT[0]: "All tensors are there, under names that the model does not have.",
            _FORGOT[2]: "That changes dropout and BatchNorm, and no weight.",
            _FORGOT[3]: "Its training was in order; what is in the file is a trained model.",
        },
    )


def _processes(places: Sequence[tuple[int, int]]) -> Explanation:
    """From the process and the thread in which each replica computed."""
    return Explanation(
        measured=len(set(places)),
        because="Each process makes a replica for every device that it names, so each device gets one from every "
        "process. The four processes know nothing of each other: their gradients never meet.",
        misreadings={
            4: "That is the class of lesson 04: a process for each device, and one model in each. The two names are "
            "much alike, and the programs are not.",
            1: "A replica is made for each device, by each process that calls the wrapper.",
        },
    )


PREDICTIONS = (
    Asked(
        name="03.rows",
        question="batch_size=32 on four devices: how many rows on each?",
        unit="rows",
        tell=_rows,
    ),
    Asked(
        name="03.copies",
        question="One step, four devices: how many times are the model's bytes copied?",
        unit="models",
        tell=_copies,
    ),
    Asked(name="03.mean", question="Four parts with means 10, 20, 30, 40: the running mean?", tell=_mean),
    Asked(
        name="03.device_0",
        question="How many times as much does device 0 hold as device 1?",
        unit="times",
        tell=_device_0,
    ),
    Asked(
        name="03.threads",
        question="100 small layers: how many times as fast are two threads as one?",
        unit="times",
        tell=_threads,
    ),
    Asked(name="03.self", question="Why does the share stand still?", choices=_STANDS_STILL, tell=_self),
    Asked(name="03.keys", question="Why is nothing left?", choices=_FORGOT, tell=_keys),
    Asked(
        name="03.processes",
        question="Four processes wrap a model for four devices each: how many replicas compute?",
        unit="replicas",
        tell=_processes,
    ),
)
