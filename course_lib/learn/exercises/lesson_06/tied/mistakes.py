"""06.tied: wrong answers, each wrong in one way, and how some are told by what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cluster.base.point_to_point import exchange, recv, send
from course_lib.cluster.failures.rank_stands import RankStand, RankStands
from course_lib.learn.catalogue.exercise import AnswerOutcome, Evidence
from course_lib.learn.exercises.lesson_06.tied.trial import BYTES, IN_FLIGHT, KEPT, STEPS, SUM, compare, gradient
from course_lib.learn.judging.report import NOTHING

# -- wrong answers ----------------------------------------------------------------------------------------------


def with_theirs(use: Callable[[Any, Tensor], None], *, of: str = "grad") -> Callable[..., None]:
    """Swap the gradients (or the weights), then do something with what came."""

    def answer(me: Any, weight: nn.Parameter, other: int) -> None:
        mine = weight.grad if of == "grad" else weight.detach().clone()
        assert mine is not None
        theirs = torch.empty_like(mine)
        exchange([send(mine, other), recv(theirs, other)])
        with torch.no_grad():
            use(weight, theirs)

    return answer


def replace(weight: Any, theirs: Tensor) -> None:
    weight.grad = theirs


def add_to_weight(weight: Any, theirs: Tensor) -> None:
    weight += theirs


def one_way(me: Any, weight: Any, other: int) -> None:
    if me.rank:
        exchange([send(weight.grad, other)])
    else:
        theirs = torch.empty_like(weight.grad)
        exchange([recv(theirs, other)])
        weight.grad += theirs


# -- what they leave behind -------------------------------------------------------------------------------------


def _stuck(evidence: Evidence, num_ranks: int) -> RankStands:
    """Where ranks stood that wait for ever, where so many did first."""
    error = evidence.error
    is_stuck = error is not None and error.kind == "RankTimeout"
    return evidence.stands if is_stuck and evidence.wrong[0].num_ranks == num_ranks else RankStands()


def _in_messages(stands: RankStands) -> list[RankStand]:
    return [*stands.waiting_in("send"), *stands.waiting_in("receive")]


def both_wait_in(what: str) -> Callable[[Evidence], bool]:
    return lambda evidence: len(_stuck(evidence, 2).waiting_in(what)) == 2


def one_waits_alone(evidence: Evidence) -> bool:
    stands = _stuck(evidence, 2)
    return len(_in_messages(stands)) == 1 and bool(stands.have_returned)


def waits_for_the_middle(evidence: Evidence) -> bool:
    """Whether two ranks went well, and with more a collective waits for ranks that never call it."""
    stands = _stuck(evidence, 4)
    return bool(stands.never_called) and not _in_messages(stands)


def _copies(evidence: Evidence) -> Iterator[AnswerOutcome]:
    for outcome in evidence.outcomes:
        if outcome.error is None and isinstance(outcome.got, dict) and BYTES in outcome.got:
            yield outcome


def touches_in_flight(evidence: Evidence) -> bool:
    """Whether a rank was seen to use, or to change, the tensor of a message in flight."""
    return evidence.error is None and any(one.got[IN_FLIGHT] != NOTHING for one in _copies(evidence))


def _all_sums(evidence: Evidence, holds: Callable[[Any, Tensor], bool]) -> bool:
    pairs = [
        (outcome.got[f"{SUM} {step + 1}"], outcome.expected[f"{SUM} {step + 1}"])
        for outcome in _copies(evidence)
        for step in range(STEPS)
    ]
    return (
        evidence.error is None
        and bool(pairs)
        and all(isinstance(got, Tensor) and got.shape == want.shape and holds(got, want) for got, want in pairs)
    )


def is_scaled(factor: float) -> Callable[[Evidence], bool]:
    return lambda evidence: _all_sums(
        evidence, lambda got, want: torch.allclose(got, factor * want, rtol=1e-6, atol=1e-7)
    )


def keeps_its_own(evidence: Evidence) -> bool:
    """Whether each copy has the gradient that its own backward pass has left, and nothing else has changed."""

    def own(outcome: AnswerOutcome) -> bool:
        mine = gradient(outcome.kind, outcome.rank, 0)
        got = outcome.got[f"{SUM} 1"]
        return isinstance(got, Tensor) and torch.equal(got, mine) and outcome.got[KEPT] == NOTHING

    return evidence.error is None and all(map(own, _copies(evidence)))


def holds_the_others(evidence: Evidence) -> bool:
    """Whether each copy has one of the two gradients alone, and at least one copy has not its own."""

    def whose(outcome: AnswerOutcome) -> str:
        got, last = outcome.got[f"{SUM} 1"], outcome.num_ranks - 1
        for name, of in (("own", outcome.rank), ("other", last - outcome.rank)):
            if isinstance(got, Tensor) and torch.equal(got, gradient(outcome.kind, of, 0)):
                return name
        return "neither"

    found = {whose(outcome) for outcome in _copies(evidence)}
    return evidence.error is None and "other" in found and "neither" not in found


def nearly_right_and_shorter(evidence: Evidence) -> bool:
    near = _all_sums(evidence, lambda got, want: torch.allclose(got.to(want), want, rtol=0.05, atol=0.05))
    return near and all(outcome.got[BYTES] < outcome.expected[BYTES] for outcome in _copies(evidence))


def only_sends_more(evidence: Evidence) -> bool:
    """Whether nothing is wrong but the bytes."""
    alike = [compare(o.expected, {**o.got, BYTES: o.expected[BYTES]}) == "" for o in _copies(evidence)]
    more = [outcome.got[BYTES] > outcome.expected[BYTES] for outcome in _copies(evidence)]
    return evidence.error is None and bool(more) and all(alike) and all(more)
