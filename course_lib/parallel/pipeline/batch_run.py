"""One batch on one rank: the loop that executes a row of a schedule.

Before an action a rank waits for what the action needs; after it, what was made sets out for the next stage or the
one before. The loop knows nothing of 1F1B or GPipe: which messages are started together follows from the schedule
alone (``messages.py``), and so does what is waited for when (``comm_plan.py``). ``stage_run.py`` has what one stage
does with one micro-batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from course_lib.cluster.base.call_marks import only_on_gloo
from course_lib.cluster.base.point_to_point import Message, recv, send, start
from course_lib.cluster.base.rank import Rank
from course_lib.parallel.model.stage_p2p import TensorSpec
from course_lib.parallel.pipeline.comm_plan import Move
from course_lib.parallel.pipeline.messages import Transfer
from course_lib.parallel.pipeline.stage_run import StageRun
from course_lib.schedules.action import Action
from course_lib.schedules.trace import ActionSpan

__all__ = ["BatchRun"]


class BatchRun:
    """The stages of this rank, by number, while a batch goes through them.

    ``ranks[r]`` is the global rank that plays rank r of the schedule. ``specs[s, i]`` is what stage s passes on of
    micro-batch i: both ends of a message look there, one to make room and the other to keep to it.
    """

    def __init__(
        self,
        me: Rank,
        ranks: Sequence[int],
        stages: Mapping[int, StageRun],
        specs: Mapping[tuple[int, int], TensorSpec],
    ) -> None:
        self.me, self.ranks, self.stages, self.specs = me, ranks, stages, specs
        self.spans: list[ActionSpan] = []
        self._rank = list(ranks).index(me.rank)
        self._in_flight: dict[Transfer, Callable[[], None]] = {}  # messages, and what waits for each

    def go(self, moves: Sequence[Move]) -> None:
        with self._thread(moves) as thread:
            for sends, recvs, awaits, action, overlapped in moves:
                self._start(sends, recvs)
                if action is None:  # the last messages of all
                    break
                for transfer in awaits:
                    self._wait_for(transfer)
                if overlapped is None or thread is None:
                    self.spans.append(self._run(action))
                    self._hand_over(action)
                else:
                    self._run_both(thread, action, overlapped)
        for transfer in list(self._in_flight):
            self._wait_for(transfer)

    @staticmethod
    def _thread(moves: Sequence[Move]) -> contextlib.AbstractContextManager[ThreadPoolExecutor | None]:
        """A second thread where two actions overlap; it ends with the batch."""
        if any(move.overlapped for move in moves):
            return ThreadPoolExecutor(max_workers=1, thread_name_prefix="overlapped a forward")
        return contextlib.nullcontext()

    def _run(self, action: Action) -> ActionSpan:
        began_s = time.perf_counter()
        self.stages[action.stage].run(action)
        return ActionSpan(self._rank, action, began_s, time.perf_counter())

    def _run_both(self, thread: ThreadPoolExecutor, forward: Action, backward: Action) -> None:
        """A forward here, a backward in the thread, at the same time; what they made goes on when both are done."""
        self.stages[forward.stage].expect_forward()  # counted before the backward lets go of anything
        future = thread.submit(self._run_on, self._stream(), backward)
        try:
            self.spans.append(self._run(forward))
        finally:
            span = future.result()  # not before it is over, whatever the forward did
        self.spans.append(span)
        self._hand_over(forward)
        self._hand_over(backward)

    def _stream(self) -> torch.cuda.Stream | None:
        """That of the device on which this thread computes: another thread has a default of its own."""
        return torch.cuda.current_stream(self.me.device) if self.me.device.type == "cuda" else None

    def _run_on(self, stream: torch.cuda.Stream | None, action: Action) -> ActionSpan:
        if stream is not None:
            # A new thread is on GPU 0: to go back there afterwards would open a context on it, beside its own rank's.
            torch.cuda.set_device(stream.device)
        with torch.cuda.stream(stream) if stream else contextlib.nullcontext(), torch.enable_grad():
            return self._run(action)

    def _start(self, sends: Sequence[Transfer], recvs: Sequence[Transfer]) -> None:
        """Start messages together. Gradients that nobody wants are not sent."""
        messages: dict[Transfer, Message] = {}
        for transfer in sends:
            made = self._made(transfer.kind, transfer.from_stage, transfer.micro_batch)
            if made is not None:
                self._check(transfer, made)
                messages[transfer] = send(made.detach().contiguous(), self.ranks[transfer.receiver])
        for transfer in recvs:
            room = self._make_room(transfer)
            if room is not None:
                messages[transfer] = recv(room.detach(), self.ranks[transfer.sender])
        if messages:
            with only_on_gloo(self.me.backend == "gloo"):  # recvs are early there: see comm_plan.py
                started = start([*messages.values()])
            for index, transfer in enumerate(messages):
                self._in_flight[transfer] = partial(started.wait_for, index)

    def _wait_for(self, transfer: Transfer) -> None:
        wait = self._in_flight.pop(transfer, None)
        if wait is not None:  # a gradient that nobody wants is not under way
            wait()

    def _made(self, kind: str, stage: int, micro_batch: int) -> Tensor | None:
        """What a stage has made for a neighbour: from here on it is not the stage's to keep."""
        run = self.stages[stage]
        return run.outputs.pop(micro_batch) if kind == "F" else run.input_gradients.pop(micro_batch, None)

    def _make_room(self, transfer: Transfer) -> Tensor | None:
        """An empty tensor among the inputs of a stage, or among its gradients, to be filled by a message."""
        kind, i, from_stage, to_stage, *_ = transfer
        spec, stage = self.specs[min(from_stage, to_stage), i], self.stages[to_stage]
        if kind == "B" and not spec.needs_gradient:
            return None
        room = torch.empty(spec.shape, dtype=spec.dtype, device=self.me.device)
        if kind == "F":
            stage.inputs[i] = room.requires_grad_(spec.needs_gradient)
        else:
            stage.gradients[i] = room
        return room

    def _hand_over(self, action: Action) -> None:
        """What an action made goes to a neighbouring stage on this same rank without a message."""
        kind, stage, i = action
        neighbour = self.stages.get(stage + 1 if kind == "F" else stage - 1)
        if kind == "W" or neighbour is None:
            return
        made = self._made(kind, stage, i)
        if made is not None:
            (neighbour.inputs if kind == "F" else neighbour.gradients)[i] = made

    def _check(self, transfer: Transfer, made: Tensor) -> None:
        """Refuse to send what the receiver has not made room for."""
        kind, i, from_stage, to_stage, *_ = transfer
        if kind == "B":
            return  # the gradient of what was received: of that same shape
        expected, found = self.specs[from_stage, i], TensorSpec(tuple(made.shape), made.dtype, made.requires_grad)
        if found != expected:
            raise ValueError(
                f"stage {from_stage} has {found} to pass on, but in the first batch it announced {expected} to stage "
                f"{to_stage}. Keep that shape (drop a smaller last batch), or call forget_shapes() on every rank "
                "before a batch that differs."
            )
