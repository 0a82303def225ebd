"""08.split: builds that keep too much, sum too little, or drop what they should not."""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from answers.lesson_08.split_builds.final import Final
from torch import nn

from course_lib.parallel.tensor import all_gather_split, split_all_gather

# -- memory ------------------------------------------------------------------------------------------------------------


class KeepsTheModel(Final):
    def cut(self, model):
        self.model = model
        return super().cut(model)


class KeepsNumbers(Final):
    """All weights once more, as bytes."""

    def cut(self, model):
        self.saved = {name: p.detach().cpu().numpy().tobytes() for name, p in model.named_parameters()}
        return super().cut(model)


class KeepsLogits(Final):
    def linear(self, name, x):
        made = super().linear(name, x)
        if name == "head.w_vocab":
            self.logits = made.detach()
        return made


class KeepsHidden(Final):
    """GELU by hand: each product on the way is kept."""

    def mlp(self, name, x):
        x = self.linear(f"{name}.w_up", self.enter(x))
        for _ in range(3):
            x = x * torch.ones_like(x).requires_grad_()
        return self.rows(f"{name}.w_down", F.gelu(x))


# -- positions ---------------------------------------------------------------------------------------------------------


class IgnoresSequence(Final):
    def __init__(self, me, model, group=None, sequence=False):
        super().__init__(me, model, group)
        self.divides = sequence

    def loss(self, tokens, targets):
        if self.divides and tokens.size(1) % self.count:
            raise ValueError(f"{tokens.size(1)} positions, {self.count} ranks")
        return super().loss(tokens, targets)


class NormsNotSummed(Final):
    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.parts.get(f"{name}.weight"), self.parts.get(f"{name}.bias"))


class BiasesNotSummed(Final):
    def rows(self, name, x):
        y = self.leave(F.linear(x, self.parts[f"{name}.weight"]))
        bias = self.parts.get(f"{name}.bias")
        return self.dropped(y if bias is None else y + bias)


class PositionsPartial(Final):
    """Each rank's rows by a slice."""

    def stem(self, tokens):
        positions = self.parts["stem.positions.weight"][: tokens.size(1)]
        if self.sequence:
            positions = positions.chunk(self.count)[self.place]
        return self.dropped(self.leave(self.found(tokens)) + positions)


class GathersAndSplits(Final):
    """An entrance whose gradients are not summed."""

    def enter(self, x):
        return all_gather_split(self.me, x, dim=1, group=self.group) if self.sequence else super().enter(x)


# -- dropout -----------------------------------------------------------------------------------------------------------


class DropsNothing(Final):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.p = 0.0


class DropsInEval(Final):
    def __init__(self, me, model, group=None, sequence=False):
        super().__init__(me, model, group, sequence)
        self.p = model.config.dropout


class OneSeed(Final):
    """The same masks on all ranks, everywhere."""

    @contextlib.contextmanager
    def own_numbers(self):
        yield


class OneSeedInHeads(Final):
    """Own masks at own positions alone."""

    def attention(self, name, x):
        own, self.own_numbers = self.own_numbers, contextlib.nullcontext
        rows, self.rows = self.rows, lambda *given: self.rows_by(own, rows, *given)
        try:
            return super().attention(name, x)
        finally:
            del self.own_numbers, self.rows

    def rows_by(self, own, rows, name, x):
        self.own_numbers = own
        return rows(name, x)


class OneSeedAtPlaces(Final):
    """Own masks inside attention alone."""

    def dropped(self, x):
        return F.dropout(x, self.p)


class OneSeedAfterTheMlp(Final):
    def mlp(self, name, x):
        sequence, hidden = self.sequence, F.gelu(self.linear(f"{name}.w_up", self.enter(x)))
        y = self.leave(F.linear(hidden, self.parts[f"{name}.w_down.weight"]))
        bias = self.shared(f"{name}.w_down.bias")
        self.sequence = False
        y = self.dropped(y if bias is None else y + bias)
        self.sequence = sequence
        return y


class SeedOfTheRank(Final):
    """A seed that is set anew each time."""

    @contextlib.contextmanager
    def own_numbers(self):
        with torch.random.fork_rng([]):
            torch.manual_seed(1234 + self.place)
            yield


class SeedStays(Final):
    """Seeded by the rank, and left so."""

    @contextlib.contextmanager
    def own_numbers(self):
        torch.manual_seed(int(torch.randint(2**62, ())) + self.place)
        yield


class OwnEverywhere(Final):
    def dropped(self, x):
        if not self.p:
            return x
        with self.own_numbers():
            return F.dropout(x, self.p)


# -- awkward -----------------------------------------------------------------------------------------------------------


class NoSentence(Final):
    """Shapes that do not fit say something of themselves."""

    def loss(self, tokens, targets):
        try:
            return super().loss(tokens, targets)
        except ValueError as error:
            raise RuntimeError("it does not fit") from error


class Replaces(Final):
    """Gradients are taken away when a step begins."""

    def loss(self, tokens, targets):
        for part in self.parts.values():
            part.grad = None
        return super().loss(tokens, targets)


class TiesApart(Final):
    def cut(self, model):
        return {
            name: nn.Parameter(self.own(name, whole.detach()).to(self.me.device), whole.requires_grad)
            for name, whole in model.named_parameters(remove_duplicate=False)
        }


class OneNameOfATie(Final):
    def cut(self, model):
        parts = super().cut(model)
        names = dict(model.named_parameters())
        return {name: part for name, part in parts.items() if name in names}

    def linear(self, name, x):
        missing = f"{name}.weight" not in self.parts
        return F.linear(x, self.parts["stem.tokens.weight"]) if missing else super().linear(name, x)


class AllLearn(Final):
    def cut(self, model):
        parts = super().cut(model)
        for part in parts.values():
            part.requires_grad_(True)
        return parts


class EvenPartsOnly(Final):
    """A rank's first row is its place times its own size."""

    def here(self, tokens):
        size = len(self.parts["stem.tokens.weight"])
        place = tokens - self.place * size
        is_here = (place >= 0) & (place < size)
        return torch.where(is_here, place, 0), is_here


class AsManyKeys(Final):
    def own(self, name, whole):
        if "w_k" in name or "w_v" in name:
            missing = self.config.num_heads // self.config.kv_heads
            whole = whole.repeat(missing, *[1] * (whole.dim() - 1))
        return super().own(name, whole)


class AlwaysFloat64(Final):
    def cross_entropy(self, logits, targets):
        return super().cross_entropy(logits, targets).double()

    def own(self, name, whole):
        return super().own(name, whole).double()


class WholeContext(Final):
    """All positions of the table, whatever comes."""

    def stem(self, tokens):
        positions = self.parts["stem.positions.weight"]
        if self.sequence:
            positions = split_all_gather(self.me, positions[: tokens.size(1)], dim=0, group=self.group)
        elif len(positions) > tokens.size(1) and tokens.size(0) == 1:
            positions = positions[-tokens.size(1) :]
        else:
            positions = positions[: tokens.size(1)]
        return self.dropped(self.leave(self.found(tokens)) + positions)


class WholeWorld(Final):
    """Knows its place in the group, and sums over everybody."""

    def __init__(self, me, model, group=None, sequence=False):
        super().__init__(me, model, group, sequence)
        self.group = None


class SharedParts(Final):
    """The dictionary belongs to the class."""

    common = {}  # noqa: RUF012

    def cut(self, model):
        self.common.clear()
        self.common.update(super().cut(model))
        return self.common


class TwoAtLeast(Final):
    def __init__(self, me, model, group=None, sequence=False):
        super().__init__(me, model, group, sequence)
        if me.world_size == 1:
            raise RuntimeError("nobody is there to share with")
