"""08.split_values: a learner's split transformer."""

from __future__ import annotations

from answer_table import Row
from answers.lesson_08.split_builds.earlier import BlocksAlone, WithoutPositions
from answers.lesson_08.split_builds.final import Final
from answers.lesson_08.split_builds.others import AModule, ByOwnGates, ByOwnLoss, ByWholeMasks, InOneBuffer
from answers.lesson_08.split_builds.wrong_details import (
    BiasInShares,
    GeluByTanh,
    LargestLearns,
    LastPositions,
    NoBiasOfColumns,
    OtherEps,
    TwoBlocks,
)
from answers.lesson_08.split_builds.wrong_values import (
    BiasOnEachRank,
    HeadsInTurn,
    InFloat32,
    KeepsCopies,
    LossByRanks,
    LossOfEach,
    NoBiasOfRows,
    NoEntranceOfTheMlp,
    NoParts,
    NotCut,
    NotSummedBack,
    NotWaitedFor,
    SharesTheModel,
    ShortNames,
    SpoilsTheBatch,
    SummedTwice,
    Untrained,
)

ROWS = [
    Row(answer=Final, verdict="passed", why="functions on parts"),
    Row(answer=ByOwnGates, verdict="passed", why="calls of torch.distributed"),
    Row(answer=ByOwnLoss, verdict="passed", why="the loss's gradient by hand; one product for three"),
    Row(answer=ByWholeMasks, verdict="passed", why="masks of one device, of which each takes its part"),
    Row(answer=AModule, verdict="passed", why="a copy of the model with other weights"),
    Row(answer=InOneBuffer, verdict="passed", why="what all hold enters at once"),
    Row(answer=BlocksAlone, verdict="passed", why="the vocabulary is whole"),
    Row(answer=WithoutPositions, verdict="passed", why="the least that passes"),
    Row(answer=BiasOnEachRank, verdict="not yet", mistake="bias-on-each-rank", why="n times"),
    Row(answer=NoBiasOfRows, verdict="not yet", mistake="biases-elsewhere", why="on one rank alone"),
    Row(
        answer=BiasInShares,
        verdict="not yet",
        mistake="biases-elsewhere",
        words=("gradients: in step 1",),
        why="was told that it adds the bias once for each rank; the sum is right, and gradients are an n-th",
    ),
    Row(answer=NoBiasOfColumns, verdict="not yet", mistake="biases-elsewhere", why="none where columns are cut"),
    Row(answer=OtherEps, verdict="not yet", mistake="nearly-the-model", why="was told of float32, and had none"),
    Row(answer=GeluByTanh, verdict="not yet", mistake="nearly-the-model", why="was told of float32, and had none"),
    Row(answer=LargestLearns, verdict="not yet", words=("gradients: in step 1",), why="was shown a loss of step 2"),
    Row(answer=LastPositions, verdict="not yet", why="passed while all sequences were as long as the context"),
    Row(answer=TwoBlocks, verdict="raised", why="passed while all models had two blocks"),
    Row(answer=NotSummedBack, verdict="not yet", mistake="not-summed-back", why="no entrance"),
    Row(answer=NoEntranceOfTheMlp, verdict="not yet", mistake="not-summed-back", why="one entrance is missing"),
    Row(answer=SummedTwice, verdict="not yet", mistake="summed-twice", why="as torch.distributed.nn has it"),
    Row(answer=LossByRanks, verdict="not yet", mistake="loss-of-all-ranks", why="a mean over ranks"),
    Row(answer=LossOfEach, verdict="not yet", why="no number"),
    Row(answer=HeadsInTurn, verdict="not yet", mistake="another-part", why="every n-th unit"),
    Row(answer=KeepsCopies, verdict="not yet", mistake="not-what-computes", why="parts for show"),
    Row(answer=InFloat32, verdict="not yet", mistake="float32-inside", why="the loss in float32"),
    Row(answer=SharesTheModel, verdict="not yet", mistake="shares-the-model", why="whole parts are the model's"),
    Row(answer=SpoilsTheBatch, verdict="not yet", why="a token is changed"),
    Row(answer=NotWaitedFor, verdict="not yet", mistake="not-waited-for", why="begun and left"),
    Row(answer=NotCut, verdict="not yet", mistake="another-part", why="whole on every rank"),
    Row(answer=NoParts, verdict="not yet", why="no `parts`"),
    Row(answer=Untrained, verdict="not yet", why="an empty module"),
    Row(answer=ShortNames, verdict="raised", why="other names"),
]
