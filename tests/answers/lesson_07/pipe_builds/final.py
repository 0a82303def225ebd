"""07.pipe: right answers of several styles. ``Final`` is in pieces, so that wrong ones change one of them."""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist

from course_lib.cluster import exchange, recv, send, start


class Final:
    """Messages start together, in an order that all ranks share."""

    def __init__(self, me, stages, schedule, loss_of, room, ties=()):
        self.me, self.stages, self.schedule = me, stages, schedule
        self.loss_of, self.room, self.ties = loss_of, room, ties
        self.last = schedule.num_stages - 1
        self.moves = self.own_moves()

    def own_moves(self):
        sends, moves, ready, made, now = self.schedule.dependencies.sends, [], [], [], 0
        for step, rank, action in self.schedule.dependencies.order:
            if step > now:
                ready, made, now = ready + made, [], step
            if rank == self.me.rank:
                moves.append((ready, action))
                ready = []
            message = sends.get(action)
            if message and self.me.rank in (message.sender, message.receiver):
                made.append(message)
        return [*moves, (ready + made, None)]

    def begin(self, inputs, targets):
        self.inputs, self.targets, self.losses = inputs, targets, []
        self.kept, self.later, self.here, self.waits = {}, {}, {}, {}

    def step(self, inputs=None, targets=None):
        self.begin(inputs, targets)
        earlier, failed = self.set_tied_aside(), None
        for messages, action in self.moves:
            self.start(messages)
            if action is None:
                break
            given, made = self.take(action), None
            try:
                made = self.run(action, given) if failed is None else None
            except Exception as error:
                failed = error
            self.pass_on(action, made)
            del given, made
        for wait in self.waits.values():
            wait()
        self.add_tied(earlier)
        if failed is not None:
            raise failed
        self.waits = self.here = None
        return self.loss()

    def loss(self):
        return sum(self.losses) if self.losses else None

    # -- messages

    def start(self, messages):
        both = []
        for kind, i, from_stage, to_stage, sender, receiver in messages:
            key = kind, to_stage, i
            if sender == self.me.rank:
                both.append(send(self.here.pop(key), receiver))
            else:
                self.here[key] = self.make_room(max(from_stage, to_stage), i)
                both.append(recv(self.here[key], sender))
        begun = start(both)
        for index, (kind, i, _, to_stage, *_) in enumerate(messages):
            self.waits[kind, to_stage, i] = partial(begun.wait_for, index)

    def make_room(self, stage, i):
        return self.room(stage, i)

    def take(self, action):
        kind, stage, i = action
        if kind == "W":
            return None
        if kind != "F":
            self.has_arrived("F", stage + 1, i)
        key = "F" if kind == "F" else "B", stage, i
        self.waits.pop(key, lambda: None)()
        return self.here.pop(key, None)

    def has_arrived(self, *key):
        self.waits.pop(key, lambda: None)()

    def pass_on(self, action, made):
        kind, stage, i = action
        to = stage + 1 if kind == "F" else stage - 1
        if kind != "W" and 0 <= to <= self.last:
            if made is None:
                made = torch.full_like(self.room(max(stage, to), i), torch.nan)
            self.here["F" if kind == "F" else "B", to, i] = made

    # -- actions

    def run(self, action, given):
        kind, stage, i = action
        return {"F": self.forward, "B": self.backward, "I": self.backward_inputs, "W": self.backward_weights}[kind](
            stage, i, given
        )

    def forward(self, stage, i, given):
        x = self.inputs[i] if stage == 0 else given.requires_grad_()
        out = self.stages[stage](x)
        if stage == self.last:
            out = self.loss_of(out, self.targets[i]) * self.share(i)
            self.losses.append(out.detach())
        self.kept[stage, i] = x, out
        return out.detach().contiguous()

    def share(self, i):
        return len(self.targets[i]) / sum(map(len, self.targets))

    def backward(self, stage, i, given):
        x, out = self.kept.pop((stage, i))
        if out.requires_grad:
            out.backward(given)
        return self.gradient_of(x)

    def gradient_of(self, x):
        return torch.zeros_like(x) if x.grad is None else x.grad.contiguous()

    def backward_inputs(self, stage, i, given):
        x, out = self.kept.pop((stage, i))
        self.later[stage, i] = out, given
        if not x.requires_grad:
            return None
        (gradient,) = torch.autograd.grad(out, x, given, retain_graph=True)
        return gradient.contiguous()

    def backward_weights(self, stage, i, given):
        out, given = self.later.pop((stage, i))
        weights = self.weights_of(stage)
        if weights:
            torch.autograd.backward(out, given, inputs=weights)

    def weights_of(self, stage):
        return [weight for weight in self.stages[stage].parameters() if weight.requires_grad]

    # -- tied weights

    def tied(self):
        for places in self.ties:
            ranks = {self.schedule.rank_of_stage[stage] for stage, _ in places}
            own = [self.stages[stage].get_parameter(name) for stage, name in places if stage in self.stages]
            if own and len(ranks) > 1 and own[0].requires_grad:
                yield own[0], sorted(ranks - {self.me.rank})

    def set_tied_aside(self):
        earlier = []
        for weight, _ in self.tied():
            earlier.append(weight.grad)
            weight.grad = None
        return earlier

    def add_tied(self, earlier):
        for (weight, others), before in zip(self.tied(), earlier, strict=True):
            own = torch.zeros_like(weight) if weight.grad is None else weight.grad
            came = [torch.empty_like(own) for _ in others]
            sends = [send(own.contiguous(), rank) for rank in others]
            exchange([*sends, *(recv(one, rank) for one, rank in zip(came, others, strict=True))])
            weight.grad = sum(came, own) if before is None else sum(came, own) + before


class InSendersOrder(Final):
    """Sends start at once; who needs a message takes all that its sender has sent before it."""

    def own_moves(self):
        return [*(([], action) for action in self.schedule.rows[self.me.rank]), ([], None)]

    def begin(self, inputs, targets):
        super().begin(inputs, targets)
        sends = self.schedule.dependencies.sends
        self.coming = {
            rank: iter([sends[a] for a in row if a in sends and sends[a].receiver == self.me.rank])
            for rank, row in enumerate(self.schedule.rows)
        }

    def take(self, action):
        message = self.schedule.dependencies.awaits.get(action)
        while message and (message.kind, message.to_stage, message.micro_batch) not in self.here:
            one = next(self.coming[message.sender])
            room = self.room(max(one.from_stage, one.to_stage), one.micro_batch)
            start([recv(room, one.sender)])()
            self.here[one.kind, one.to_stage, one.micro_batch] = room
        return super().take(action)

    def pass_on(self, action, made):
        super().pass_on(action, made)
        message = self.schedule.dependencies.sends.get(action)
        if message:
            key = message.kind, message.to_stage, message.micro_batch
            self.waits[key] = start([send(self.here.pop(key), message.receiver)])


class ByTags(Final):
    """PyTorch's own calls, on the CPU: each message has a tag."""

    def own_moves(self):
        return [*(([], action) for action in self.schedule.rows[self.me.rank]), ([], None)]

    def tag(self, key):
        kind, stage, i = key
        return 2 * (stage * self.schedule.num_micro_batches + i) + (kind == "F")

    def take(self, action):
        message = self.schedule.dependencies.awaits.get(action)
        if message:
            key = message.kind, message.to_stage, message.micro_batch
            self.here[key] = self.room(max(message.from_stage, message.to_stage), message.micro_batch)
            dist.recv(self.here[key], message.sender, tag=self.tag(key))
        return super().take(action)

    def pass_on(self, action, made):
        super().pass_on(action, made)
        message = self.schedule.dependencies.sends.get(action)
        if message:
            key = message.kind, message.to_stage, message.micro_batch
            tensor = self.here.pop(key)
            work = dist.isend(tensor, message.receiver, tag=self.tag(key))
            self.waits[key] = lambda: (work.wait(), tensor)[0]


class ByEdges(Final):
    """Keeps where the backward begins in place of the output, and W begins again where gradients came in I."""

    def forward(self, stage, i, given):
        out = super().forward(stage, i, given)
        x, whole = self.kept[stage, i]
        edge = torch.autograd.graph.get_gradient_edge(whole) if whole.requires_grad else None
        self.kept[stage, i] = x, edge
        return out

    def backward(self, stage, i, given):
        x, edge = self.kept.pop((stage, i))
        if edge is not None:
            torch.autograd.backward(edge, given)
        return self.gradient_of(x)

    def backward_inputs(self, stage, i, given):
        x, edge = self.kept[stage, i]
        if not x.requires_grad:
            self.later[stage, i] = edge, given
            return None
        self.later[stage, i] = edge, given
        (gradient,) = torch.autograd.grad(edge, x, given, retain_graph=True)
        self.kept.pop((stage, i))
        return gradient

    def backward_weights(self, stage, i, given):
        edge, given = self.later.pop((stage, i))
        self.kept.pop((stage, i), None)
        weights = self.weights_of(stage)
        if weights:
            grads = torch.autograd.grad(edge, weights, given)
            for weight, grad in zip(weights, grads, strict=True):
                weight.grad = grad if weight.grad is None else weight.grad + grad


class TellsAll(Final):
    """A stage that fails is told with its number; the others raise when they meet what is no number."""

    def run(self, action, given):
        try:
            return super().run(action, given)
        except ValueError as error:
            raise RuntimeError(f"stage {action.stage} failed in {action}: {error}") from error

    def loss(self):
        loss = super().loss()
        if loss is not None and loss.isnan():
            raise RuntimeError("a stage has failed on another rank")
        return loss
