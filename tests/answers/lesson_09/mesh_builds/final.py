"""09.mesh: right answers of several styles. ``Final`` is in pieces, so that wrong ones change one of them."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from course_lib.parallel.model import cut, parameter_costs, split_evenly
from course_lib.parallel.tensor import parameter_placements, split_transformer, vocab_parallel_cross_entropy


class Final:
    """GPipe by hand; all that learns on a rank is one vector, shared out along dp_shard; a file for each stage."""

    def __init__(self, me, groups, model, optimizer_class, num_micro_batches=2, **defaults):
        self.me, self.groups, self.num_micro_batches = me, groups, num_micro_batches
        self.mesh, self.here, self.config = groups.mesh, groups.coordinates, model.config
        self.pipe, self.num_shares = self.mesh.group(me.rank, "pp"), self.mesh.size("dp_shard")
        self.tied = model.head.w_vocab.weight is model.stem.tokens.weight
        self.build(model)
        learning = {id(part): name for name, part in reversed(self.parts.items()) if part.requires_grad}
        self.learning = [name for name in self.parts if name in learning.values()]
        with torch.no_grad():
            self.shard = nn.Parameter(self.own_share(self.flat(self.parts)).clone())
        self.counts = self.own_share(self.flat({name: self.counted(name) for name in self.learning})).clone()
        self.optimizer = optimizer_class([self.shard], **defaults)

    def build(self, model):
        stages = split_evenly(parameter_costs(model), len(self.pipe))
        split_transformer(self.me, model, group=self.groups.group("tp"))
        self.stage = cut(model, stages)[self.here["pp"]].to(self.me.device)
        self.parts = dict(self.stage.named_parameters(remove_duplicate=False))
        placements = parameter_placements(self.stage)
        self.dims = {name: getattr(placements[name], "dim", None) for name in self.parts}

    # -- vectors

    def flat(self, named):
        """One vector of all that learns here, as long as dp_shard divides."""
        some = next(iter(self.parts.values()))
        vector = torch.cat([some.new_empty(0), *(named[name].flatten() for name in self.learning)])
        return F.pad(vector, (0, -len(vector) % self.num_shares))

    def named(self, vector):
        parts = [self.parts[name] for name in self.learning]
        pieces = vector[: sum(map(torch.numel, parts))].split([part.numel() for part in parts])
        return {name: piece.view_as(self.parts[name]) for name, piece in zip(self.learning, pieces, strict=True)}

    def own_share(self, vector):
        return vector.chunk(self.num_shares)[self.here["dp_shard"]] if len(vector) else vector

    def gathered(self, share):
        rows = [torch.empty_like(share) for _ in range(self.num_shares)]
        dist.all_gather(rows, share.detach().contiguous(), group=self.groups.group("dp_shard"))
        return torch.cat(rows)

    # -- a step

    def step(self, tokens, targets, max_norm=None):
        for part in self.parts.values():
            part.grad = None
        loss = self.forward_backward(tokens, targets)
        with torch.no_grad():
            self.add_ties()
            self.reduce()
            square = self.square()
            both = torch.stack([loss, square])
            dist.all_reduce(both)
            norm = both[1].sqrt()
            self.clip(norm, max_norm)
            self.optimizer.step()
            self.shard.grad = None
            self.spread()
        return both[0].item(), norm.item()

    def deal(self, batch):
        share = batch.tensor_split(self.num_shares)[self.here["dp_shard"]].to(self.me.device)
        return [one for one in share.tensor_split(self.num_micro_batches) if len(one)]

    def weight(self, target, targets):
        return len(target) / len(targets)

    def loss_of(self, logits, target):
        group = self.groups.group("tp")
        return vocab_parallel_cross_entropy(self.me, logits, target, vocab_size=self.config.vocab_size, group=group)

    def forward_backward(self, tokens, targets):
        place = self.here["pp"]
        before = self.pipe[place - 1] if place else None
        after = self.pipe[place + 1] if place + 1 < len(self.pipe) else None
        like, kept = next(iter(self.parts.values())), []
        total = torch.zeros((), dtype=torch.float64, device=self.me.device)
        for x, target in zip(self.deal(tokens), self.deal(targets), strict=True):
            if before is not None:
                x = like.new_empty(*x.shape, self.config.width)
                dist.recv(x, before)
                x.requires_grad_()
            out = self.stage(x)
            if after is None:
                out = self.loss_of(out, target) * self.weight(target, targets)
                total += out.detach() if self.here["tp"] == 0 else 0
            else:
                dist.send(out.detach().contiguous(), after)
            kept.append((x, out))
        for x, out in kept:
            came = None
            if after is not None:
                came = torch.empty_like(out)
                dist.recv(came, after)
            if out.requires_grad:
                out.backward(came)
            if before is not None:
                dist.send(x.grad, before)
        return total

    def add_ties(self):
        ends = {self.pipe[0], self.pipe[-1]}
        if self.tied and self.me.rank in ends and len(ends) == 2:
            name = "stem.tokens.weight" if self.here["pp"] == 0 else "head.w_vocab.weight"
            if self.parts[name].requires_grad:
                other = (ends - {self.me.rank}).pop()
                own = self.parts[name].grad.contiguous()
                came = torch.empty_like(own)
                for work in (dist.isend(own, other), dist.irecv(came, other)):
                    work.wait()
                self.parts[name].grad = own + came

    def reduce(self):
        whole = self.flat({name: self.parts[name].grad for name in self.learning})
        self.shard.grad = torch.empty_like(self.shard)
        rows = list(whole.chunk(self.num_shares)) if len(whole) else [whole] * self.num_shares
        dist.reduce_scatter(self.shard.grad, rows, group=self.groups.group("dp_shard"))

    def counted(self, name):
        is_second_end = self.tied and self.here["pp"] > 0 and name == "head.w_vocab.weight"
        is_copy = self.dims[name] is None and self.here["tp"] > 0
        return torch.full_like(self.parts[name].detach(), 0.0 if is_second_end or is_copy else 1.0)

    def square(self):
        return (self.shard.grad.double().square() * self.counts).sum()

    def clip(self, norm, max_norm):
        if max_norm is not None:
            self.shard.grad *= (max_norm / (norm + 1e-6)).clamp(max=1.0)

    def spread(self):
        for name, piece in self.named(self.gathered(self.shard)).items():
            self.parts[name].copy_(piece)

    # -- checkpoints

    @torch.no_grad()
    def save(self, folder):
        kept = {"weights": {name: part.detach() for name, part in self.parts.items()}}
        state = self.optimizer.state.get(self.shard, {})
        vectors = {key: one for key, one in state.items() if torch.is_tensor(one) and one.dim()}
        kept |= {key: self.named(self.gathered(one)) for key, one in vectors.items()}
        wholes = {key: {name: self.whole(name, one) for name, one in of.items()} for key, of in kept.items()}
        if self.writes():
            rest = {key: one for key, one in state.items() if key not in vectors}
            torch.save({"wholes": wholes, "rest": rest}, Path(folder) / f"stage-{self.here['pp']}.pt")
        dist.barrier()

    def writes(self):
        return self.here["dp_shard"] == self.here["tp"] == 0

    def whole(self, name, piece):
        if self.dims[name] is None:
            return piece.clone()
        pieces = [None] * self.mesh.size("tp")
        dist.all_gather_object(pieces, piece.clone(), group=self.groups.group("tp"))
        return torch.cat(pieces, self.dims[name])

    def slice(self, name, whole):
        if self.dims[name] is None:
            return whole
        return whole.tensor_split(self.mesh.size("tp"), self.dims[name])[self.here["tp"]]

    @torch.no_grad()
    def load(self, folder):
        files = [torch.load(path) for path in sorted(Path(folder).glob("stage-*.pt"))]
        wholes, rest = {}, {}
        for file in files:
            rest |= file["rest"]
            for key, of in file["wholes"].items():
                wholes.setdefault(key, {}).update(of)
        weights = wholes.pop("weights")
        for name, part in self.parts.items():
            part.copy_(self.slice(name, weights[name]))
        self.shard.copy_(self.own_share(self.flat(self.parts)))
        state = {}
        for key, of in wholes.items():
            if self.tied:  # saved without stages
                of.setdefault("head.w_vocab.weight", of.get("stem.tokens.weight"))
            named = {name: self.slice(name, of[name]) for name in self.learning}
            state[key] = self.own_share(self.flat(named)).clone()
        self.optimizer.state[self.shard] = state | {key: self.copied(one) for key, one in rest.items()}

    def copied(self, one):
        return one.clone() if torch.is_tensor(one) else one
