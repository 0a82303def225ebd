"""Where a bet and a verdict part: a sentence that says what such a bet mixes up.

A table of sentences, one for each claim and its tempting miss: ``TRUSTED`` for claims that were bet to be relied on
and cannot be, ``DOUBTED`` the other way round. Which of the two is told depends on what the trial found, so that no
sentence speaks of a verdict that was not seen. Near misses have sentences of their own.
"""

from __future__ import annotations

__all__ = ["DOUBTED", "TRUSTED", "parted"]

_RELY = ("holds", "holds with conditions")

TRUSTED = {
    "A3": "It is the usual first answer to a full memory. There is another way: each rank keeps a part of every layer, "
    "and a layer is whole only while it is used.",
    "A4": "The two names differ by a word, and people mix them up. A trial can count processes.",
    "A5": "Three arguments look like all that is needed. Under `torchrun` the rest stands in environment variables, "
    "which the script does not show.",
    "A6": "With `device_ids` the wrapper looks as if it knew where the model belongs. It checks "
    "that, and moves inputs there, but no weights.",
    "A7": "No error comes, and each loss goes down, so this claim is easy to believe.",
    "A9": "In mpi4py and in most queues a receive returns what came, so one writes it without looking.",
    "A10": "The forward pass looks complete. But autograd's graph ends where the process ends.",
    "B2": "Bytes that cross a link are easy to see, and a device that waits is not. Compare the two in seconds.",
    "B3": "You may have thought of what those operations can do, and not of what they do with ordinary tensors.",
    "B6": "Micro-batches look like the shares of data parallelism. But look at which rank holds which weights.",
    "C4": "To move the model first is good style, so the opposite order sounds like a mistake. When are the replicas "
    "made?",
    "C6": "Two things are mixed up here: that batches differ, and that no sample is in two of them.",
    "C7": "That is so with one process for each device. This class is given the whole batch, and cuts it.",
    "D1": "It is a good warning that goes too far: it takes what one slow link shows for all links.",
    "D2": "Twice the devices have twice the memory together. But what every rank keeps takes its room on every rank.",
    "D7": "That is so on a usual build of Python. Look at the row of the interpreter lock: without it threads need "
    "not take turns.",
    "E1": "A list of three is easy to learn, and was complete once. Which of the three is sharding?",
    "E2": 'A script that sees a device need not use it. "cuda:0" names one device.',
    "E4": "One would like a utilisation figure to say that. It says that a kernel ran, and not what for.",
    "E7": "Both cut between layers, so people use both names for either. Count how many batches are on their way at "
    "once.",
}
DOUBTED = {
    "A1": "You may have thought of sharding, where no rank keeps the whole model. Replicas are the other way to do it.",
    "A2": "Under DDP nothing of the kind is sent, and you were right to think of it. The sentence speaks of data "
    "parallelism, and there are other ways to do that.",
    "A8": "A sampler that shuffles looks as if it did so anew in each epoch. It does not count epochs by itself.",
    "A11": "With the fast links of a data centre one may never see it. It takes one slow link.",
    "A12": "One axis is enough until it runs out of pieces: heads, layers, samples.",
    "B1": "You may have thought of a trainer, which wraps the model for you. The framework below it does not.",
    "B4": "Perhaps you looked at the last bits. The algebra is the same.",
    "B5": "You saw the conditions, and they are real. With many micro-batches and equal stages the claim is true.",
    "C1": "Each replica is made anew at each step, which looks like a split of the model, but is a copy.",
    "C2": "You may have thought of large layers, which give threads little to wait for. With many small ones there is "
    "a queue.",
    "C3": "With a full batch for each device the speed-up comes close to proportional, and no closer. With one batch "
    "for all devices it is far off.",
    "C5": "One expects that ranks share out the data. Without a distributed sampler each draws for itself.",
    "C8": "The claim calls the sentence a myth. So the trial asks whether 'always' is wrong, and one case is enough "
    "for that.",
    "C9": "Gradients that are sent later cost no accuracy as long as the weights wait as well. Ranks that step by "
    "themselves drift apart.",
    "C10": "Small shares do not change the mean of gradients. They change a layer that looks at its batch.",
    "C11": "You may have thought of small messages, where the start of a call decides. For large ones the path "
    "decides.",
    "C12": "The cost of a message has a part that does not shrink with it, and this part decides.",
    "C13": "You may have looked at the bytes of the gradients, which stay the same. Those of activations do not.",
    "C14": "With one process all works, so one overlooks what goes wrong with several.",
    "C15": "With the usual mean one may forget that DDP averages as well. It does so whatever the loss did before.",
    "D3": "You may have asked for the gradient of the whole batch. That is another comparison, and BatchNorm spoils it "
    "for both sides.",
    "D4": "You saw the exceptions, and there are some. The ordinary loop is none of them.",
    "D5": "It looks unnecessary, until a file is loaded with `strict=False` and none of its weights arrive.",
    "D6": "Weights, gradients and optimizer state stay on the first GPU; the others get copies of the weights for a "
    "step.",
    "D7": "A thread for each device sounds like enough. Where there is an interpreter lock, they share it.",
    "E3": "It is plain arithmetic, if you count the padding. Count by hand: halve 224 twice.",
    "E5": "You thought of lengths that do not divide, and they are the condition. With other lengths no sample is "
    "repeated.",
    "E6": "You may have thought of an all-reduce after backward. Buckets leave while earlier layers compute.",
    "E8": "What you doubt may be memory, or many small kernels. The claim speaks of idle time, and that falls.",
    "E9": "It is the definition of a product, read by columns.",
    "E10": "You saw that some layers need neither. Others need what the claim says.",
    "E11": "You may have thought of the two matrices of a region, between which nothing is sent. Behind them there is "
    "a sum, and a block has two such regions.",
    "E12": "One can build a case in which it is the other way round, and the trial does. The usual job is another.",
    "E13": "In a pipeline the first stage keeps several micro-batches, and it may look like more than before.",
}


def parted(name: str, bet: str, verdict: str) -> str:
    """What a bet on the claim ``name`` mixes up, given what its trial said. Empty where there is nothing to add."""
    trusts, holds = bet in _RELY, verdict in _RELY
    if trusts == holds:
        return _near(bet, verdict)
    return (TRUSTED if trusts else DOUBTED).get(name, "")


def _near(bet: str, verdict: str) -> str:
    if bet == verdict:
        return ""
    if verdict == "holds with conditions":
        return "Near: it does happen. What you left out is a condition that belongs to the sentence."
    if verdict == "holds":
        return "Near: you kept a condition in mind. It was so wherever the trial looked."
    if verdict == "false":
        return "Near: one cannot rely on it. But no reading of the words was true in the trial."
    return (
        "Near: one cannot rely on it. But the words can be read so that they are true; what is wrong is what a reader "
        "takes from them."
    )
