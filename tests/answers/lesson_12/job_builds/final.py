"""12.job: right answers of several styles. ``Final`` is in pieces, so that wrong ones change one of them."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import shutil
import warnings
import zipfile
from pathlib import Path

import torch
import torch.distributed as dist


class Final:
    """Rank 0 writes a file beside, syncs and renames it; every rank reads the newest that is whole."""

    def __init__(self, me, folder, model, optimizer, loss_of, num_samples, batch_size, schedule=None, seed=0, every=5):
        self.me, self.folder = me, Path(folder)
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.loss_of, self.num_samples, self.batch_size = loss_of, num_samples, batch_size
        self.seed, self.every, self.step = seed, every, 0
        self.random = self.generator()

    def generator(self):
        return torch.Generator().manual_seed(self.seed)

    # -- training

    def batch(self, step):
        epoch, place = divmod(step, -(-self.num_samples // self.batch_size))
        return self.order(epoch)[place * self.batch_size : (place + 1) * self.batch_size]

    def order(self, epoch):
        draw = torch.Generator().manual_seed(self.seed + epoch)
        return torch.randperm(self.num_samples, generator=draw).tolist()

    def samples(self, step):
        return self.batch(step)[self.me.rank :: self.me.world_size]

    def run(self, until):
        losses = []
        while self.step < until:
            losses.append(self.one_step())
            if self.step % self.every == 0:
                self.save()
        return losses

    def one_step(self):
        self.optimizer.zero_grad()
        loss = self.loss_of(self.model, self.samples(self.step), self.random) / self.divisor()
        loss.backward()
        whole = self.sum_up(loss)
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        self.step += 1
        return whole

    def divisor(self):
        return len(self.batch(self.step))

    def sum_up(self, loss):
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        flat = torch.cat([loss.detach().view(1), *(g.flatten() for g in grads)])
        dist.all_reduce(flat)
        parts = flat[1:].split([g.numel() for g in grads])
        for grad, part in zip(grads, parts, strict=True):
            grad.copy_(part.view_as(grad))
        return flat[0].item()

    # -- saving

    def state(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": None if self.schedule is None else self.schedule.state_dict(),
            "random": self.random.get_state(),
            "step": self.step,
        }

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.schedule is not None:
            self.schedule.load_state_dict(state["schedule"])
        self.random.set_state(state["random"])
        self.step = state["step"]

    def save(self):
        told = [None]
        if self.me.rank == 0:
            try:
                self.write(self.state())
                self.prune()
            except Exception as error:
                told = [f"step {self.step} could not be saved: {error}"]
        dist.broadcast_object_list(told, src=0)
        if told[0]:
            raise RuntimeError(told[0])

    def path(self):
        return self.folder / f"step_{self.step}.pt"

    def write(self, state):
        draft = self.folder / "draft"
        with draft.open("wb") as file:
            torch.save(state, file)
            file.flush()
            self.sync(file)
        os.replace(draft, self.path())

    def sync(self, file):
        os.fsync(file.fileno())

    def prune(self):
        for old in self.there()[:-2]:
            old.unlink()

    def there(self):
        return sorted(self.folder.glob("step_*.pt"), key=lambda path: int(path.stem.removeprefix("step_")))

    # -- resuming

    def resume(self):
        for path in reversed(self.there()):
            try:
                state = self.read(path)
            except Exception as error:
                self.tell(path, error)
                continue
            self.load(state)
            return self.step
        return 0

    def tell(self, path, error):
        print(f"{path.name} cannot be used ({error}); the one before it is.")

    def read(self, path):
        with zipfile.ZipFile(path) as archive:
            if spoilt := archive.testzip():
                raise ValueError(f"{spoilt} in it does not match its checksum")
        return torch.load(path, weights_only=True)


class FromRank0(Final):
    """Rank 0 reads, and broadcasts; a digest stands in front of the bytes."""

    def write(self, state):
        buffer = io.BytesIO()
        torch.save(state, buffer)
        content = buffer.getvalue()
        draft = self.folder / f".{self.path().name}.tmp"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(descriptor, hashlib.sha256(content).digest() + content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        draft.rename(self.path())

    def read(self, path):
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError("other bytes than were saved")
        return torch.load(io.BytesIO(content[32:]))

    def resume(self):
        found = [None]
        if self.me.rank == 0:
            for path in reversed(self.there()):
                try:
                    found = [self.read(path)]
                    break
                except Exception as error:
                    warnings.warn(f"{path} is damaged: {error}", stacklevel=2)
        dist.broadcast_object_list(found, src=0)
        if found[0] is not None:
            self.load(found[0])
        return self.step


class FolderEach(Final):
    """A folder for each checkpoint, renamed when it is whole."""

    def path(self):
        return self.folder / f"at-{self.step:09d}"

    def write(self, state):
        draft = self.folder / "unfinished"
        draft.mkdir(exist_ok=True)
        for name, part in state.items():
            with (draft / f"{name}.pt").open("wb") as file:
                torch.save(part, file)
                file.flush()
                os.fsync(file.fileno())
        shutil.rmtree(self.path(), ignore_errors=True)  # a damaged one of an earlier life
        draft.rename(self.path())

    def there(self):
        return sorted(path for path in self.folder.glob("at-*") if path.is_dir())

    def prune(self):
        for old in self.there()[:-2]:
            for part in old.iterdir():
                part.unlink()
            old.rmdir()

    def read(self, path):
        parts = ("model", "optimizer", "schedule", "random", "step")
        return {name: super(FolderEach, self).read(path / f"{name}.pt") for name in parts}


class EachItsPart(Final):
    """Each rank writes its part of the state; a file of rank 0 says that all of them are there."""

    def save(self):
        error = None
        try:
            self.write_part()
        except Exception as what:
            error = str(what)
        errors = [None] * self.me.world_size
        dist.all_gather_object(errors, error)
        if self.me.rank == 0 and not any(errors):
            draft = self.folder / "mark"
            with draft.open("w") as file:
                file.write(str(self.me.world_size))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.folder / f"{self.step}.whole")
            self.prune()
        dist.barrier()
        if any(errors):
            raise RuntimeError(next(filter(None, errors)))

    def write_part(self):
        pieces = list(self.flat(self.state()).items())[self.me.rank :: self.me.world_size]
        content = pickle.dumps({name: self.plain(one) for name, one in pieces})
        path = self.folder / f"{self.step}.part{self.me.rank}"
        with path.open("wb") as file:
            file.write(hashlib.md5(content).digest() + content)
            file.flush()
            os.fsync(file.fileno())

    def plain(self, one):
        return ("array", one.numpy()) if isinstance(one, torch.Tensor) else ("plain", one)

    def flat(self, state, name=()):
        if isinstance(state, dict) and state:
            found = {}
            for key, one in state.items():
                found |= self.flat(one, (*name, key))
            return found
        return {name: state}

    def there(self):
        return sorted(self.folder.glob("*.whole"), key=lambda path: int(path.stem))

    def prune(self):
        for mark in self.there()[:-2]:
            mark.unlink()
            for part in self.folder.glob(f"{mark.stem}.part*"):
                part.unlink()

    def tell(self, path, error):
        print(f"the checkpoint of {path.stem}: {error}")

    def read(self, mark):
        state = {}
        for rank in range(int(mark.read_text())):
            path = self.folder / f"{mark.stem}.part{rank}"
            content = path.read_bytes()
            if hashlib.md5(content[16:]).digest() != content[:16]:
                raise ValueError(f"{path.name} is damaged")
            for name, (kind, one) in pickle.loads(content[16:]).items():
                *above, last = name
                room = state
                for key in above:
                    room = room.setdefault(key, {})
                room[last] = torch.from_numpy(one) if kind == "array" else one
        return state


class InBlocks(Final):
    """A rank has neighbours of the batch; each parameter is reduced by itself; a file's number is in its name."""

    def samples(self, step):
        batch = self.batch(step)
        size, more = divmod(len(batch), self.me.world_size)
        first = self.me.rank * size + min(self.me.rank, more)
        return batch[first : first + size + (self.me.rank < more)]

    def sum_up(self, loss):
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
        whole = loss.detach().clone()
        dist.all_reduce(whole)
        return float(whole)

    def path(self):
        return self.folder / f"step_{self.step:012d}.pt"

    def write(self, state):
        super().write(state)
        folder = os.open(self.folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
