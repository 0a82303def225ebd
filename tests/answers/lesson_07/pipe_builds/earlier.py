"""07.pipe: short answers that pass the first steps, and no later one."""

from __future__ import annotations

import torch

from course_lib.cluster import exchange, recv, send, start


class OneByOne:
    """Step 1: every message is waited for at once, and a rank has one stage."""

    def __init__(self, me, stages, schedule, loss_of, room, ties=()):
        self.me, self.stage, self.schedule = me, stages[me.rank], schedule
        self.loss_of, self.room = loss_of, room

    def step(self, inputs=None, targets=None):
        first, last = self.me.rank == 0, self.me.rank == self.me.world_size - 1
        kept, total = {}, torch.zeros((), dtype=torch.float64, device=self.me.device)
        for kind, _, i in self.schedule.rows[self.me.rank]:
            if kind == "F":
                x = inputs[i] if first else self.room(self.me.rank, i)
                if not first:
                    exchange([recv(x, self.me.rank - 1)])
                    x.requires_grad_()
                out = self.stage(x)
                if last:
                    out = self.loss_of(out, targets[i]) / len(targets)
                    total += out.detach()
                else:
                    exchange([send(out.detach(), self.me.rank + 1)])
                kept[i] = x, out
            else:
                grad = None if last else self.room(self.me.rank + 1, i)
                if not last:
                    exchange([recv(grad, self.me.rank + 1)])
                x, out = kept.pop(i)
                out.backward(grad)
                if not first:
                    exchange([send(x.grad, self.me.rank - 1)])
        return total if last else None


class WaitsLater(OneByOne):
    """Steps 2 and 3: sends begin at once; an output that was sent is let go with its gradient."""

    def step(self, inputs=None, targets=None):
        me, last = self.me.rank, self.schedule.num_stages - 1
        kept, begun, losses = {}, [], []
        for kind, _, i in self.schedule.rows[me]:
            if kind == "F":
                x = inputs[i] if me == 0 else self.came(me, i, me - 1).requires_grad_()
                out, sent = self.stage(x), None
                if me == last:
                    out = self.loss_of(out, targets[i]) / len(targets)
                    losses.append(out.item())
                else:
                    sent = start([send(out.detach(), me + 1)])
                kept[i] = x, out, sent
                del x, out, sent
            else:
                grad = None if me == last else self.came(me + 1, i, me + 1)
                x, out, sent = kept.pop(i)
                if sent is not None:
                    sent()
                out.backward(grad)
                if me > 0:
                    begun.append(start([send(x.grad, me - 1)]))
                del x, out, sent, grad
        for one in begun:
            one()
        return torch.tensor(sum(losses)) if losses else None

    def came(self, stage, i, rank):
        room = self.room(stage, i)
        start([recv(room, rank)])()
        return room
