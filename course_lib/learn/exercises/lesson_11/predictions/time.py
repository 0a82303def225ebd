"""Part b of lesson 11: how long a step takes, a bet on a layout, and its regret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from course_lib.cost.mesh.mesh_time import MeshStepTime
from course_lib.learn.catalogue.prediction_spec import Asked, Explanation

__all__ = ["TIME"]


def _near(times_s: Sequence[float], tie: float) -> Explanation:
    """From the step of every layout that runs, the fastest first; and up to which ratio two are a tie."""
    near = sum(time_s <= tie * times_s[0] for time_s in times_s)
    return Explanation(
        measured=near,
        label="computed",
        because=f"{len(times_s):,} layouts fit. The planner puts {near} of them less than {tie - 1:.0%} above the "
        "fastest. Many are twins: the same axes with another micro-batch, other virtual stages, or more computed "
        "again. The planner cannot put them in order. But it can distinguish them from the others: the slowest takes "
        f"{times_s[-1] / times_s[0]:.0f} times as long. So choose among the tied ones by what the planner does not "
        "know, such as what your software does well. Measure a few that differ.",
        misreadings={
            1: "It would be alone only if no other were near it. Look at how far apart two have to be.",
            len(times_s): "Those are all that fit.",
            (lambda answer: answer > 4 * near): "There are fewer. In most layouts ranks wait for many bytes, or "
            "matrices are cut so thin that a GPU is partly idle.",
        },
    )


def _hidden(measured_ms: float, backward_ms: float, link_ms: float, num_buckets: int) -> Explanation:
    """From what a step waits for gradients after its backward pass, and the two times in ms."""
    one_ms, share = link_ms / num_buckets, (num_buckets - 1) / num_buckets
    model_ms = max(one_ms, link_ms - share * backward_ms)
    misreadings = {
        round(link_ms): "It would wait so long with one bucket. But full buckets travel while others are filled.",
        0: "The last bucket is full when the backward pass ends, so something always waits.",
    }
    if link_ms > backward_ms:
        misreadings |= {
            round(link_ms - backward_ms): "Then the link would begin with the backward pass. At that moment there is "
            "no gradient yet.",
            round(one_ms): "That is the last bucket alone. Here the link is slower than backward, and still has "
            "earlier ones to send.",
        }
    return Explanation(
        measured=round(measured_ms),
        model=round(model_ms),
        because="The link has nothing to send until the first bucket is full, after "
        f"{backward_ms / num_buckets:.0f} of {backward_ms:.0f} ms. From then on it works without a pause, "
        f"{link_ms:.0f} ms. The last bucket is full only when the backward pass ends: its {one_ms:.0f} ms are waited "
        "for in any case.",
        misreadings=misreadings,
        apart="Each round of a collective has a start on a busy machine, which the model leaves out.",
    )


# -- the bet ------------------------------------------------------------------------------------------------------

_PLANS = (
    "dp_replicate=4",
    "dp_shard=4",
    "tp=4",
    "pp=4",
    "dp_replicate=2 tp=2",
    "pp=2 dp_replicate=2",
    "pp=2 tp=2",
)
_APART = "The two are near each other, or the machine was busy: look at both times, and run the plans once more."
Played = Mapping[str, MeshStepTime]


def _ms(time_s: float) -> str:
    return f"{time_s * 1e3:.0f} ms"


def _waits(step: MeshStepTime) -> str:
    waited = [f"{_ms(time_s)} along {axis}" for axis, time_s in step.waited_s.items() if axis != "loss"]
    return f"by the model a rank computes {_ms(step.compute_s)} and waits {' and '.join(waited)}"


_REASONS: dict[str, Callable[[MeshStepTime], str]] = {
    "dp_replicate=4": lambda step: "All gradients go round a ring that passes from node to node: " + _waits(step),
    "dp_shard=4": lambda step: (
        "It keeps the least memory, and gathers the weights as well, for forward and again for backward: "
        + _waits(step)
    ),
    "tp=4": lambda step: (
        "Four ranks do not fit on a node of two, so every sum in every layer passes between nodes: " + _waits(step)
    ),
    "pp=4": lambda step: "It sends the least. But four stages have three slots of bubble: " + _waits(step),
    "dp_replicate=2 tp=2": lambda step: (
        "The usual order, `tp` within the node. Then gradients pass between nodes, and nothing hides them: "
        + _waits(step)
    ),
    "pp=2 dp_replicate=2": lambda step: (
        "The activations of one cut pass between nodes, and gradients stay within: " + _waits(step)
    ),
    "pp=2 tp=2": lambda step: (
        "Each rank of `tp` sends its stage's activations between nodes, whole, and the sums come "
        "on top: " + _waits(step)
    ),
}


def _wrong(played: Played, *right: str) -> dict[str, str]:
    """Why each plan is not the best: without a time here, it does not fit."""
    return {
        name: f"{_REASONS[name](played[name])}."
        if name in played
        else "It does not fit: the table above has its states. Memory first, then time."
        for name in _PLANS
        if name not in right
    }


def _fastest(times_s: Mapping[str, float]) -> str:
    return min(times_s, key=lambda name: times_s[name])


def _longer(times_s: Mapping[str, float], played: Played) -> str:
    """A sentence, if all steps took longer than the model says."""
    if any(time_s <= played[name].step_s for name, time_s in times_s.items()):
        return ""
    return (
        " Measured steps are longer than played ones: real ranks take a while to start each message, and the model "
        "does not count that."
    )


def _bet(times_s: Mapping[str, float], played: Played) -> Explanation:
    """From the measured steps of some plans, and the played steps of all that fit."""
    measured, model = _fastest(times_s), _fastest({name: step.step_s for name, step in played.items()})
    return Explanation(
        measured=measured,
        model=model,
        because=f"{_REASONS[model](played[model])}. Each plan computes as much; the plans differ in which bytes get "
        f"the slow link, and in which ranks wait for them.{_longer(times_s, played)}",
        misreadings=_wrong(played, measured, model),
        apart=_APART,
    )


def _fast(times_s: Mapping[str, float], played: Played) -> Explanation:
    """The same for equal links."""
    measured, model = _fastest(times_s), _fastest({name: step.step_s for name, step in played.items()})
    return Explanation(
        measured=measured,
        model=model,
        because=f"{_REASONS[model](played[model])}. Ranks gather sharded weights one unit ahead, and in the model "
        "messages that arrive in time cost nothing. A pipeline keeps its bubble on any link, and nothing hides a sum "
        f"of `tp`.{_longer(times_s, played)} The best layout depends on the job *and* its links: compute again when "
        "either changes.",
        misreadings=_wrong(played, measured, model),
        apart=_APART,
    )


TIME: tuple[Asked, ...] = (
    Asked(
        name="11.near",
        question="How many layouts are a tie with the fastest?",
        unit="layouts",
        high=1e5,
        tell=_near,
    ),
    Asked(
        name="11.hidden",
        question="How long does the step wait for gradients after its backward pass?",
        unit="ms",
        high=1e5,
        tell=_hidden,
    ),
    Asked(
        name="11.bet",
        question="Which of the seven plans has the shortest step?",
        choices=_PLANS,
        tell=_bet,
    ),
    Asked(
        name="11.fast",
        question="The link between nodes is now as fast as the one within a node: which plan is best?",
        choices=_PLANS,
        tell=_fast,
    ),
)
