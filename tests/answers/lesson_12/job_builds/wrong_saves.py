"""12.job: jobs that train rightly, and lose something when they are stopped, killed, or begun on other ranks."""

from __future__ import annotations

import io
import os
import random

import torch
import torch.distributed as dist
from answers.lesson_12.job_builds.final import EachItsPart, Final


class NeverSaves(Final):
    def save(self):
        pass


class StepIsLost(Final):
    def load(self, state):
        super().load(state)
        self.step = 0


class WeightsAfresh(Final):
    def load(self, state):
        names = {name for name, _ in self.model.named_parameters()}
        old = self.model.state_dict()
        super().load(state | {"model": {n: old[n] if n in names else one for n, one in state["model"].items()}})


class BuffersAfresh(Final):
    """Parameters alone are saved."""

    def load(self, state):
        names = {name for name, _ in self.model.named_parameters(remove_duplicate=False)}
        old = self.model.state_dict()
        super().load(state | {"model": {n: one if n in names else old[n] for n, one in state["model"].items()}})


class OptimizerAfresh(Final):
    def load(self, state):
        super().load(state | {"optimizer": self.optimizer.state_dict()})


class ScheduleAfresh(Final):
    def load(self, state):
        super().load(state | {"schedule": self.schedule and self.schedule.state_dict()})


class RandomAfresh(Final):
    def load(self, state):
        super().load(state | {"random": self.random.get_state()})


class EpochAgain(Final):
    """The place in the epoch is kept beside the step, and nobody saves it."""

    ahead = 0

    def load(self, state):
        super().load(state)
        self.ahead = self.step % -(-self.num_samples // self.batch_size)

    def batch(self, step):
        return super().batch(step - self.ahead)


class LoadsOnRank0(Final):
    def load(self, state):
        if self.me.rank == 0:
            super().load(state)
        self.step = state["step"]


class NameOrder(Final):
    def there(self):
        return sorted(self.folder.glob("step_*.pt"))


class NotSynced(Final):
    def sync(self, file):
        pass


class InPlace(Final):
    def write(self, state):
        torch.save(state, self.path())

    def read(self, path):
        return torch.load(path)

    def resume(self):
        there = self.there()
        if there:
            self.load(self.read(there[-1]))
        return self.step


class OneFileInPlace(InPlace):
    def path(self):
        return self.folder / "last.pt"

    def there(self):
        return [path for path in [self.path()] if path.exists()]


class RenamesBeforeItIsWritten(InPlace):
    """The rename comes within the `with`, before what is buffered is written."""

    def write(self, state):
        draft, content = self.folder / "draft", io.BytesIO()
        torch.save(state, content)
        with draft.open("wb", buffering=1 << 20) as file:
            file.write(content.getvalue())
            os.replace(draft, self.path())
            file.flush()
            os.fsync(file.fileno())


class OldGoesFirst(Final):
    def save(self):
        if self.me.rank == 0:
            for old in self.there():
                old.unlink()
        super().save()


class SaidTooEarly(EachItsPart):
    """Rank 0 says that all is there when its own part is."""

    def save(self):
        self.write_part()
        if self.me.rank == 0:
            (self.folder / f"{self.step}.whole").write_text(str(self.me.world_size))
            self.prune()
        dist.barrier()

    def resume(self):
        there = self.there()
        if there:
            self.load(self.read(there[-1]))
        return self.step


class MarkGoesFirst(EachItsPart):
    """The file that names the newest is written first."""

    def save(self):
        if self.me.rank == 0:
            draft = self.folder / "mark"
            with draft.open("w") as file:
                file.write(str(self.me.world_size))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.folder / f"{self.step}.whole")
        dist.barrier()
        self.write_part()
        dist.barrier()
        if self.me.rank == 0:
            self.prune()

    def resume(self):
        there = self.there()
        if there:
            self.load(self.read(there[-1]))
        return self.step


class KeepsAll(Final):
    def prune(self):
        pass


class FileOfRank(Final):
    """Each rank writes all of it into a file of its own, and looks for that."""

    def path(self):
        return self.folder / f"step_{self.step}_of_{self.me.world_size}.pt"

    def there(self):
        return sorted(
            self.folder.glob(f"step_*_of_{self.me.world_size}.pt"), key=lambda path: int(path.stem.split("_")[1])
        )


class PlaceOfRank(Final):
    """What is kept is how many samples a rank has had."""

    def state(self):
        return super().state() | {"had": self.step * self.batch_size // self.me.world_size}

    def load(self, state):
        super().load(state)
        self.step = state["had"] // (self.batch_size // self.me.world_size)


class RandomOfRank(Final):
    """Each rank has a generator of its own and saves it; with as many ranks, all goes on as it did."""

    def batch(self, step):
        return super().batch(step)

    def load(self, state):
        super().load(state)
        if self.me.world_size != state["ranks"]:
            self.random = torch.Generator().manual_seed(self.seed + self.step)

    def state(self):
        return super().state() | {"ranks": self.me.world_size}


class EverybodyWrites(Final):
    """Each rank writes all of it into a file of its own; any rank's will do."""

    def save(self):
        draft = self.folder / f"draft{self.me.rank}"
        problem = None
        try:
            with draft.open("wb") as file:
                torch.save(self.state(), file)
                file.flush()
                os.fsync(file.fileno())
        except Exception as error:
            problem = str(error)
        problems = [None] * self.me.world_size
        dist.all_gather_object(problems, problem)
        if any(problems):
            raise RuntimeError(next(filter(None, problems)))
        if self.me.rank == 0:
            os.replace(draft, self.path())
            self.prune()
        else:
            draft.unlink()
        dist.barrier()


class SendsTheState(Final):
    def save(self):
        gathered = [None] * self.me.world_size
        dist.all_gather_object(gathered, self.state())
        super().save()


class NobodyIsTold(Final):
    def save(self):
        if self.me.rank == 0:
            try:
                self.write(self.state())
                self.prune()
            except OSError as error:
                print("not saved:", error)
        dist.barrier()


class WhyIsLost(Final):
    def save(self):
        good = torch.ones(1)
        if self.me.rank == 0:
            try:
                self.write(self.state())
                self.prune()
            except OSError:
                good.zero_()
        dist.broadcast(good, src=0)
        if not good:
            raise RuntimeError("not saved")


class OthersWait(Final):
    def save(self):
        if self.me.rank == 0:
            self.write(self.state())
            self.prune()
        dist.barrier()


class NeedsAState(Final):
    def state(self):
        first = next(iter(self.optimizer.state.values()))
        return super().state() | {"number": first["step"]}


class NeedsACheckpoint(Final):
    def resume(self):
        if not self.there():
            raise FileNotFoundError(f"no checkpoint in {self.folder}")
        return super().resume()


class TrustsTheBytes(Final):
    def read(self, path):
        return torch.load(path)


class StopsAtDamage(Final):
    def resume(self):
        there = self.there()
        if there:
            self.load(self.read(there[-1]))
        return self.step


class SaysNothing(Final):
    def tell(self, path, error):
        pass


class TakesAnyFile(Final):
    def there(self):
        return sorted(self.folder.glob("*.pt"), key=lambda path: path.stat().st_mtime_ns)


class EmptiesTheFolder(Final):
    """What is not one of the last two is removed."""

    def prune(self):
        for path in self.folder.iterdir():
            if path not in self.there()[-2:] and path.is_file():
                path.unlink()


class Unlucky(Final):
    """A seed of its own at each start."""

    def load(self, state):
        super().load(state)
        self.seed = random.SystemRandom().randrange(1000)
