"""What is said of a message whose ``Work`` was let go: not that it was not sent, where the other end has it."""

from __future__ import annotations

import pytest

from course_lib.cluster.failures.hang_diagnosis import reasons
from course_lib.cluster.failures.rank_status import Accounts, RankStatus
from course_lib.cluster.failures.stands_of_ranks import stands_of
from course_lib.cluster.hooks.pending_ops import PendingOp

CHANNEL = ("0", 0, 1, 0)  # of the default group: from rank 0 to rank 1


def message(name, seq, peer):
    return PendingOp(name, seq, "0", (0, 1), None, is_message=True, peer=peer, seq=seq)


@pytest.mark.parametrize(("num_received", "told"), [(0, (1, 2)), (1, (2,))])
def test_a_message_that_was_received_is_not_called_unsent(num_received, told):
    """Rank 0 has let go of two messages, and rank 1 waits for one that it has not got."""
    sender = Accounts(sent={CHANNEL: 2}, dropped=(message("isend", 1, 1), message("isend", 2, 1)))
    receiver = Accounts(posted={CHANNEL: num_received + 1}, received={CHANNEL: num_received})
    waits = message("irecv", num_received + 1, 0)
    look = {
        0: RankStatus(0, None, (), 0, state="returned", accounts=sender),
        1: RankStatus(1, None, (), 0, message=waits, is_in_wait=True, is_asleep=True, accounts=receiver),
    }
    assert stands_of(look, {}, None).let_go == {0}
    story = "\n".join(reasons(look))
    for number in (1, 2):
        assert (f"Rank 0 started isend #{number} and let go of it" in story) == (number in told), story
