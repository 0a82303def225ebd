"""What lesson 04 asks of jobs that go wrong: a flag, a layer that is not used, a crash, a line that is missing."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["CRASH", "FLAG", "SCRIPT", "UNUSED"]

_FLAG = (
    "it is read before it is set",
    "once it is False, the hooks are gone",
    "the last piece never comes",
    "the ranks began with different weights",
)


def _flag(all_reduces: int, without_the_line: int, num_steps: int) -> Explanation:
    """From the all-reduces of the job, and of one that never makes the flag False before the first piece."""
    return Explanation(
        measured=_FLAG[0] if (all_reduces, without_the_line) == (0, num_steps) else _FLAG[1],
        label="the evidence says",
        because="Without the line there is one all-reduce in each step, and the *first* piece is averaged. DDP reads "
        "the flag in its forward pass, where it prepares the hooks. Here it is set between forward and backward, one "
        "line too late. So the first piece of a step reads the True that the last piece of the step before has set. "
        "With the line it reads False.",
        misreadings={
            _FLAG[1]: "Then there would be one all-reduce in all, in the first step, before the flag was ever False.",
            _FLAG[2]: "Then the flag would never be True again after the first step: one all-reduce in all.",
            _FLAG[3]: "DDP sent rank 0's weights to all, and the first line of evidence says that they were equal.",
        },
    )


_PLACES = (
    "nowhere",
    "in the backward pass of step 0",
    "in the forward pass of step 1",
    "in the backward pass of step 2",
)


def _unused(place: str) -> Explanation:
    """From where the job stopped, in the words of the choices."""
    return Explanation(
        measured=place,
        because="A bucket leaves when its last gradient has come. Here one never comes, so nothing leaves, and nobody "
        "complains: the backward pass of step 0 ends with gradients that nobody has averaged. Only the next forward "
        "pass finds the bucket still open. A script that ends there never learns of it.",
        misreadings={
            _PLACES[0]: "DDP cannot know whether a gradient is late or will never come. It would have to search the "
            "graph, and does so only where you ask for it.",
            _PLACES[1]: "While backward runs, a missing gradient may still come. DDP looks no further than its hooks.",
            _PLACES[3]: "What was not finished in step 0 is found before anything else is begun.",
        },
    )


_LINES = (
    "training.sampler.begin(epoch, num_done=...)",
    "lr = learning_rate(args, epoch * num_steps + step, args.epochs * num_steps)",
    "stopped_by = largest_of_all(stop.number)",
    "save(training, epoch, done)",
)


def _script(whole: Sequence[int], resumed: Sequence[int]) -> Explanation:
    """From a rank's images of an epoch, and those that its sampler still gives when it resumes."""
    goes_on = list(resumed) == list(whole)[len(whole) - len(resumed) :] and len(resumed) < len(whole)
    return Explanation(
        measured=_LINES[0] if goes_on else _LINES[1],
        label="the evidence says",
        because="`begin` tells the sampler how many images this rank has had already. Without it, the sampler deals "
        "from the start again, and the epoch ends after the steps that were left.",
        misreadings={
            _LINES[1]: "Without this line the learning rate stays where it is. It does not choose images.",
            _LINES[2]: "Without this line ranks leave in different steps, and some wait for ever for those that are "
            "gone.",
            _LINES[
                3
            ]: "Without this line the newest file is from the end of the epoch before. The job begins this epoch anew, "
            "and reads each image once.",
        },
    )


_CONTENTS = ("step 100", "step 200", "nothing that can be loaded")


def _crash(step: int | None) -> Explanation:
    """From the step that the file left by ``torch.save`` holds; None where it cannot be loaded."""
    return Explanation(
        measured=_CONTENTS[2] if step is None else f"step {step}",
        because="Hours of work are lost by the attempt to save them. So write a *draft* in the same folder, flush it "
        "to the disk, and rename it. There is no moment at which a rename is half done.",
        misreadings={
            _CONTENTS[0]: "To open a file for writing empties it. The old one is gone before the first new byte is "
            "there.",
            _CONTENTS[1]: "The job died before the file was complete.",
        },
    )


FLAG = Asked(name="04.flag", question="The flag is True, and nothing is sent. Why?", choices=_FLAG, tell=_flag)
UNUSED = Asked(name="04.unused", question="Where does the job stop?", choices=_PLACES, tell=_unused)
CRASH = Asked(name="04.crash", question="What is in last.pt after the crash?", choices=_CONTENTS, tell=_crash)
SCRIPT = Asked(name="04.script", question="Which line is missing?", choices=_LINES, tell=_script)
