"""08.split: a split transformer of one's own, in seven steps; each demands what those before it demand, and more.

``cases.py`` has the models and what one process gives, ``trial.py`` a few steps on a rank, ``weighing.py`` what lies in
memory, ``masks.py`` what is seen of dropout, ``reports.py`` what is looked at, ``right.py`` what is expected;
``signs.py`` and ``mistakes.py`` are about wrong answers.
"""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise
from course_lib.learn.exercises.lesson_08.split import mistakes
from course_lib.learn.exercises.lesson_08.split.cases import (
    AWKWARD,
    DROPOUT,
    PLAIN,
    SEQUENCE,
    VOCABULARY,
    WEIGHED,
)
from course_lib.learn.exercises.lesson_08.split.reports import (
    SplitAwkwardReport,
    SplitMemoryReport,
    SplitMessagesReport,
    SplitSeedsReport,
    SplitSequenceReport,
    SplitValuesReport,
    SplitVocabularyReport,
)
from course_lib.learn.exercises.lesson_08.split.right import right
from course_lib.learn.exercises.lesson_08.split.trial import trial
from course_lib.learn.judging.judge import RankJudge, by_trial
from course_lib.learn.judging.report import compare

__all__ = ["SPLIT_STEPS"]

_FORBIDDEN = (
    *(f"course_lib.parallel.tensor.{name}" for name in ("split_transformer", "split_block")),
    *(f"course_lib.parallel.tensor.{name}" for name in ("ColumnParallelLinear", "RowParallelLinear")),
    *(f"course_lib.parallel.tensor.{name}" for name in ("HeadParallelAttention", "VocabParallelEmbedding")),
    *(f"course_lib.parallel.tensor.{name}" for name in ("SequenceParallelNorm", "vocab_parallel_cross_entropy")),
    "course_lib.parallel.tensor.own_random_numbers",
    "course_lib.parallel.tensor.GivenTransformer",
    "torch.distributed.tensor.distribute_tensor",
    "torch.distributed.tensor.parallel.parallelize_module",
)
_TO_MEMORY = (*PLAIN, *VOCABULARY, *WEIGHED)
_TO_SEQUENCE = (*_TO_MEMORY, *SEQUENCE)
_TO_SEEDS = (*_TO_SEQUENCE, *DROPOUT)


def _judge(world_sizes: tuple[int, ...], labels: tuple[str, ...], report: type[SplitValuesReport]) -> RankJudge:
    cases = tuple(Case(label, (label,), right(label, report)) for label in labels)
    return by_trial(world_sizes, cases, trial, compare=compare, timeout_s=10.0, makes_groups=True)


SPLIT_STEPS = (
    Exercise(
        name="08.split_values",
        title="Your split transformer, 1: the values",
        judge=_judge((2, 3), PLAIN, SplitValuesReport),
        mistakes=mistakes.OF_VALUES,
        hints=(
            "Write the model's forward as functions on weights first, on one rank. At which two places of a block "
            "must tensors be summed over ranks?",
            "Attention and the MLP are regions. What goes in passes `enter` once. Then come column cuts, which need "
            "no message, and row cuts, whose products are summands. The products pass `leave`, then the bias is "
            "added.",
            "MLP: `h = F.gelu(F.linear(enter(x), up, up_bias))`, `y = leave(F.linear(h, down)) + down_bias`. Attention "
            "is the same with `w_q`, `w_k`, `w_v` as columns and `w_out` as rows. The number of heads is read off the "
            "part: `.unflatten(-1, (-1, head_dim))`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Loss, parts and gradients are those of one device in two steps, with biases and without.",
    ),
    Exercise(
        name="08.split_vocabulary",
        title="Your split transformer, 2: the vocabulary",
        judge=_judge((2, 3), (*PLAIN, *VOCABULARY), SplitVocabularyReport),
        mistakes=mistakes.OF_VOCABULARY,
        hints=(
            "Which rank has a token's vector? What do the others add to the sum? And for which three numbers of a "
            "position are all ranks needed?",
            "Look a token up on the rank that has its row, give zeros on the others, and pass `leave`. For the loss "
            "the ranks agree on the largest logit, the sum of exponentials and the target's logit.",
            "`place = token - first_row`; `torch.where(is_here, ..., 0.0)`. `dist.all_reduce(largest, "
            "op=dist.ReduceOp.MAX)` of `logits.detach().amax(-1)`, then `leave` of the two sums. The logits are `F."
            "linear(enter(h), w_vocab)`.",
        ),
        forbidden=_FORBIDDEN,
        passed="Both matrices are cut, the loss is that of one device, and no rank ever had all logits.",
    ),
    Exercise(
        name="08.split_messages",
        title="Your split transformer, 3: messages",
        judge=_judge((3,), (*PLAIN, *VOCABULARY), SplitMessagesReport),
        mistakes=mistakes.OF_MESSAGES,
        hints=(
            "Count the gates of a block, forward and backward. Then count those of the first matrix, of the last one "
            "and of the loss.",
            "Forward: one sum for each region and one for the stem; the loss has up to three small ones. Backward: one "
            "sum for each region and one for the head.",
            "Queries, keys and values read one tensor that has entered once. The head enters once, after its norm. "
            "Nothing else is sent: no barrier, no gathered weight.",
        ),
        forbidden=_FORBIDDEN,
        passed="In each direction there are two sums for each layer and one for the vocabulary. The loss needs three "
        "numbers for each position.",
    ),
    Exercise(
        name="08.split_memory",
        title="Your split transformer, 4: memory",
        judge=_judge((3,), _TO_MEMORY, SplitMemoryReport),
        mistakes=mistakes.OF_MEMORY,
        hints=(
            "When the caller deletes the model, which variable still refers to it, or to a piece of its memory?",
            "A slice of a tensor is a view: it keeps all of the storage in memory. Keep the sizes of the model, not "
            "the model.",
            "`part.clone()`, as the storage of a part; `self.config = model.config`; nothing of a step in `self`.",
        ),
        forbidden=_FORBIDDEN,
        passed="A rank holds its share of the model and what must be whole. It keeps only what it needs from a step.",
    ),
    Exercise(
        name="08.split_sequence",
        title="Your split transformer, 5: positions shared out",
        judge=_judge((3,), _TO_SEQUENCE, SplitSequenceReport),
        mistakes=mistakes.OF_SEQUENCE,
        hints=(
            "Which two gates share out positions? And which weights do all ranks hold, and use on positions of their "
            "own?",
            "`enter` becomes `enter_along`, `leave` becomes `leave_along`, with `dim=1`. Norms, and biases of row "
            "cuts, have a gradient from this rank's positions alone: sum it over ranks. The table of positions is "
            "shared out.",
            "A norm's weight passes `enter` before it is used, and so does the bias of a row cut. `split_along(me, "
            "table, dim=0)` gives each rank its rows of the positions, and gathers their gradients.",
        ),
        forbidden=_FORBIDDEN,
        passed="Between the regions each rank has its own positions, and as many bytes are sent as before.",
    ),
    Exercise(
        name="08.split_seeds",
        title="Your split transformer, 6: seeds",
        judge=_judge((3,), _TO_SEEDS, SplitSeedsReport),
        mistakes=mistakes.OF_SEEDS,
        hints=(
            "Where do all ranks hold the same tensor, so that they must drop the same numbers? Where does each rank "
            "hold a tensor of its own?",
            "Heads are always a rank's own. After the stem and after a row cut it depends on `sequence` whether ranks "
            "hold the same. Where they do not, each rank needs a seed of its own. Afterwards put the generator back "
            "to where it stood.",
            "Draw a seed, which is the same on all ranks: `int(torch.randint(2**62, ()))`. Then `with "
            "torch.random.fork_rng():` and in it `torch.manual_seed(seed + place)`, the dropout, and no more.",
        ),
        forbidden=_FORBIDDEN,
        passed="Masks agree where all ranks hold the same, and differ where each has its own, in every step.",
    ),
    Exercise(
        name="08.split_awkward",
        title="Your split transformer, 7: awkward models",
        judge=_judge((3, 1), (*_TO_SEEDS, *AWKWARD), SplitAwkwardReport),
        mistakes=mistakes.OF_AWKWARD,
        hints=(
            "Which of these awkward things does your constructor see, and which only `loss`? Try them on one rank, "
            "too.",
            "`model.named_parameters(remove_duplicate=False)` gives a tied matrix under both names. A part learns if "
            "its weight does. Sizes of parts: the first `size % n` ranks have one row more.",
            "`made[id(weight)]` finds the part that is there already. The first row of a rank is the sum of the sizes "
            "before it. `dist.get_process_group_ranks(group).index(me.rank)` is a rank's place.",
        ),
        forbidden=_FORBIDDEN,
        passed="Right with tied and frozen weights, uneven sizes, small batches, groups and one rank. Where heads or "
        "positions do not divide, an error says so.",
    ),
)
