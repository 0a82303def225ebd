"""The memory ledger: every byte labelled, counted once, and balanced against an independent count."""

from __future__ import annotations

import gc
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from course_lib.meter import LABELS, MemoryLedger, ledger
from course_lib.meter.memory import memory as memory_module


def live_bytes() -> int:
    """Bytes of every CPU storage that any Python object reaches: a count that knows nothing of the ledger."""
    gc.collect()
    sizes = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thing in gc.get_objects():
            if type(thing) in (torch.Tensor, nn.Parameter, nn.Buffer) and thing.device.type == "cpu":
                storage = thing.untyped_storage()
                sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())


@pytest.fixture
def old_objects_set_apart() -> None:
    """What lives before the test is out of the collector's sight, which makes the count quick; it stays there."""
    gc.collect()
    gc.freeze()


def network() -> nn.Module:
    torch.manual_seed(0)
    convolutions = [
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 8, 3),
        nn.ReLU(),
    ]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 36, 10))


def batch(size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, 1, 8, 8), torch.randint(0, 10, (size,))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p),
    "adamw foreach": lambda p: torch.optim.AdamW(p, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_balances_to_the_byte_with_an_independent_count_at_every_moment(name: str, old_objects_set_apart: None) -> None:
    model, (x, y) = network(), batch()
    optimizer = OPTIMIZERS[name](model.parameters())
    outside = live_bytes() - ledger(model, optimizer, inputs=(x, y)).total_bytes
    with MemoryLedger(model, optimizer, inputs=(x, y)) as book:
        for _ in range(2):
            loss = F.cross_entropy(model(x), y)
            assert book.mark("forward").total_bytes == live_bytes() - outside
            loss.backward()
            assert book.mark("backward").total_bytes == live_bytes() - outside
            optimizer.step()
            assert book.mark("step").total_bytes == live_bytes() - outside
            optimizer.zero_grad()
            del loss
            assert book.mark("cleared").total_bytes == live_bytes() - outside
    assert book.now().total_bytes == live_bytes() - outside
    assert all(sum(b.by_label.values()) == b.total_bytes for b in (*book.marks.values(), book.peak()))


def test_labels_of_a_step_of_adamw() -> None:
    model, (x, y) = network(), batch()
    optimizer = torch.optim.AdamW(model.parameters())
    weights = sum(p.numel() * 4 for p in model.parameters())
    tensors = len(list(model.parameters()))
    with MemoryLedger(model, optimizer, inputs=(x, y)) as book:
        loss = F.cross_entropy(model(x), y)
        forward = book.mark("forward")
        loss.backward()
        backward = book.mark("backward")
        optimizer.step()
    assert forward["parameter"] == weights
    assert forward["gradient"] == forward["optimizer state"] == 0
    assert forward["buffer"] == 4 * 4 * 2 + 8  # running mean and variance, and the int64 count of batches
    assert forward["input"] == x.nbytes + y.nbytes
    saved = [16 * 4 * 64 * 4] * 2 + [16 * 8 * 36 * 4]  # convolution 0, first ReLU, second ReLU
    saved += [4 * 4] * 2 + [16 * 8 * 36 * 4] * 2  # batch mean, scale; dropout: mask (float32), result
    saved += [16 * 10 * 4, 4]  # log-softmax, and the weight that the loss averaged by
    assert sorted(e.size_bytes for e in forward.entries if e.label == "activation") == sorted(saved)
    assert backward["activation"] == 0
    assert backward["gradient"] == weights
    assert book.now()["optimizer state"] == 2 * weights + 4 * tensors  # two moments, and a step count each
    names = {entry.name for entry in book.now().entries}
    assert {"0.weight", "0.weight.grad", "0.weight.exp_avg", "0.weight.step", "1.running_mean"} <= names


def test_activations_bear_the_name_of_their_module() -> None:
    model, (x, _) = network(), batch()
    with MemoryLedger(model) as book:
        kept = model(x)
        names = {entry.name for entry in book.mark("forward").largest(9, label="activation")}
    assert {"0: convolution", "1: native_batch_norm", "2: relu", "4: relu", "6: mul"} <= names
    assert kept is not None


def test_what_a_model_is_given_is_input_also_when_made_in_the_block() -> None:
    model = network()
    with MemoryLedger(model) as book:
        x, y = batch()
        kept = F.cross_entropy(model(x), y)
        balance = book.mark("forward")
    assert balance["input"] == x.nbytes
    assert "input" in {entry.name for entry in balance.entries}
    assert kept is not None


def test_a_target_made_before_the_block_and_saved_is_input() -> None:
    model, (x, y) = network(), batch()
    with MemoryLedger(model) as book:
        kept = F.cross_entropy(model(x), y)
        assert book.mark("forward")["input"] == x.nbytes + y.nbytes
    assert kept is not None


def test_optimizer_state_dropped_within_the_block_is_still_known_at_the_peak() -> None:
    model = nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    with MemoryLedger(model, optimizer) as book:
        model(torch.ones(1, 100)).sum().backward()
        optimizer.step()
        optimizer.state.clear()
    assert book.peak()["optimizer state"] == 2 * 40_000 + 4


def test_the_peak_is_caught_between_two_marks() -> None:
    with MemoryLedger() as book:
        before = book.mark("before").total_bytes
        big = torch.ones(1000, dtype=torch.float64)
        small = big[:10].clone()
        del big
        after = book.mark("after").total_bytes
    assert before == 0
    assert after == 80
    assert book.peak().total_bytes == 8080
    assert book.peak()["other"] == 8080
    assert small.numel() == 10


def test_gradients_are_gradients_at_the_peak_though_gone_at_the_end() -> None:
    model = nn.Linear(1000, 100, bias=False)
    x = torch.randn(2, 1000)
    with MemoryLedger(model, inputs=x) as book:
        model(x).sum().backward()
        model.zero_grad()
        scratch = torch.empty(10)
    assert book.now()["gradient"] == 0
    assert book.peak()["gradient"] == 400_000
    del scratch


def test_history_has_the_peak_and_the_marks() -> None:
    model, (x, y) = network(), batch()
    optimizer = torch.optim.AdamW(model.parameters())
    with MemoryLedger(model, optimizer, inputs=(x, y)) as book:
        loss = F.cross_entropy(model(x), y)
        book.mark("forward")
        loss.backward()
        optimizer.step()
        book.mark("step")
    history = book.history()
    highest = max(range(len(history.points)), key=lambda i: history.totals[i])
    assert history.totals[highest] == book.peak().total_bytes
    assert dict(zip(LABELS, history.points[highest], strict=True)) == book.peak().by_label
    assert history.totals[0] == ledger(model, inputs=(x, y)).total_bytes - sum(
        p.grad.nbytes for p in model.parameters()
    )
    for name, index in history.marks:
        assert history.totals[index] == book.marks[name].total_bytes
        assert history.of("activation")[index] == book.marks[name]["activation"]


def test_views_and_tied_weights_count_once_and_a_view_counts_its_whole_storage() -> None:
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    table = torch.zeros(100, 8)
    balance = ledger(model, inputs=[table[:2], {"again": table[5]}])
    assert balance["parameter"] == 8 * 8 * 4
    assert balance["input"] == 100 * 8 * 4
    assert len(balance.entries) == 2


def test_frozen_weights_have_no_gradient_and_a_parameter_outside_the_optimizer_no_state() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.Adam([model[1].weight])
    with MemoryLedger(model, optimizer) as book:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        balance = book.mark("end")
    assert balance["parameter"] == 128
    assert balance["gradient"] == 64
    assert balance["optimizer state"] == 2 * 64 + 4


def test_of_two_labels_the_earlier_one_stands() -> None:
    model, x = nn.Linear(4, 4, bias=False), torch.ones(3)
    with MemoryLedger(model) as book:
        book.own("input", model.weight)
        book.own("other", x)
        book.own("input", x)
        balance = book.mark("both")
    assert balance["parameter"] == 64
    assert balance["input"] == 12
    assert balance["other"] == 0


def test_a_tensor_saved_twice_is_an_activation_until_both_let_go() -> None:
    x = torch.ones(100, requires_grad=True)
    with MemoryLedger(inputs=x) as book:
        doubled = x * 2
        sine, cosine = doubled.sin(), doubled.cos()
        both = book.mark("both")["activation"]
        del sine
        one = book.mark("one")["activation"]
        del cosine
        none = book.mark("none")["activation"]
    assert (both, one, none) == (400, 400, 0)
    history = book.history()
    assert max(history.of("activation")) == 400
    assert (history.of("activation")[-1], history.of("other")[-1]) == (0, 400)
    assert doubled.numel() == 100


def test_float32_master_copies_are_optimizer_state() -> None:
    model = nn.Linear(4, 4, bias=False).to(torch.bfloat16)
    master = [p.detach().float() for p in model.parameters()]
    balance = ledger(model, torch.optim.SGD(master, lr=0.1))
    assert balance["parameter"] == 32
    assert balance["optimizer state"] == 64


def test_lazy_modules() -> None:
    model = nn.LazyLinear(3)
    with MemoryLedger(model) as book:
        model(torch.ones(2, 5))
    assert book.now()["parameter"] == (15 + 3) * 4


def test_autocast_keeps_copies_of_the_weights_as_activations() -> None:
    model = nn.Linear(64, 64, bias=False)
    with MemoryLedger(model) as book, torch.autocast("cpu", torch.bfloat16):
        out = model(torch.ones(1, 64, requires_grad=True))
        balance = book.mark("forward")
    assert balance["parameter"] == 64 * 64 * 4
    assert 64 * 64 * 2 in [entry.size_bytes for entry in balance.entries if entry.label == "activation"]
    assert out.dtype is torch.bfloat16


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_saves_activations_and_labels_what_is_recomputed(reentrant: bool) -> None:
    torch.manual_seed(0)
    blocks = nn.ModuleList(nn.Sequential(*[nn.Linear(32, 32, bias=False), nn.Tanh()] * 3) for _ in range(8))
    x = torch.randn(64, 32, requires_grad=True)

    def peak(recompute: bool) -> tuple[int, int]:
        with MemoryLedger(blocks) as book:
            out = x
            for block in blocks:
                out = checkpoint(block, out, use_reentrant=reentrant) if recompute else block(out)
            kept = book.mark("forward")["activation"]
            out.sum().backward()
        return kept, book.peak()["activation"]

    one = 64 * 32 * 4
    plain_kept, plain_peak = peak(recompute=False)
    kept, at_peak = peak(recompute=True)
    assert plain_kept == 24 * one
    assert plain_peak in (23 * one, 24 * one)
    assert kept in (7 * one, 8 * one)  # what each block was given; x itself is the input
    assert 9 * one <= at_peak <= 13 * one  # those, and the inside of one block


def test_what_evaluation_without_no_grad_leaves_behind_is_seen() -> None:
    model, (x, y) = network(), batch()
    with MemoryLedger(model, inputs=(x, y)) as book:
        total = 0.0
        sizes = []
        for _ in range(3):
            total = total + F.cross_entropy(model(x), y)
            sizes.append(book.now()["activation"])
    assert sizes[1] - sizes[0] == sizes[2] - sizes[1] > 10_000


def test_sparse_gradients_and_meta_tensors() -> None:
    model = nn.Embedding(10, 4, sparse=True)
    with MemoryLedger(model) as book:
        model(torch.tensor([1, 2])).sum().backward()
        nothing = torch.empty(1000, device="meta")
        balance = book.mark("end")
    assert nothing.is_meta
    assert balance["gradient"] == 2 * 8 + 2 * 4 * 4  # two int64 indices and two rows
    assert {entry.device for entry in book.peak().entries} == {"cpu"}


def test_a_storage_that_changes_its_size_is_counted_anew() -> None:
    with MemoryLedger() as book:
        tensor = torch.zeros(10)
        tensor.resize_(100)
        assert book.now().total_bytes == 400
        tensor.untyped_storage().resize_(0)
        tensor.detach()
        assert book.now().total_bytes == 0
    assert book.peak().total_bytes == 400


def test_after_an_exception_the_hooks_are_gone() -> None:
    model = network()
    book = MemoryLedger(model)
    with pytest.raises(RuntimeError), book:
        model(torch.ones(1, 2, 3, 3))
    x, _ = batch(2)
    model(x).sum().backward()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    assert not [entry for entry in book.now().entries if entry.label == "activation"]


def test_after_a_forward_pass_that_failed_names_are_right_again() -> None:
    model = network()
    with MemoryLedger(model) as book:
        with pytest.raises(RuntimeError):
            model(torch.ones(1, 2, 3, 3))
        later = torch.ones(7).exp()
        names = {entry.size_bytes: entry.name for entry in book.mark("later").entries}
    assert names[28] == "outside the model: exp"
    assert later.numel() == 7


def test_gradients_are_the_same_with_and_without_a_ledger() -> None:
    model, (x, y) = network().eval(), batch()
    F.cross_entropy(model(x), y).backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with MemoryLedger(model):
        F.cross_entropy(model(x), y).backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(plain, model.parameters(), strict=True))


def test_errors_name_the_rule() -> None:
    book = MemoryLedger(history=False)
    with pytest.raises(ValueError, match="its labels are parameter, buffer"):
        book.own("weights", torch.ones(1))
    with book:
        pass
    with pytest.raises(ValueError, match="one block"):
        book.__enter__()
    with pytest.raises(ValueError, match="history=False"):
        book.history()
    with pytest.raises(ValueError, match="no label"):
        book.now()["weights"]


def test_table_and_pickle() -> None:
    balance = ledger(nn.Linear(512, 2, bias=False), inputs=torch.zeros(3), rank=2)
    assert str(balance).splitlines() == [
        "memory of rank 2, now",
        "                   storages           bytes                share",
        "parameter                 1           4,096       4 KiB    99.7%",
        "input                     1              12        12 B     0.3%",
        "total                     2           4,108    4.01 KiB",
    ]
    assert pickle.loads(pickle.dumps(balance)) == balance


def test_reconciled_with_an_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the GPU: only the arithmetic and the table are shown here."""
    monkeypatch.setattr(memory_module.MemoryLedger, "_cuda_device", lambda self: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1024)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 2048)
    with MemoryLedger(nn.Linear(16, 4, bias=False)) as book:
        pass
    assert book.now().unseen_bytes == 1024 - 256
    assert book.peak().allocator_bytes == 2048
    assert "allocator of cpu" in book.now().table()
    assert "not seen here" in book.now().table()


def test_what_comes_after_the_block_is_not_in_its_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the GPU, whose allocator has one mark for all ledgers."""
    allocator = {"now": 1000, "most": 1000}

    def work(size_bytes: int) -> None:
        allocator["most"] = max(allocator["most"], allocator["now"] + size_bytes)

    monkeypatch.setattr(memory_module.MemoryLedger, "_cuda_device", lambda self: torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: allocator.update(most=allocator["now"]))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocator["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: allocator["most"])
    with MemoryLedger(nn.Linear(16, 4, bias=False)) as first:
        assert first.peak().allocator_bytes == 1000
        work(500)
        assert first.peak().allocator_bytes == 1500
    work(8000)
    assert first.peak().allocator_bytes == 1500
    with MemoryLedger(nn.Linear(16, 4, bias=False)) as second:  # this takes the mark back
        work(10)
    assert [book.peak().allocator_bytes for book in (first, second)] == [1500, 1010]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_agrees_with_the_allocator_of_a_gpu() -> None:
    model, optimizer = nn.Linear(1024, 1024).cuda(), None
    with MemoryLedger(model, optimizer) as book:
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
        balance = book.mark("backward")
    assert balance.unseen_bytes is not None
    # cuBLAS keeps 32 MiB on an H100 for each thread that multiplies: forward runs in this one, backward in autograd's.
    assert 0 <= balance.unseen_bytes < 128 * 2**20


@pytest.mark.parametrize("activation", [nn.GELU, nn.Tanh])  # one saves what it was given, one what it made
def test_a_graph_that_never_goes_backward_is_freed_under_a_ledger(activation: type[nn.Module]) -> None:
    """ReLU keeps its own output, which knows the ReLU: a ledger that held it would close a circle."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), activation(), nn.Linear(64, 8))
    x = torch.randn(16, 32)
    with MemoryLedger(model, inputs=(x,)) as watched:
        kept = [model(x).sum().detach() for _ in range(4)]
        after_four = watched.now()["activation"]
        held = model(x).sum()
        with_one_held = watched.now()["activation"]
    assert after_four == 0
    assert with_one_held > 0
    assert len(kept) == 4
    assert held.requires_grad
