"""06.tied: messages that are not waited for in time are told so, and a pass says what was counted: bytes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from answer_table import Row

from course_lib.cluster import exchange, recv, send


def right(me, weight, other):
    theirs = torch.empty_like(weight.grad)
    exchange([send(weight.grad, other), recv(theirs, other)])
    weight.grad += theirs


def right_by_works(me, weight, other):
    theirs = torch.empty_like(weight.grad)
    works = [dist.isend(weight.grad, dst=other), dist.irecv(theirs, src=other)]
    for work in works:
        work.wait()
    weight.grad += theirs


def row_by_row(me, weight, other):
    theirs = torch.empty_like(weight.grad)
    for mine, there in zip(weight.grad, theirs, strict=True):
        exchange([send(mine, other), recv(there, other)])
    weight.grad += theirs


def adds_then_waits(me, weight, other):
    theirs = torch.zeros_like(weight.grad)
    works = [dist.isend(weight.grad.clone(), dst=other), dist.irecv(theirs, src=other)]
    weight.grad += theirs
    for work in works:
        work.wait()


def changes_what_is_on_its_way(me, weight, other):
    theirs = torch.empty_like(weight.grad)
    sending = dist.isend(weight.grad, dst=other)
    dist.irecv(theirs, src=other).wait()
    weight.grad += theirs
    sending.wait()


def sends_and_adds_nothing(me, weight, other):
    theirs = torch.empty_like(weight.grad)
    exchange([send(weight.grad, other), recv(theirs, other)])
    theirs = theirs + weight.grad


def sums_there_and_sends_back(me, weight, other):
    if me.rank > other:
        exchange([send(weight.grad, other)])
        exchange([recv(weight.grad, other)])
    else:
        theirs = torch.empty_like(weight.grad)
        exchange([recv(theirs, other)])
        weight.grad += theirs
        exchange([send(weight.grad, other)])


def off_by_a_last_bit(me, weight, other):
    right(me, weight, other)
    if me.rank > other and weight.dtype == torch.float32:
        weight.grad = torch.nextafter(weight.grad, weight.grad + 1)


def sums_gradients_and_averages_weights(me, weight, other):
    right(me, weight, other)
    theirs = torch.empty_like(weight)
    exchange([send(weight.detach(), other), recv(theirs, other)])
    with torch.no_grad():
        weight.add_(theirs).div_(2)


def frozen_from_now_on(me, weight, other):
    weight.requires_grad_(False)
    right(me, weight, other)


def waits_for_no_send(me, weight, other):
    theirs = torch.empty_like(weight.grad)
    waits_for_no_send.sent = dist.isend(weight.grad, other)
    dist.recv(theirs, other)
    weight.grad += theirs


ROWS = [
    Row(
        answer=right,
        verdict="passed",
        why="the definition",
        words=("No more bytes", "were not called"),
        unsaid=("it went once",),
    ),
    Row(answer=right_by_works, verdict="passed", why="both messages are waited for before the sum"),
    Row(
        answer=row_by_row,
        verdict="passed",
        why="the sum is right; it went in many messages of as many bytes, which nobody limits",
        unsaid=("once each way",),
    ),
    Row(
        answer=adds_then_waits,
        verdict="not yet",
        mistake="touched-in-flight",
        why="what is added has not come yet",
        words=("before it had waited",),
        unsaid=("of its own place alone",),
    ),
    Row(
        answer=changes_what_is_on_its_way,
        verdict="not yet",
        mistake="touched-in-flight",
        why="the other rank may get the sum in place of the gradient, and adds that",
        words=("changed what was being sent", "chance"),
    ),
    Row(
        answer=sends_and_adds_nothing,
        verdict="not yet",
        mistake="own-gradient",
        why="the sum is made and kept by nobody",
        words=("nothing was added",),
        unsaid=("Mend the cause",),
    ),
    Row(answer=sums_there_and_sends_back, verdict="passed", why="one message each way, and one sum"),
    Row(
        answer=off_by_a_last_bit,
        verdict="not yet",
        words=("a matrix of float32", "the gradient in step 1"),
        why="the copies part, and nothing brings them together again",
    ),
    Row(
        answer=sums_gradients_and_averages_weights,
        verdict="not yet",
        mistake="sends-more",
        why="equal weights need no mean",
    ),
    Row(answer=frozen_from_now_on, verdict="not yet", words=("requires_grad=False",), why="no step trains it again"),
    Row(answer=waits_for_no_send, verdict="not yet", mistake="touched-in-flight", why="it changes what is to leave"),
]
