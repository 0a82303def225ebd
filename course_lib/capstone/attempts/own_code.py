"""How much of a run was the learner's, by what ran on its ranks; and at level 4 whatever was not.

A function that somebody has copied is known by what its interpreter does, step by step: other names, numbers, comments
and files make it no other function. Short functions are alike by chance, and nothing is said of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType

from course_lib.base.paths import library_folder
from course_lib.capstone.jobs.job import CapstoneJob
from course_lib.capstone.jobs.result import Fault, RanCode
from course_lib.capstone.running.steps import RankRecord
from course_lib.capstone.running.whose_code import FROM_TEXT, OTHERS, PYTORCHS, YOURS, SeenCode, shape_of

__all__ = ["not_your_own", "ran_code"]

_COPIED_FROM = ("parallel/**/*.py", "mine/courses*.py", "capstone/running/on_mesh.py")
_FUNCTION = 0x1  # a flag of the interpreter's: the code of a function, and not of a module or class
_INNER = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")  # their lines are those of the function around
_OWN_PARTS = {  # by what a file's path has: the nearest thing of the learner's own
    "parallel/data": "`mine.MyDDP` once 04.ddp_bytes has passed, or `dist.all_reduce` of each gradient",
    "parallel/sharded": "`mine.MyFullySharded` or `mine.MyShardedOptimizer` once their builds have passed",
    "parallel/pipeline": "`mine.MyPipeline` once 07.pipe_split has passed, or `dist.send` and `dist.recv`",
    "parallel/model": "`dist.send` and `dist.recv` between the ranks of two stages",
    "parallel/tensor": "`mine.MySplitTransformer` once 08.split_memory has passed, or a block that you cut yourself",
    "parallel/context": "`mine.MyRingAttention` once 10.ring_messages has passed",
    "parallel/experts": "`mine.MyExperts` once 10.experts_balance has passed",
    "parallel/collectives": "`mine.all_reduce` once 02.sum_values has passed, or a collective of torch.distributed",
    "parallel/mesh": "groups by `dist.new_group`, and your own parts on them",
    "on_mesh": "groups by `dist.new_group`, and your own parts on them",
    "mine/courses": "the same name of `mine`, once its check has passed",
    "reference_run": "the loss that your own ranks compute",
    "nn/parallel": "`mine.MyDDP` once 04.ddp_bytes has passed, or `dist.all_reduce` of each gradient",
    "distributed/fsdp": "`mine.MyFullySharded` once 05.fsdp_memory has passed",
    "distributed/optim": "`mine.MyShardedOptimizer` once 05.zero_bytes has passed",
    "distributed/pipelining": "`mine.MyPipeline` once 07.pipe_split has passed, or `dist.send` and `dist.recv`",
    "distributed/tensor": "tensors that you cut yourself, and collectives of torch.distributed",
}
_ELSE = "a function of your own, on torch.distributed's collectives, messages and groups"


def ran_code(ranks: Sequence[RankRecord]) -> tuple[RanCode, ...]:
    """Every function that ran, over all ranks: the learner's first, by their lines; others as they were called."""
    found: dict[tuple[str, str, str, int], list[SeenCode]] = {}
    for one in ranks:
        for seen in one.code:
            if not seen.name.endswith(_INNER):
                found.setdefault((seen.whose, seen.file, seen.name, seen.first_line), []).append(seen)
    merged = [_merged(same) for same in found.values()]
    return tuple(sorted((one for one in merged if one.whose != FROM_TEXT or one.copy_of), key=_place))


def not_your_own(job: CapstoneJob, ranks: Sequence[RankRecord]) -> Iterator[Fault]:
    """At level 4, what ran and was not the learner's: a sentence for each kind, with what is allowed in its place."""
    if not job.is_all_yours:
        return
    for number, one in enumerate(ranks):
        if note := next((note for note in one.notes if note.startswith("listens to")), ""):
            yield Fault(
                "not your own",
                f"rank {number} {note}, so nobody knows which code ran there. Leave sys.settrace to the judge.",
            )
    told: set[str] = set()
    for one in ran_code(ranks):
        if one.whose == YOURS and not one.copy_of:
            continue
        kind = one.copy_of or one.file.rpartition("/")[0]
        if kind not in told:
            told.add(kind)
            yield Fault("not your own", _sentence(one))


def _sentence(one: RanCode) -> str:
    instead = next((words for part, words in _OWN_PARTS.items() if part in (one.copy_of or one.file)), _ELSE)
    if one.copy_of:
        return f"{one.name} in {one.file} does step by step what {one.copy_of} does. Allowed instead: {instead}."
    owner = "a library's" if one.whose == OTHERS else one.whose
    return f"{one.called} called {one.name}, which is {owner} ({one.file}). Allowed instead: {instead}."


def _merged(same: Sequence[SeenCode]) -> RanCode:
    first = same[0]
    shapes = _shapes()
    return RanCode(
        whose=first.whose,
        name=first.name,
        file=first.file,
        lines=tuple(sorted({line for one in same for line in one.lines})),
        num_lines=first.num_lines,
        called=first.called,
        copy_of=shapes.get(first.shape, "") if first.shape else "",
    )


def _place(one: RanCode) -> tuple[object, ...]:
    order = (YOURS, FROM_TEXT, "the course's", PYTORCHS, OTHERS)
    return order.index(one.whose), -len(one.lines)


@lru_cache(maxsize=1)
def _shapes() -> dict[str, str]:
    """What the course's strategies do, by their marks: functions by name. Their texts are compiled, and not run."""
    root = library_folder() / "course_lib"
    found: dict[str, str] = {}
    for pattern in _COPIED_FROM:
        for file in sorted(root.glob(pattern)):
            named = f"course_lib/{file.relative_to(root).as_posix()}"
            for code in _functions(compile(file.read_text(encoding="utf-8"), str(file), "exec", dont_inherit=True)):
                if shape := shape_of(code):
                    found.setdefault(shape, f"{code.co_qualname.replace('.<locals>', '')} of the course ({named})")
    return found


def _functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & _FUNCTION:
                yield inner
            yield from _functions(inner)
