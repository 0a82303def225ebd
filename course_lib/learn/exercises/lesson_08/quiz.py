"""The quiz of lesson 08; right answers come from the plans of split matmuls and from the cost model."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from course_lib.cost.model_parallel.tensor_parallel import block_collectives, collectives_sent_bytes
from course_lib.cost.model_parallel.tensor_parallel_memory import explained_activations
from course_lib.learn.catalogue.quiz_spec import Question
from course_lib.parallel.tensor import Replicate, Shard, matmul_plan

__all__ = ["QUIZ"]


@dataclass(frozen=True)
class _Sizes:
    """The sizes of a transformer of the usual shape."""

    width: int = 4096
    num_heads: int = 32
    kv_heads: int = 8
    context_length: int = 2048
    num_layers: int = 24
    vocab_size: int = 50_000
    bias: bool = False
    tied: bool = False
    dropout: float = 0.0

    @property
    def head_dim(self) -> int:
        return self.width // self.num_heads

    @property
    def mlp_hidden(self) -> int:
        return 4 * self.width


def _num_all_reduces(num_layers: int) -> int:
    return num_layers * len(block_collectives(_Sizes(), batch_size=1))


def _collective(y: Shard | Replicate) -> str:
    (name,), _ = matmul_plan(Shard(1), Shard(0), y).collectives()
    return name


def _bytes_ratio(batch_size: int) -> float:
    """What a block's collectives send with this batch, over what they send with a batch of one."""
    one, many = (
        collectives_sent_bytes(block_collectives(_Sizes(), batch_size=size), num_ranks=8) for size in (1, batch_size)
    )
    return many / one


def _ratio_of_sequence_parallel() -> float:
    plain, along = (
        collectives_sent_bytes(
            [c for c in block_collectives(_Sizes(), batch_size=1, sequence_parallel=way) if "norm" not in c.where],
            8,
        )
        for way in (False, True)
    )
    return plain / along


def _keeps_less() -> bool:
    """Whether a rank keeps less of a block with sequence parallelism, where gathered inputs are kept."""
    plain, along = (
        sum(
            term.course_bytes
            for term in explained_activations(_Sizes(), batch_size=1, num_ranks=8, sequence_parallel=way)
        )
        for way in (False, True)
    )
    return along < plain


QUIZ = (
    Question(
        name="count",
        text="A transformer of 24 blocks is cut inside its layers, without sequence parallelism. How many all-reduces "
        "do the blocks need in a training step?",
        choices=(24, 48, 96, 144),
        answer=lambda: _num_all_reduces(24),
        misconceptions={
            24: "That is one for each block. But attention and MLP are two regions, each with a sum forward and "
            "backward.",
            48: "That is two for each block: the forward pass alone.",
            144: "That is six for each block, one for each matrix. But ranks send nothing between the matrices of a "
            "region.",
        },
        because="A block has two regions, each with one all-reduce forward and one backward: four times 24.",
    ),
    Question(
        name="cut",
        text="X is cut by columns, A by rows, and Y is wanted cut by rows. Which collective finishes the product?",
        choices=("all_gather", "all_reduce", "reduce_scatter", "none"),
        answer=lambda: _collective(Shard(0)),
        misconceptions={
            "all_gather": "An all-gather puts parts side by side; these are summands of the full shape.",
            "all_reduce": "It would give every rank the whole sum, but each needs only a part.",
            "none": "Each rank has a summand of every number, and no number complete.",
        },
        because="Partial sums become parts of the sum: a reduce-scatter, for half of what an all-reduce sends.",
    ),
    Question(
        name="batch",
        text="You double the batch. What happens to the bytes that data parallelism and tensor parallelism send?",
        choices=(
            "both double",
            "only tensor parallelism's double",
            "only data parallelism's double",
            "neither changes",
        ),
        answer=lambda: "only tensor parallelism's double" if _bytes_ratio(2) == 2 else "neither changes",
        misconceptions={
            "both double": "Data parallelism sends gradients, which are as large as the weights for any batch.",
            "only data parallelism's double": "Gradients do not grow with the batch, but activations do.",
            "neither changes": "Tensor parallelism sends activations: B T D numbers at each gate.",
        },
        because="Tensor parallelism sends activations, which grow with the batch; data parallelism sends gradients, "
        "which grow with the model.",
    ),
    Question(
        name="heads",
        text="A model has 32 query heads that share 8 key/value heads. On how many ranks can its attention be cut, at "
        "most, with no head on two ranks?",
        choices=(4, 8, 16, 32),
        answer=lambda: gcd(_Sizes().num_heads, _Sizes().kv_heads),
        misconceptions={
            4: "That is how many query heads share a key/value head. Eight ranks get four query heads and one "
            "key/value head each.",
            16: "Then two ranks would have to share a key/value head.",
            32: "There are 32 query heads, and only 8 key/value heads to go with them.",
        },
        because="Each rank takes whole key/value heads with the query heads that read them: 8.",
    ),
    Question(
        name="sequence",
        text="Eight ranks begin to use sequence parallelism, and keep gathered inputs. Every collective is a ring. "
        "What changes?",
        choices=(
            "fewer bytes, less memory",
            "the same bytes, less memory",
            "more bytes, less memory",
            "fewer bytes, the same memory",
        ),
        answer=lambda: {1.0: "the same bytes, less memory"}.get(
            _ratio_of_sequence_parallel() if _keeps_less() else 0.0,
            "fewer bytes, less memory",
        ),
        misconceptions={
            "fewer bytes, less memory": "An all-reduce is a reduce-scatter and an all-gather. The two halves are now "
            "in different places, but ranks still need both.",
            "more bytes, less memory": "There are more calls, of half the bytes each. Only if gathered inputs are "
            "freed, and gathered anew, are there more bytes.",
            "fewer bytes, the same memory": "The tensors that norms keep are kept once, and not on every rank.",
        },
        because="The halves of each all-reduce are now separate. Between them each rank computes norms and "
        "residuals for one eighth of the positions.",
    ),
)
