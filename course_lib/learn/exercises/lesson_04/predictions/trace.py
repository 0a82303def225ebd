"""What lesson 04 asks of a real job's trace: its calls, its buffers, what hides, and why the device waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["TRACE"]

_CALLS = ("1", "4", "5", "one for each parameter")


def _calls(sizes_by_step: Sequence[Sequence[int]]) -> Explanation:
    """From the bytes of the all-reduces, step by step."""
    total = sum(sizes_by_step[0])
    return Explanation(
        measured="/".join(sorted({str(len(sizes)) for sizes in sizes_by_step})),
        label="in the trace",
        because=f"Together they carry {total:,} bytes in each step, which is {total // 4:,} numbers of four bytes: "
        "every parameter once. PyTorch has put them into buckets.",
        misreadings={
            "1": "That was so in the first step of all, before PyTorch knew in which order gradients come (part 3). "
            "These are steps 4 to 6.",
            "4": f"You have divided {total / 2**20:.1f} MiB by 25. But the first bucket has a smaller limit, so that "
            "it can leave early; and then one more is needed.",
            _CALLS[3]: "Each call would pay its latency. Part 1 has shown what that costs; so DDP has buckets.",
        },
    )


_SENT = (
    "rank 0's weights",
    "the mean of the losses",
    "the images of the batch",
    "what its BatchNorm layers have counted",
)


def _sent(broadcast_bytes: Sequence[int], bytes_by_kind: Mapping[str, int]) -> Explanation:
    """From the bytes of a forward pass's broadcasts, and those of the model's tensors by kind."""
    kept = [bytes_by_kind["running_mean"] + bytes_by_kind["running_var"], bytes_by_kind["num_batches_tracked"]]
    is_buffers = sorted(broadcast_bytes) == sorted(kept)
    return Explanation(
        measured=_SENT[3] if is_buffers else _SENT[0],
        label="by the bytes",
        because="Each rank's BatchNorm keeps running means and variances of the images that *this rank* has seen, and "
        "a counter. No gradient leads to them, so the all-reduces do not make them equal. DDP copies rank 0's to all "
        "before each forward pass.",
        misreadings={
            _SENT[0]: "Weights begin equal and take equal steps. Nobody sends them again; and they are as many bytes "
            "as all the buckets together.",
            _SENT[1]: "A mean of losses is four bytes, and an all-reduce. DDP never sees the loss.",
            _SENT[2]: "Each rank reads its own images. Nobody hands them on.",
        },
    )


def _first(first_ms: float, num_copies: int, broadcasts_us: float) -> Explanation:
    """From the time from the start of forward to the first convolution, the copies between, the broadcasts' time."""
    return Explanation(
        measured=round(first_ms, 1),
        label="in the trace",
        because=f"The broadcasts themselves take {broadcasts_us:.0f} us. But {num_copies} small tensors are packed "
        f"into two messages before them, and afterwards {num_copies} copies bring the values back, one launch each. "
        "In the table all of these stand before the first layer.",
        misreadings={
            (lambda guess: guess < first_ms / 4): "The messages are that short. What the host does around them is not: "
            "look at the rows between the broadcasts and the first convolution.",
        },
    )


def _hidden(hidden_us: float, communication_us: float, num_steps: int) -> Explanation:
    """From the time under computing, that of all communication, and the number of steps."""
    share = 100 * hidden_us / communication_us
    exposed_ms = (communication_us - hidden_us) / 1e3 / num_steps
    return Explanation(
        measured=round(share, 1),
        label="in the trace",
        because="All five buckets leave while backward runs, as they should. But a message hides only under kernels, "
        f"and while these messages travel, the device mostly does nothing. {exposed_ms:.1f} ms of each step are "
        "exposed.",
        misreadings={
            (lambda guess: guess >= 50): "It would be so if backward kept the device busy. An all-reduce that "
            "runs during `backward()` shows what the program does. It does not show that the device computes.",
        },
    )


def _busy(computing_us: float, num_steps: int, step_us: float) -> Explanation:
    """From what the device computes in all steps, how many they are, and how long one takes."""
    each_ms = computing_us / 1e3 / num_steps
    return Explanation(
        measured=round(each_ms, 1),
        label="in the trace",
        because=f"That is {100 * each_ms / (step_us / 1e3):.0f} % of the step. A job can train, with a falling loss "
        "and no error, and leave its device idle for most of the time.",
        misreadings={
            (lambda guess: guess >= 2 * each_ms): "That is what one hopes for from an A100. No line of a training log "
            "would tell you otherwise.",
        },
    )


_CAUSES = (
    "the other rank",
    "the images of the next batch",
    "the host, which launches the kernels",
    "copies between host and device",
)


def _host(idle_us: float, host_waits_us: float, left_over_us: float) -> Explanation:
    """From the time without kernels, the host's waits for the device, and how long its last one took."""
    host_is_late = host_waits_us < idle_us / 10
    return Explanation(
        measured=_CAUSES[2] if host_is_late else _CAUSES[0],
        label="the evidence says",
        because=f"The host waited {host_waits_us:.0f} us for the device in three steps, and the device was idle for "
        f"{idle_us / 1e3:.0f} ms. At the very end the host asks for all that is left, and has it {left_over_us:.0f} us "
        "later. No other work was waiting on the device.",
        misreadings={
            _CAUSES[0]: "A rank that waits for another does so inside NCCL's kernel, which runs all that time. Here no "
            "kernel runs, of NCCL or of others.",
            _CAUSES[1]: "The gaps lie inside forward, backward and optimizer. The images are there by then.",
            _CAUSES[3]: "Such a copy would be a row of the table. It has copies within the device only.",
        },
    )


TRACE = (
    Asked(name="04.trace_calls", question="How many all-reduces in a step?", choices=_CALLS, tell=_calls),
    Asked(
        name="04.trace_sent",
        question="What does rank 0 broadcast in every forward pass?",
        choices=_SENT,
        tell=_sent,
    ),
    Asked(
        name="04.trace_first",
        question="From the start of forward to the first convolution: how long?",
        unit="ms",
        tell=_first,
    ),
    Asked(
        name="04.trace_hidden",
        question="How much of the communication lies under computing?",
        unit="%",
        high=100,
        tell=_hidden,
    ),
    Asked(
        name="04.trace_busy",
        question="For how much of a step does the device compute?",
        unit="ms",
        tell=_busy,
    ),
    Asked(name="04.trace_host", question="What does the device wait for?", choices=_CAUSES, tell=_host),
)
