"""10.ring: what is seen while a learner's ring runs: products, what is in flight at each, and how much is there."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.cluster.hooks import comm_hooks, operators
from course_lib.cluster.hooks.operators import tensors_in

__all__ = ["ProductSeen", "Received", "RingWatch"]

_LEFT_SIDE = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
_FUSED = "_scaled_dot_product"
_LOOKS, _PAUSE_S = 20, 0.01


@dataclass(frozen=True)
class ProductSeen:
    """A product of matrices: the multiplications of those before it, and what was in flight when it began."""

    done: int
    arriving_bytes: int
    leaving_bytes: int


class RingWatch(TorchDispatchMode):
    """Counts multiplications in products, and the numbers of the largest tensor that is made.

    ``in_flight()`` gives the bytes that arrive and that leave; ``look()`` is called at each product.
    """

    def __init__(
        self,
        in_flight: Callable[[], tuple[int, int]] = lambda: (0, 0),
        look: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.in_flight, self.look = in_flight, look
        self.multiplications = self.largest = 0
        self.products: list[ProductSeen] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__.removesuffix("_")
        if name in _LEFT_SIDE or name.startswith(_FUSED):
            self.products.append(ProductSeen(self.multiplications, *self.in_flight()))
            self.look()
        made = func(*args, **(kwargs or {}))
        self.multiplications += _multiplications(name, made, args)
        if isinstance(made, Tensor):
            self.largest = max(self.largest, made.untyped_storage().nbytes() // made.element_size())
        return made

    def firsts(self, num_blocks: int) -> list[ProductSeen]:
        """Where all blocks cost alike: the first product of each."""
        share = self.multiplications / num_blocks
        found = []
        for product in self.products:
            if len(found) < num_blocks and product.done >= (len(found) - 0.02) * share:
                found.append(product)
        return found


def _multiplications(name: str, made: Any, args: Any) -> int:
    if name in _LEFT_SIDE:
        return made.numel() * args[_LEFT_SIDE[name]].shape[-1]
    if name.startswith(_FUSED):
        return 2 * args[0].numel() * args[1].shape[-2]
    if name in ("mul", "addcmul") and isinstance(made, Tensor):
        sizes = [one.numel() for one in args if isinstance(one, Tensor)]
        return made.numel() if sizes and made.numel() > max(sizes) else 0  # an outer product
    return 0


class Received:
    """Remembers weakly what messages arrive in: how much of it is there at once, and how much was there at most.

    A thread of gloo may let go of a message a moment after the wait for it: of a few looks the least counts.
    """

    def __init__(self, enough_bytes: Callable[[], int]) -> None:
        self.enough_bytes, self.most_bytes = enough_bytes, 0
        self._rooms: dict[Any, tuple[StorageWeakRef, int]] = {}

    def __enter__(self) -> Received:
        comm_hooks.subscribe(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        comm_hooks.unsubscribe(self._on_call)

    def _on_call(self, name: str, arguments: dict[str, Any], proceed: Callable[[], Any]) -> Any:
        asked = operators.read(name, arguments)
        if asked is not None and asked.operation == "recv":
            for tensor in tensors_in([*arguments.values()]):
                storage = tensor.untyped_storage()
                self._rooms[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        return proceed()

    def look(self) -> None:
        """Note how much there is now."""
        for _ in range(_LOOKS):
            if self._now() <= self.enough_bytes():
                break
            gc.collect()
            time.sleep(_PAUSE_S)
        self.most_bytes = max(self.most_bytes, self._now())

    def _now(self) -> int:
        self._rooms = {key: room for key, room in self._rooms.items() if not room[0].expired()}
        return sum(size for _, size in self._rooms.values())
