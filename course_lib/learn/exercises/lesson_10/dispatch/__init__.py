"""10.dispatch: tokens to the ranks of their experts, and the outputs back."""

from __future__ import annotations

from course_lib.learn.catalogue.exercise import Case, Exercise, Mistake
from course_lib.learn.exercises.lesson_10.dispatch import mistakes, wrong_answers
from course_lib.learn.exercises.lesson_10.dispatch.cases import KINDS, DispatchKind
from course_lib.learn.exercises.lesson_10.dispatch.trial import right, trial
from course_lib.learn.judging.errors import error_says, hangs_in
from course_lib.learn.judging.judge import by_trial
from course_lib.learn.judging.report import compare, is_not_waited_for, only_wrong

__all__ = ["DISPATCH"]

DISPATCH = Exercise(
    name="10.dispatch",
    title="There and back: experts on other ranks",
    judge=by_trial(
        (4, 2, 3),
        tuple(Case(kind, (kind,), right(kind)) for kind in KINDS),
        trial,
        compare=compare,
        timeout_s=4.0,
    ),
    mistakes=(
        Mistake(
            "not-waited-for",
            "A collective was begun with `async_op=True`, and nobody waited for it. The numbers in its tensor at that "
            "moment are chance. Call `wait()` on what `dist` returns, and read the tensor then.",
            recognise=is_not_waited_for,
        ),
        Mistake(
            "without-weights",
            "The outputs of each token's experts were added as they are. Multiply each by its weight: `weights[t, c]` "
            "belongs to the expert `chosen[t, c]`.",
            recognise=mistakes.gives(wrong_answers.SUMMED),
        ),
        Mistake(
            "averaged",
            "You take the mean of a token's outputs. Add them up, each times its weight.",
            recognise=mistakes.gives(wrong_answers.AVERAGED),
        ),
        Mistake(
            "weights-made-one",
            "You divide a token's weights by their sum. Some routers do so, and then they have done it before they "
            "hand you `weights`; take them as they come.",
            recognise=mistakes.gives(wrong_answers.NORMALISED),
        ),
        Mistake(
            "other-weights",
            "Each output is added to the right token, times the weight of another choice. Rows are sorted by expert, "
            "and weights stand in the order of the tokens. Bring both into one order, `weights.flatten()[order]`.",
            recognise=mistakes.gives(wrong_answers.OTHER_WEIGHTS),
        ),
        Mistake(
            "as-they-come",
            "What comes back stands in the order in which it was sent, expert after expert, and you read it token "
            "after token. Put each row back to the choice that it belongs to.",
            recognise=mistakes.gives(wrong_answers.AS_THEY_COME),
        ),
        Mistake(
            "weighed-too-early",
            "You multiply a token by the weight before its expert sees it. An expert is not linear, so half a token "
            "does not give half an output. Multiply the expert's output by the weight.",
            recognise=mistakes.gives(wrong_answers.WEIGHED_ROWS),
        ),
        Mistake(
            "first-choices",
            "Each token has the output of its first expert, and nothing of the others. Every one of its k choices is "
            "a row of its own.",
            recognise=mistakes.gives(wrong_answers.FIRST_CHOICES),
        ),
        Mistake(
            "one-choice-left",
            "Each token has the output of one of its experts. A usual reason is `out[token] = ...`, or `out[token] += "
            "...` with a token twice in the index: the last one stays. Use `index_add_`, or give each choice "
            "a place of its own and add up then.",
            recognise=mistakes.keeps_one_choice,
        ),
        Mistake(
            "not-sorted",
            "The rows left in the order of the tokens. An all-to-all cuts what it is given: the first part goes to "
            "rank 0, whatever is in it. Sort the choices by expert first, so that each rank's rows stand together.",
            recognise=mistakes.gives(wrong_answers.UNSORTED, wrong_answers.UNSORTED_THERE),
        ),
        Mistake(
            "as-if-sorted",
            "Rows come rank by rank: rank 0's for your first expert, rank 0's for your second, then rank 1's for your "
            "first. You cut them as if all rows of your first expert stood first. Find out for each row which expert "
            "it is for, by the counts of each rank.",
            recognise=mistakes.gives(wrong_answers.AS_IF_SORTED, wrong_answers.IN_BLOCKS),
        ),
        Mistake(
            "back-by-expert",
            "The experts computed the right rows, and the outputs went back expert after expert. The ranks expect "
            "them in the order in which their rows came, rank after rank.",
            recognise=mistakes.gives(wrong_answers.BY_EXPERT),
        ),
        Mistake(
            "this-rank-alone",
            "A token has the outputs of those of its experts that are on its own rank, and of no other. The other "
            "rows have to be sent.",
            recognise=mistakes.is_of_this_rank_alone,
        ),
        Mistake(
            "numbers-from-zero",
            "`run` was asked for an expert of another rank. Its numbers are those in `chosen`: on rank r they begin "
            "at `r * num_experts // n`, not at 0. For any other expert, rows have to be sent to its rank.",
            recognise=error_says("`run` was asked for expert"),
        ),
        Mistake(
            "sizes-swapped",
            "The sizes that you gave to `all_to_all_single` do not add up to the rows of a tensor. It takes what "
            "comes before what goes, and so for the sizes, too: (output, input, output sizes, input sizes). On the "
            "way back the two sizes change places.",
            recognise=error_says("Split sizes doesn't match"),
        ),
        Mistake(
            "no-sizes",
            "`all_to_all_single` was given no lists of sizes, and an output of another size than the input. Without "
            "lists it cuts both into equal parts, one for each rank. How many rows go to a rank, and come from it, "
            "follows from the choices: give both lists.",
            recognise=error_says("in->size == out->size"),
        ),
        Mistake(
            "sizes-not-agreed",
            "Sender and receiver do not agree on a size. Usual reasons: (1) Only the other ranks know how many rows "
            "come: send the counts first. (2) `torch.bincount` without `minlength=num_experts` gives counts of "
            "different lengths. (3) The rows for a rank are those for all of its experts, whose counts stand side by "
            "side. (4) A collective wanted one shape, where ranks have different numbers of tokens.",
            recognise=error_says(
                "came for a receive",
                "more than its tensor has room for",
                "inLengthPerRank",
                "does not divide equally across group size",  # what torch 2.15 says in place of the last
            ),
            shows=mistakes.ended_so,
        ),
        Mistake(
            "lists-of-many-sizes",
            "gloo's `dist.all_to_all`, which takes lists of tensors, wants them all of one size (NCCL's takes any). "
            "`dist.all_to_all_single` takes one tensor and two lists of sizes, on both.",
            recognise=error_says("alltoall: invalid tensor size"),
        ),
        Mistake(
            "sizes-as-tensors",
            "The sizes that `all_to_all_single` takes are lists of whole numbers, and you gave it something else. A "
            "tensor makes such a list by `tolist()`.",
            recognise=error_says("AllToAllOptions"),
        ),
        Mistake(
            "returns-early",
            "Rank 1 has no tokens in this case, and did not make a call that the others wait in. Tokens of others "
            "come to its experts all the same. Every rank makes every call, with 0 rows if need be.",
            recognise=hangs_in(DispatchKind.NONE),
        ),
        Mistake(
            "rests-without-rows",
            "In this case no token chose the experts of some ranks, and not all ranks made the same calls. A rank "
            "without rows sends no output back, and still waits for those of its own tokens. Every rank makes every "
            "call.",
            recognise=hangs_in(DispatchKind.IDLE),
        ),
        Mistake(
            "joins-nothing",
            "Some ranks' experts got no row in this case, and `torch.cat` and `torch.stack` join no empty list. `run` "
            "takes 0 rows as well; or write the outputs into a tensor of as many rows as came.",
            recognise=error_says("expected a non-empty list of Tensors", "expects a non-empty TensorList"),
        ),
        Mistake(
            "minus-one",
            "A rank without tokens has a tensor of 0 numbers, and then -1 has no defined meaning in its new shape. "
            "Write the size: `tokens.size(1)`.",
            recognise=error_says("cannot reshape tensor of 0 elements"),
        ),
        Mistake(
            "sends-too-much",
            "The outputs are right, but more was sent than needed. Needed are a row to the rank of each choice's "
            "expert, and its output back. Usual reasons are an all-gather of all tokens, and parts that are padded to "
            "one size.",
            recognise=only_wrong("sent"),
        ),
        Mistake(
            "computes-too-much",
            "The outputs are right, but an expert computed rows of tokens that had not chosen it. In such a layer a "
            "token costs the work of k experts only. Give `run` an expert's own rows.",
            recognise=only_wrong("computed"),
        ),
        Mistake(
            "in-another-precision",
            "The numbers are right, but they have another dtype than the tokens. A new tensor is float32 unless you "
            "say otherwise: `tokens.new_zeros(...)`, `torch.zeros_like(tokens)`.",
            recognise=mistakes.has_other_dtype,
        ),
        Mistake(
            "returns-nothing",
            "No output came back. `return` it: (N, D), a row for each token of this rank.",
            recognise=mistakes.gives_none,
        ),
    ),
    hints=(
        "Take one choice of one token as a row. In which order must the rows stand, so that one call takes each of "
        "them to its rank? What does a rank have to know before rows come: how many there are, and for which of its "
        "experts?",
        "Sort the choices by expert: a row's token is `order // k`. Count them by expert, and let an all-to-all of "
        "the counts tell every rank what it gets. Send the rows, `run` each own expert, and send the outputs back "
        "with the two lists of sizes swapped. Then each output goes to the place of its choice, `order[i]`.",
        "`come = torch.empty_like(counts)`; `dist.all_to_all_single(come, counts)`; sizes are `counts.view(n, "
        "-1).sum(1).tolist()`, and the same of `come`. The expert of each row that came: "
        "`own.repeat(n).repeat_interleave(come)`. At the end `outputs[order] = back`, a view of (N, k, D), times "
        "weights, summed over k.",
    ),
    forbidden=(
        "course_lib.parallel.experts.Dispatch",
        "course_lib.parallel.experts.exchange_rows",
        "course_lib.parallel.experts.ExpertParallel",
    ),
    passed="Every token has its experts' outputs, on 2, 3 and 4 ranks. That holds with experts that most tokens "
    "chose and with some that no token chose. It holds with no rows for a rank, and with no tokens on one. No rank "
    "sent more than rows, outputs and some numbers.",
)
