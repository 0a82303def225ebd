"""07.pipe: builds whose values, order or messages are wrong, each in one way."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answers.lesson_07.pipe_builds.final import ByTags, Final, InSendersOrder

from course_lib.cluster import recv, send, start


class NoShare(Final):
    def share(self, i):
        return 1.0


class NothingComesBack(Final):
    """What arrives is no leaf, and zeros go back."""

    def forward(self, stage, i, given):
        if given is None:
            return super().forward(stage, i, given)
        out = super().forward(stage, i, given.detach())
        x, whole = self.kept[stage, i]
        self.kept[stage, i] = x.detach(), whole
        return out


class LossOfOne(Final):
    def loss(self):
        return self.losses[-1] if self.losses else None


class MeanOfLosses(Final):
    """Right where all micro-batches are of one size; here the sum of shares is divided once more."""

    def loss(self):
        return sum(self.losses) / len(self.losses) if self.losses else None


class OneRoom(Final):
    """One tensor for each stage, made once in a step, and one for the last micro-batch."""

    def begin(self, inputs, targets):
        super().begin(inputs, targets)
        self.made = {}

    def make_room(self, stage, i):
        key = stage, i == self.schedule.num_micro_batches - 1
        if key not in self.made:
            self.made[key] = self.room(stage, i)
        return self.made[key].detach()


class FrontFirst(Final):
    """With one stage a rank, backwards in the order of the micro-batches."""

    def __init__(self, me, stages, schedule, *others, **named):
        if schedule.num_stages == schedule.num_ranks and not schedule.is_split:
            rows = [sorted(row, key=lambda action: (action.kind == "B", action.micro_batch)) for row in schedule.rows]
            schedule = schedule.with_actions(rows)
        super().__init__(me, stages, schedule, *others, **named)


class EmptiesInputs(Final):
    def step(self, inputs=None, targets=None):
        loss = super().step(inputs, targets)
        for given in (inputs, targets):
            if given is not None:
                given.clear()
        return loss


class InputsLearn(Final):
    """The inputs of the batch get gradients."""

    def forward(self, stage, i, given):
        if stage == 0:
            self.inputs[i].requires_grad_()
        return super().forward(stage, i, given)


class NeverWaits(Final):
    def begin(self, inputs, targets):
        self.before = getattr(self, "waits", None)  # what is let go may never arrive
        super().begin(inputs, targets)

    def step(self, inputs=None, targets=None):
        self.begin(inputs, targets)
        for messages, action in self.moves:
            self.start(messages)
            if action is None:
                break
            self.pass_on(action, self.run(action, self.take(action)))
        return self.loss()


class LetsGo(NeverWaits):
    def begin(self, inputs, targets):
        Final.begin(self, inputs, targets)


class NoStep:
    def __init__(self, *given, **named):
        pass


class GivesAFloat(Final):
    def loss(self):
        loss = super().loss()
        return None if loss is None else loss.item()


class GivesZeros(Final):
    """A loss on every rank."""

    def loss(self):
        return torch.zeros(()) if super().loss() is None else super().loss()


class SetsASeed(Final):
    def step(self, inputs=None, targets=None):
        torch.manual_seed(3)
        return super().step(inputs, targets)


# -- messages ---------------------------------------------------------------------------------------------------------


class WaitsInASend(InSendersOrder):
    def pass_on(self, action, made):
        super().pass_on(action, made)
        for key in list(self.waits):
            self.waits.pop(key)()


class IdleCells(InSendersOrder):
    def own_moves(self):
        cells = self.schedule.actions[self.me.rank]
        return [*(([], cell) for cell in cells if cell.kind in "FBIW"), ([], None)]


class WithABarrier(Final):
    def loss(self):
        dist.barrier()
        return super().loss()


class TwiceTheBytes(Final):
    """As complex numbers, whose second half is zeros."""

    def make_room(self, stage, i):
        return self.room(stage, i).to(torch.complex128)

    def pass_on(self, action, made):
        super().pass_on(action, made)
        message = self.schedule.dependencies.sends.get(action)
        if message:
            key = message.kind, message.to_stage, message.micro_batch
            self.here[key] = self.here[key].to(torch.complex128)

    def take(self, action):
        given = super().take(action)
        return given if given is None else given.real.contiguous()


class SendsShapes(InSendersOrder):
    """Before each message its shape."""

    def take(self, action):
        message = self.schedule.dependencies.awaits.get(action)
        while message and (message.kind, message.to_stage, message.micro_batch) not in self.here:
            one = next(self.coming[message.sender])
            shape = torch.empty(2, dtype=torch.int64, device=self.me.device)
            start([recv(shape, one.sender)])()
            room = self.room(max(one.from_stage, one.to_stage), one.micro_batch).new_empty(shape.tolist())
            start([recv(room, one.sender)])()
            self.here[one.kind, one.to_stage, one.micro_batch] = room
        return Final.take(self, action)

    def pass_on(self, action, made):
        message = self.schedule.dependencies.sends.get(action)
        if message:
            shape = torch.tensor(made.shape, device=self.me.device)
            self.waits["shape", message.to_stage, message.micro_batch, message.kind] = start(
                [send(shape, message.receiver)]
            )
        super().pass_on(action, made)


class HoldsBack(InSendersOrder):
    """On the first stage a message waits until the next forward has run."""

    def begin(self, inputs, targets):
        super().begin(inputs, targets)
        self.hand = None

    def take(self, action):
        if self.hand and (action.kind, action.stage) != ("F", 0):
            self.let_go()
        return super().take(action)

    def let_go(self):
        hand, self.hand = self.hand, None
        super().pass_on(*hand)

    def pass_on(self, action, made):
        if self.hand:
            self.let_go()
        if (action.kind, action.stage) == ("F", 0) and action in self.schedule.dependencies.sends:
            self.hand = action, made
        else:
            super().pass_on(action, made)


# -- several stages ---------------------------------------------------------------------------------------------------


class SendsToItself(InSendersOrder):
    def pass_on(self, action, made):
        kind, stage, _ = action
        to = stage + 1 if kind == "F" else stage - 1
        if kind != "W" and 0 <= to <= self.last and self.schedule.rank_of_stage[to] == self.me.rank:
            start([send(made, self.me.rank)])
        super().pass_on(action, made)


class OneStageARank(Final):
    """The one stage of the rank."""

    def __init__(self, me, stages, *others, **named):
        super().__init__(me, stages, *others, **named)
        (self.stage,) = stages.values()


class MixesMessages(InSendersOrder):
    """Whatever arrives is taken for what is needed."""

    def take(self, action):
        message = self.schedule.dependencies.awaits.get(action)
        if message:
            room = self.room(max(message.from_stage, message.to_stage), message.micro_batch)
            start([recv(room, message.sender)])()
            self.here[message.kind, message.to_stage, message.micro_batch] = room
        return Final.take(self, action)


class RingOfWaits(ByTags):
    """What an action has made is waited for before the next action, beside what that needs."""

    def take(self, action):
        message = self.schedule.dependencies.awaits.get(action)
        came = None
        if message:
            key = message.kind, message.to_stage, message.micro_batch
            self.here[key] = self.room(max(message.from_stage, message.to_stage), message.micro_batch)
            came = dist.irecv(self.here[key], message.sender, tag=self.tag(key))
        for key in list(self.waits):
            self.waits.pop(key)()
        if came is not None:
            came.wait()
        return Final.take(self, action)
