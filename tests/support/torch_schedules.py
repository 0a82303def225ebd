"""PyTorch's own pipeline schedules and dry run, in the words of the course."""

from __future__ import annotations

from types import SimpleNamespace

from torch.distributed.pipelining import schedules as theirs

from course_lib.schedules import Action, Overlap, Schedule


def torch_schedule(cls: type, schedule: Schedule, *, rank: int = 0):
    """A schedule of PyTorch's for the same ranks and stages, on stages that are names only."""
    num_local = max(1, schedule.num_stages // schedule.num_ranks)
    stages = [
        SimpleNamespace(
            stage_index=rank + i * schedule.num_ranks,
            num_stages=schedule.num_stages,
            group_rank=rank,
            group_size=schedule.num_ranks,
            submod=None,
        )
        for i in range(num_local)
    ]
    single = issubclass(cls, theirs.PipelineScheduleSingle)
    return cls(stages[0] if single else stages, n_microbatches=schedule.num_micro_batches)


def their_rows(order: dict) -> tuple[tuple[Action, ...], ...]:
    """PyTorch's order as ours: without idle cells, and without the reduction of gradients across replicas."""
    return tuple(
        tuple(
            Overlap(*map(their_action, cell.sub_actions)) if cell.sub_actions else their_action(cell)
            for cell in order[rank]
            if cell is not None and cell.computation_type.value in ("F", "B", "I", "W", "OVERLAP_F_B")
        )
        for rank in sorted(order)
    )


def their_action(cell) -> Action:
    return Action(cell.computation_type.value, cell.stage_index, cell.microbatch_index)


def run_dry(runtime) -> None:
    """PyTorch's dry run of sends, recvs and actions; it raises for a deadlock.

    It knows no actions of sharded or replicated models, which the runtime has added to every schedule, and of two that
    overlap no more than the two, between the messages before and after.
    """
    kinds = {"F", "B", "I", "W", "SEND_F", "SEND_B", "RECV_F", "RECV_B"}
    order = {
        rank: [a for cell in row for a in cell.sub_actions or (cell,) if a.computation_type.value in kinds]
        for rank, row in runtime.pipeline_order_with_comms.items()
    }
    theirs._simulate_comms_compute(order, runtime.stage_index_to_group_rank.get, runtime._num_stages)
