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
    "A4": "The two names differ by a word, and people say the one for the other. What a trial can count are processes.",
    "A5": "Three arguments look like all, because under `torchrun` the rest stands in the environment, where nobody "
    "sees it.",
    "A6": "With `device_ids` the wrapper looks as if it knew where the model belongs. It checks "
    "that, and moves inputs there, but no weights.",
    "A7": "Nothing complains, and each loss goes down: that is what makes this one so easy to believe.",
    "A9": "So it is in mpi4py and in most queues, and so one writes it without looking.",
    "A10": "Forward looks whole. What you expect autograd to carry back ends where the process ends.",
    "B2": "Bytes that cross a wire are easy to see, and a device that waits is not. Compare the two in seconds.",
    "B3": "You may have thought of what those operations can do, and not of what they do with the tensors that "
    "everybody has.",
    "B6": "Micro-batches look like shares of the data. Ask who holds which weights, and the likeness is gone.",
    "C4": "The order is good style, and so its opposite sounds like a mistake. When are the replicas made?",
    "C6": "Two things are mixed up here: that batches differ, and that no sample is in two of them.",
    "C7": "That is how it is with one process for each device. This class is handed the whole batch, and cuts it.",
    "D1": "It is a good warning, taken too far: one slow link decides for all links.",
    "D2": "Twice the devices are twice the memory on the invoice. What every rank keeps takes its room on every rank.",
    "D7": "So it is on a usual build of Python. Look at the row of the interpreter lock: without it threads need not "
    "take turns.",
    "E1": "A list of three is easy to learn, and was whole once. Ask of sharding which of the three it is.",
    "E2": 'To see a device is not to use it. "cuda:0" names one.',
    "E4": "It is what one hopes a busy GPU says. The figure tells that a kernel ran, not what for.",
    "E7": "Both cut between layers, so both names go round for either. Count what is on its way at once.",
}
DOUBTED = {
    "A1": "You may have thought of sharding, where no rank keeps the whole model. Replicas are the other way to do it.",
    "A2": "Under DDP nothing of the kind is sent, and you were right to think of it. The sentence speaks of data "
    "parallelism, and there are other ways to do that.",
    "A8": "A sampler that shuffles looks as if it did so anew each time. It counts nothing by itself.",
    "A11": "With the fast links of a data centre one may never see it. It needs one slow one.",
    "A12": "One axis is enough until it runs out of pieces: heads, layers, samples.",
    "B1": "You may have thought of a trainer, which wraps the model for you. The framework below does not.",
    "B4": "You looked at the last bits, perhaps. What is the same is the algebra.",
    "B5": "You saw the conditions, and they are real. With many micro-batches and equal stages it does what it says.",
    "C1": "Each replica is made anew at each step, which looks like a split of the model, and is a copy.",
    "C2": "You may have thought of large layers, which give threads little to wait for. With many small ones there is "
    "a queue.",
    "C3": "With a batch for each device it comes close. Close is not all, and the other way of scaling is far off.",
    "C5": "One expects that ranks know of each other. Without a sampler nobody tells them.",
    "C8": "It is told as a myth: what is to be tried is that 'always' is wrong, and one case is enough for that.",
    "C9": "To send gradients later costs nothing as long as the weights wait as well. Ranks that step by themselves "
    "drift apart.",
    "C10": "The mean of gradients does not mind small shares. A layer that looks at its batch does.",
    "C11": "You may have thought of small messages, where a call costs what it costs. Large ones feel the path.",
    "C12": "The cost of a message has a part that does not shrink with it, and this part is what decides.",
    "C13": "You may have looked at the bytes of the gradients, which stay. Activations do not.",
    "C14": "With one process it all works; that is why it goes wrong with several.",
    "C15": "With the usual mean one may forget that DDP averages as well. It does so whatever the loss did before.",
    "D3": "You may have asked for the gradient of the whole batch. That is another comparison, and BatchNorm spoils it "
    "for both sides.",
    "D4": "You saw the exceptions, and there are some. The ordinary loop is none of them.",
    "D5": "It looks like ceremony, until a file is loaded with `strict=False` and nothing of it arrives.",
    "D6": "Weights, gradients and optimizer state stay on the first GPU; the others get copies of the weights for a "
    "step.",
    "D7": "A thread for each device sounds like enough. Where there is an interpreter lock, they share it.",
    "E3": "It is plain arithmetic, if padding is taken along. Count by hand: 224, and twice the half.",
    "E5": "You thought of the length that does not divide, and it is the condition. For others not one is repeated.",
    "E6": "You may have thought of an all-reduce after backward. Buckets leave while earlier layers compute.",
    "E8": "What you doubt may be memory, or many small kernels. Idle time is what falls.",
    "E9": "It is the definition of a product, read by columns.",
    "E10": "You saw that some layers need neither. Others need what is said.",
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
        return "Near: one cannot rely on it. But no way to read the words came out true in the trial."
    return (
        "Near: one cannot rely on it. But the words can be read so that they are true; what is wrong is what a reader "
        "takes from them."
    )
