"""10.choice: which experts a token has, where scores lie close together and digits are few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.learn.catalogue.exercise import Case, Evidence, Exercise, Mistake
from course_lib.learn.judging.compare import Difference, close_to, short
from course_lib.learn.judging.judge import by_cases
from course_lib.learn.judging.kept_references import Traces
from course_lib.learn.judging.mutation_guard import Kept

__all__ = ["CHOICE"]

_NUM_TOKENS, _WIDTH, _NUM_EXPERTS = 256, 32, 8
_OTHER_EXPERTS, _OTHER_DTYPE = "other-experts", "other-dtype"  # kinds of differences
_CLEAR = 1e-4  # two scores that are closer could be told apart by nobody who sums in float32
Answer = Callable[[Tensor, Tensor], Any]


@dataclass(frozen=True)
class _Inputs:
    dtype: torch.dtype
    common: float  # about what all scores have in common

    def made(self) -> tuple[Tensor, Tensor]:
        """(N, D), (E, D), both numbers that bfloat16 has; of each token second and third best are clearly apart."""
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(4 * _NUM_TOKENS, _WIDTH, generator=generator)
        router = torch.randn(_NUM_EXPERTS, _WIDTH, generator=generator) / 4
        x[:, 0], router[:, 0] = 4.0, self.common / 4
        x, router = x.bfloat16(), router.bfloat16()
        best = F.linear(x.double(), router.double()).topk(3).values
        is_clear = (best[:, :2] - best[:, 1:]).amin(1) > _CLEAR
        return x[is_clear][:_NUM_TOKENS].to(self.dtype), router.to(self.dtype)


@dataclass(frozen=True)
class _Seen:
    """For each token the weight of every expert, 0 where it was not chosen; and the gradient of the router."""

    by_expert: Tensor | None = None
    gradient: Tensor | None = None
    dtype: torch.dtype = torch.float32
    problem: str = ""

    def others(self, right: _Seen) -> int:
        """How many tokens have other experts."""
        mine, theirs = (torch.as_tensor(one.by_expert) for one in (self, right))
        return int(((mine > 0) != (theirs > 0)).any(1).sum())


def _seen(answer: Answer, inputs: _Inputs) -> Any:
    x, router = inputs.made()
    router.requires_grad_()
    kept, traces = Kept(x=x, router=router), Traces((x, router))
    got = answer(x, router)
    if got is ...:
        return ...
    if changed := kept.changes():
        return _Seen(problem=f"your code has changed what it was given: {changed}")
    if left := traces.found(got):
        return _Seen(problem=f"your code {left}")
    shape = (_NUM_TOKENS, 2)
    if not isinstance(got, tuple | list) or len(got) != 2 or not all(isinstance(one, Tensor) for one in got):
        return _Seen(problem=f"two tensors are to come, experts and weights, and what came is {short(got)}")
    experts, weights = got
    if experts.dtype != torch.int64 or experts.shape != shape or weights.shape != shape:
        said = [f"{tuple(one.shape)} of {one.dtype}" for one in got]
        return _Seen(
            problem=f"experts {shape} of torch.int64 and weights {shape} are to come; {' and '.join(said)} came"
        )
    if not 0 <= int(experts.min()) <= int(experts.max()) < _NUM_EXPERTS or bool((experts[:, 0] == experts[:, 1]).any()):
        return _Seen(problem=f"two of the experts 0 to {_NUM_EXPERTS - 1} are to come for each token")
    by_expert = torch.zeros(_NUM_TOKENS, _NUM_EXPERTS, dtype=torch.float64).scatter(1, experts, weights.double())
    if by_expert.requires_grad:
        (by_expert * torch.arange(_NUM_EXPERTS)).sum().backward()
    gradient = torch.zeros_like(router) if router.grad is None else router.grad
    return _Seen(by_expert.detach(), gradient.double(), weights.dtype)


def _right(inputs: _Inputs) -> _Seen:
    """In float64."""
    x, router = (one.double() for one in inputs.made())
    router.requires_grad_()
    shares = F.linear(x, router).softmax(-1)
    is_chosen = shares >= shares.detach().topk(2).values[:, 1:]
    by_expert = shares * is_chosen
    (by_expert * torch.arange(_NUM_EXPERTS)).sum().backward()
    return _Seen(by_expert.detach(), router.grad, inputs.dtype)


def _compare(right: Any, got: Any) -> str:
    if not isinstance(got, _Seen) or got.problem:
        return got.problem if isinstance(got, _Seen) else f"two tensors are to come, and what came is {short(got)}"
    if others := got.others(right):
        return Difference(f"{others} of {_NUM_TOKENS} tokens have other experts than in float64", _OTHER_EXPERTS)
    few = right.dtype == torch.bfloat16
    if found := close_to(1e-2 if few else 1e-4, 1e-6)(right.by_expert, got.by_expert):
        return f"the experts are right; their weights, by token and expert: {found}"
    if got.dtype != right.dtype:
        words = f"experts and weights are right, but the weights come as {got.dtype}, where x is {right.dtype}"
        return Difference(words, _OTHER_DTYPE)
    scale = float(right.gradient.abs().max())
    if found := close_to(0.0, scale * (2e-2 if few else 1e-4))(right.gradient, got.gradient):
        return f"experts and weights are right; the gradient that comes to the router: {found}"
    return ""


# -- usual wrong answers ----------------------------------------------------------------------------------------------


def _among_two(x: Tensor, router: Tensor) -> Any:
    best, experts = F.linear(x.float(), router.float()).topk(2)
    return experts, best.softmax(-1).to(x.dtype)


def _rounds_first(evidence: Evidence) -> bool:
    """Other experts where scores are large in bfloat16, and none in float32, of what is right otherwise."""
    return evidence.error is None and all(
        "bfloat16" in o.case and o.kind_of_difference == _OTHER_EXPERTS for o in evidence.wrong
    )


CHOICE = Exercise(
    name="10.choice",
    title="A choice with enough digits",
    judge=by_cases(
        [
            Case("bfloat16, scores around 20", (_Inputs(torch.bfloat16, 20.0),), _right),
            Case("bfloat16, scores around -50", (_Inputs(torch.bfloat16, -50.0),), _right),
            Case("float32, scores around 20", (_Inputs(torch.float32, 20.0),), _right),
        ],
        call=_seen,
        compare=_compare,
    ),
    mistakes=(
        Mistake(
            "rounded-before-the-choice",
            "In float32 all is right. In bfloat16 some tokens still have other experts: scores, or what softmax made "
            "of them, were rounded to bfloat16 before two were chosen. A later change of dtype does not bring back "
            "what was rounded away.",
            recognise=_rounds_first,
        ),
        Mistake(
            "weights-of-another-dtype",
            "Experts and weights are right, but the weights are float32. The layer multiplies them with outputs in "
            "the dtype of x, and the products would be float32 from there on.",
            recognise=lambda evidence: all(
                o.kind_of_difference == _OTHER_DTYPE and o.got.dtype == torch.float32 for o in evidence.wrong
            ),
        ),
        Mistake(
            "softmax-of-two",
            "The experts are right, and the two weights add up to 1: you chose first, and took softmax of those two "
            "scores. The team's weights are parts of a softmax over all experts, and the experts have learned with "
            "these.",
            _among_two,
        ),
        Mistake(
            "router-detached",
            "Experts and weights are right, but no gradient comes to the router: it would never learn to choose.",
            recognise=lambda evidence: all(
                isinstance(o.got, _Seen) and o.got.gradient is not None and not o.got.gradient.any()
                for o in evidence.outcomes
            ),
        ),
    ),
    hints=(
        "Two scores are about 20: how far apart are neighbouring numbers of bfloat16 there? At which step is a number "
        "first rounded so?",
        "A product of two bfloat16 tensors is rounded to bfloat16 when it is done. What has to be in float32 when the "
        "product begins?",
        "`F.linear(x.float(), router.float())`; the other two lines stay.",
    ),
    passed="Every token has the experts that float64 would choose, with weights in the dtype of x.",
)
