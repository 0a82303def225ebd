"""04.ddp: a DistributedDataParallel of one's own, in five steps; each demands what those before it demand, and more."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_04.ddp import mistakes
from course_lib.learn.exercises.lesson_04.ddp.reports import (
    AwkwardReport,
    BytesReport,
    MemoryReport,
    OverlapReport,
    ValuesReport,
)
from course_lib.learn.exercises.lesson_04.ddp.right import right
from course_lib.learn.exercises.lesson_04.ddp.trial import GIVEN, NOTHING_TO_TRAIN, trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["DDP_STEPS"]

_FORBIDDEN = (
    "torch.nn.parallel.DistributedDataParallel",
    "course_lib.parallel.data.DistributedDataParallel",
    "course_lib.parallel.data.all_reduce_buckets",
    "course_lib.parallel.data.all_reduce_gradients",
    "course_lib.parallel.data.assign_buckets",
    "course_lib.parallel.data.broadcast_parameters",
    "course_lib.parallel.data.Bucket",
)
_GO_ON = ("two inputs and a dictionary", "buckets of 200 bytes", "two dtypes", GIVEN)
_VALUES = ("three layers", "two inputs and a dictionary", GIVEN)
_BYTES = (*_GO_ON, "a bucket for each gradient")
_MEMORY = ("a bucket for each layer",)
_OVERLAP = ("buckets of two layers",)
_AWKWARD = (
    "layers that not every rank uses",
    "gradients in another order on odd ranks",
    "frozen layers",
    "tied weights",
    "buffers",
    "accumulation in `no_sync`",
    "an uneven last batch",
    "two forward passes, and one backward",
    "convolutions in channels_last",
    NOTHING_TO_TRAIN,
    "two models at the same time",
)


def _judge(world_sizes: tuple[int, ...], labels: tuple[str, ...], report: type[ValuesReport]) -> RankJudge:
    cases = tuple(Case(label, (label,), right(label, report)) for label in labels)
    return by_trial(world_sizes, cases, trial, compare=compare, timeout_s=6.0)


DDP_STEPS = (
    Exercise(
        name="04.ddp_values",
        title="Your DDP, 1: the values",
        judge=_judge((2, 3), _VALUES, ValuesReport),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "Two things keep replicas together: they begin alike, and every step takes the same gradients. When does "
            "your class have to do each of the two?",
            "In `__init__`: keep the module, broadcast each parameter and buffer from rank 0, and register a hook on "
            "each parameter that learns. In the hook: the sum over ranks, divided by `me.world_size`. `forward` hands "
            "everything on; `state_dict` asks the module.",
            "`dist.broadcast(tensor.detach(), src=0)`; `parameter.register_post_accumulate_grad_hook(self._average)`, "
            "and there `self.all_reduce(parameter.grad)` and `parameter.grad /= self.me.world_size`. Then "
            "`def state_dict(self, *args, **kwargs): return self.module.state_dict(*args, **kwargs)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="All ranks begin with rank 0's weights, and three steps leave them where one process would have been.",
    ),
    Exercise(
        name="04.ddp_bytes",
        title="Your DDP, 2: bytes and messages",
        judge=_judge((3,), _BYTES, BytesReport),
        mistakes=mistakes.OF_BYTES,
        hints=(
            "Which gradient comes first? So from which end of `parameters()` is the first bucket to be filled, and "
            "what has to be counted?",
            "In `__init__`, go through the reversed list of what learns, one open bucket for each dtype, and close a "
            "bucket once it has `bucket_bytes`. In the hook, count; the last one of a bucket sends one flat tensor.",
            "`flat = torch.cat([p.grad.flatten() for p in bucket])`, `self.all_reduce(flat)`, `flat /= "
            "me.world_size`; then for each `p, part` of the bucket and `flat.split([p.numel() for p in bucket])`: "
            "`p.grad.copy_(part.view_as(p))`. Set the count back.",
        ),
        forbidden=_FORBIDDEN,
        passed="There is one all-reduce for each bucket, and no other call. A bucket has one dtype, and the last "
        "parameter comes first.",
    ),
    Exercise(
        name="04.ddp_memory",
        title="Your DDP, 3: memory",
        judge=_judge((3,), (*_GO_ON, *_MEMORY), MemoryReport),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "A gradient and its place in the flat tensor hold the same numbers. Do these have to be two tensors?",
            "Make each bucket's flat tensor once, in `__init__`, and cut it into views of the parameters' shapes. In "
            "the hook copy the gradient into its view, and make the view the gradient.",
            "`view.copy_(p.grad)`, then `p.grad = view`, where `view = part.view_as(p)` and `part` comes from "
            "`flat.split(...)`. The mean, in place in `flat`, is then in every gradient. A gradient that is this view "
            "already need not be copied.",
        ),
        forbidden=_FORBIDDEN,
        passed="Beside the model, its gradients lie in memory once, during backward and after it. No step leaves more.",
    ),
    Exercise(
        name="04.ddp_overlap",
        title="Your DDP, 4: time hidden",
        judge=_judge((3,), (*_GO_ON, *_MEMORY, *_OVERLAP), OverlapReport),
        mistakes=mistakes.OF_OVERLAP,
        hints=(
            "Who could wait for the last all-reduce, when nobody calls you after `backward()`? The worked example has "
            "somebody who is called then.",
            "The hook of a bucket's last gradient starts `all_reduce(flat, async_op=True)` and keeps what it returns. "
            "The first hook of a backward asks to be called at its end; there you wait, divide, and forget.",
            "`torch.autograd.Variable._execution_engine.queue_callback(self._finish)` in the first hook; in `_finish`: "
            "`for bucket in self.buckets: bucket.work.wait(); bucket.flat /= me.world_size`, and set back what has to "
            "begin afresh.",
        ),
        forbidden=_FORBIDDEN,
        passed="Each bucket leaves with its last gradient while backward goes on, and nobody waits before the end.",
    ),
    Exercise(
        name="04.ddp_awkward",
        title="Your DDP, 5: awkward models",
        judge=_judge((3, 1), (*_GO_ON, *_MEMORY, *_AWKWARD), AwkwardReport),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "Calls have no names: the third of one rank meets the third of the others. What holds the order together "
            "when a layer is left out on one rank, or comes in another order?",
            "Start buckets in the order of the list alone. At the end of backward put what has not come into its "
            "place, its own `.grad` or zeros, and start what is left. `no_sync` sets a flag for the hooks and puts it "
            "back. `forward` broadcasts buffers.",
            "`while self.sent < len(self.buckets) and self.buckets[self.sent].is_full: self._start()`, in the hook "
            "and again in `_finish` once every gap is filled. `no_sync`: `@contextlib.contextmanager`, with `try: "
            "yield` and `finally`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Unused, frozen and tied parameters, buffers, accumulation, uneven parts, two models, one rank: all as "
        "one process has it.",
    ),
)
