"""09.mesh: right answers to all steps in other styles than ``Final``."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from answers.lesson_09.mesh_builds.final import Final
from torch import nn

from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.pipeline import Pipeline
from course_lib.parallel.tensor import split_transformer
from course_lib.schedules import one_f_one_b


class OneForwardOneBackward(Final):
    """1F1B by hand: a stage has no more micro-batches in flight than stages follow it."""

    def forward_backward(self, tokens, targets):
        place, num_stages = self.here["pp"], len(self.pipe)
        self.before = self.pipe[place - 1] if place else None
        self.after = self.pipe[place + 1] if place + 1 < num_stages else None
        self.total, self.sends = torch.zeros((), dtype=torch.float64, device=self.me.device), []
        todo, kept = list(zip(self.deal(tokens), self.deal(targets), strict=True)), []
        ahead = min(num_stages - 1 - place, len(todo))
        for number, (x, target) in enumerate(todo):
            kept.append(self.forward(x, target, targets))
            if number >= ahead:
                self.backward(*kept.pop(0))
        for one in kept:
            self.backward(*one)
        for work in self.sends:
            work.wait()
        self.sends = []
        return self.total

    def forward(self, x, target, targets):
        if self.before is not None:
            like = next(iter(self.parts.values()))
            x = like.new_empty(*x.shape, self.config.width)
            dist.recv(x, self.before)
            x.requires_grad_()
        out = self.stage(x)
        if self.after is not None:
            self.send(out.detach(), self.after)
            return x, out
        loss = self.loss_of(out, target) * (len(target) / len(targets))
        if self.here["tp"] == 0:
            self.total += loss.detach()
        return x, loss

    def backward(self, x, out):
        came = None
        if self.after is not None:
            came = torch.empty_like(out)
            dist.recv(came, self.after)
        if out.requires_grad:
            torch.autograd.backward(out, came)
        if self.before is not None:
            self.send(x.grad, self.before)

    def send(self, tensor, to):
        self.sends.append(dist.isend(tensor.contiguous(), to))


class ByTheCoursesPipeline(Final):
    """The course's runtime, which knows ties itself; a file for each rank, with the pieces that it counts."""

    def build(self, model):
        num_stages, vocabulary = len(self.pipe), model.config.vocab_size
        stages = split_evenly(parameter_costs(model), num_stages)
        split_transformer(self.me, model, group=self.groups.group("tp"))
        schedule = one_f_one_b(num_stages, self.num_micro_batches)
        self.pipeline = Pipeline(self.me, cut(model, stages), schedule, self.scaled, ranks=self.pipe)
        self.stage = next(iter(self.pipeline.stages.values()))
        self.parts = dict(self.stage.named_parameters(remove_duplicate=False))
        self.dims = {name: self.dim_of(name) for name in self.parts}
        assert vocabulary == self.config.vocab_size

    def dim_of(self, name):
        *_, layer, kind = name.split(".")
        if layer in ("w_out", "w_down"):
            return 1 if kind == "weight" else None
        return 0 if layer in ("tokens", "w_vocab", "w_q", "w_k", "w_v", "w_up") else None

    def scaled(self, logits, target):
        return self.loss_of(logits, target) * self.share

    def forward_backward(self, tokens, targets):
        mine = [one.tensor_split(self.num_shares)[self.here["dp_shard"]] for one in (tokens, targets)]
        self.share = len(mine[0]) / len(tokens)
        loss = self.pipeline.step(*mine)
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        return total if loss is None or self.here["tp"] else total + loss.detach()

    def add_ties(self):
        """The pipeline has done so."""

    @torch.no_grad()
    def save(self, folder):
        state = self.optimizer.state.get(self.shard, {})
        like = {key: one for key, one in state.items() if torch.is_tensor(one) and one.dim()}
        vectors = {key: self.named(self.gathered(one)) for key, one in like.items()}
        vectors["weights"] = {name: part.detach() for name, part in self.parts.items()}
        rest = {key: one for key, one in state.items() if key not in vectors}
        if self.here["dp_shard"] == 0:
            first = self.here["tp"] == 0
            pieces = {
                key: {name: one.clone() for name, one in of.items() if first or self.dims[name] is not None}
                for key, of in vectors.items()
            }
            torch.save({"pieces": pieces, "rest": rest}, Path(folder) / f"{self.here['pp']}-of-tp-{self.here['tp']}.pt")
        dist.barrier()

    @torch.no_grad()
    def load(self, folder):
        found, rest = {}, {}
        for path in sorted(Path(folder).glob("*-of-tp-*.pt")):  # by stage, then by place along tp
            file = torch.load(path)
            rest |= file["rest"]
            for key, of in file["pieces"].items():
                for name, piece in of.items():
                    place = path.stem.split("-")[0]
                    found.setdefault(key, {}).setdefault((place, name), []).append(piece)
        joined = {}
        for key, of in found.items():
            for (_, name), pieces in of.items():
                dim = self.dim_of(name)
                joined.setdefault(key, {})[name] = pieces[0] if dim is None else torch.cat(pieces, dim)
        for name, part in self.parts.items():
            part.copy_(self.slice(name, joined["weights"][name]))
        self.shard.copy_(self.own_share(self.flat(self.parts)))
        for key, of in joined.items():
            if self.tied:  # saved without stages
                of.setdefault("head.w_vocab.weight", of.get("stem.tokens.weight"))
            if key != "weights":
                rest[key] = self.own_share(self.flat({name: self.slice(name, of[name]) for name in self.learning}))
        self.optimizer.state[self.shard] = rest


class ShareOfEach(Final):
    """A share of each parameter by itself, and its own place in the optimizer."""

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        self.me, self.groups, self.num_micro_batches = me, groups, num_micro_batches
        self.mesh, self.here, self.config = groups.mesh, groups.coordinates, model.config
        self.pipe, self.num_shares = self.mesh.group(me.rank, "pp"), self.mesh.size("dp_shard")
        self.tied = model.head.w_vocab.weight is model.stem.tokens.weight
        self.build(model)
        known, self.learning = set(), []
        for name, part in self.parts.items():
            if part.requires_grad and id(part) not in known:
                self.learning.append(name)
            known.add(id(part))
        self.shares = {name: nn.Parameter(self.cut(self.parts[name].detach()).clone()) for name in self.learning}
        self.optimizer = optimizer_class(list(self.shares.values()), **defaults) if self.shares else None

    def rows_of(self, tensor):
        flat = tensor.detach().flatten()
        return list(nn.functional.pad(flat, (0, -len(flat) % self.num_shares)).chunk(self.num_shares))

    def cut(self, tensor):
        return self.rows_of(tensor)[self.here["dp_shard"]]

    def joined(self, name, share):
        rows = [torch.empty_like(share) for _ in range(self.num_shares)]
        dist.all_gather(rows, share.detach().contiguous(), group=self.groups.group("dp_shard"))
        return torch.cat(rows)[: self.parts[name].numel()].view(self.parts[name].shape)

    def reduce(self):
        for name, share in self.shares.items():
            share.grad = torch.empty_like(share)
            dist.reduce_scatter(share.grad, self.rows_of(self.parts[name].grad), group=self.groups.group("dp_shard"))

    def square(self):
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        for name, share in self.shares.items():
            second = self.tied and self.here["pp"] > 0 and name == "head.w_vocab.weight"
            if not second and (self.dims[name] is not None or self.here["tp"] == 0):
                total += share.grad.square().sum()
        return total

    def step(self, tokens, targets, max_norm=None):
        for part in self.parts.values():
            part.grad = None
        loss = self.forward_backward(tokens, targets)
        with torch.no_grad():
            self.add_ties()
            self.reduce()
            square = self.square()
            dist.all_reduce(square)
            dist.all_reduce(loss)
            norm = square.sqrt()
            if max_norm is not None and norm > max_norm:
                for share in self.shares.values():
                    share.grad *= max_norm / (norm + 1e-6)
            if self.optimizer is not None:
                self.optimizer.step()
            for name, share in self.shares.items():
                share.grad = None
                self.parts[name].copy_(self.joined(name, share))
        return loss, norm  # tensors of one number

    def state_of(self, name):
        return self.optimizer.state.get(self.shares[name], {})

    @torch.no_grad()
    def save(self, folder):
        for name, part in self.parts.items():
            state = self.state_of(name) if name in self.shares else {}
            kept = {key: self.joined(name, one) if one.dim() else one for key, one in state.items() if one is not None}
            kept["weight"] = part.detach()
            whole = {key: self.whole(name, one) if one.dim() else one for key, one in kept.items()}
            if self.writes():
                torch.save(whole, Path(folder) / name)
        dist.barrier()

    @torch.no_grad()
    def load(self, folder):
        for name, part in self.parts.items():
            found = torch.load(Path(folder) / name)
            if self.tied and name == "head.w_vocab.weight" and len(found) == 1:  # saved without stages
                found = torch.load(Path(folder) / "stem.tokens.weight")
            part.copy_(self.slice(name, found.pop("weight")))
            if name in self.shares:
                self.shares[name].copy_(self.cut(part))
                self.optimizer.state[self.shares[name]] = {
                    key: self.cut(self.slice(name, one)).clone() if one.dim() else one for key, one in found.items()
                }


class FlatGroups(Final):
    """Loss and norm in calls of their own, along each axis in turn, and gradients by an all-to-all."""

    def step(self, tokens, targets, max_norm=None):
        for part in self.parts.values():
            part.grad = None
        loss = self.forward_backward(tokens, targets)
        with torch.no_grad():
            self.add_ties()
            self.reduce()
            square = self.square()
            for axis in self.mesh.axes:
                for number in (loss, square):
                    dist.all_reduce(number, group=self.groups.group(axis))
            norm = square**0.5
            self.clip(norm, max_norm)
            self.optimizer.step()
            self.shard.grad = None
            self.spread()
        return [float(loss), float(norm)]

    def reduce(self):
        whole = self.flat({name: self.parts[name].grad for name in self.learning})
        sent = list(whole.chunk(self.num_shares)) if len(whole) else [whole] * self.num_shares
        came = [torch.empty_like(sent[0]) for _ in sent]
        dist.all_to_all(came, sent, group=self.groups.group("dp_shard"))
        self.shard.grad = torch.stack(came).sum(0)
