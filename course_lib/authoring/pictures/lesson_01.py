"""The pictures of lesson 01.

Sizes in the pictures of memory come from the cost model; the other pictures are drawings.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.authoring.pictures.sketch import INK, Drawings, arrow, drawing, word
from course_lib.cost.single_device.activations import activation_bytes, conv_activations
from course_lib.cost.single_device.architectures import cnn_layers
from course_lib.cost.single_device.model_state import model_state
from course_lib.cost.single_device.step_memory import transformer_memory
from course_lib.models import SmallCNN, TransformerConfig, parameter_count
from course_lib.plot import OKABE_ITO, memory_bars

BLUE, ORANGE, GREEN = OKABE_ITO["blue"], OKABE_ITO["orange"], OKABE_ITO["green"]
PURPLE, RED, SKY = OKABE_ITO["purple"], OKABE_ITO["vermillion"], OKABE_ITO["sky blue"]
STYLE = {"hatch.linewidth": 0.7}


def box(
    axes: Axes, x: float, y: float, wide: float, high: float, text: str = "", *, colour: str = "white",
    ink: str = "black", hatch: str = "", dashed: bool = False, size: float = 10,
) -> None:  # fmt: skip
    """A rectangle with a text in its middle; its hatch is white."""
    edge, dash = "white" if hatch else INK, "--" if dashed else "-"
    axes.add_patch(
        Rectangle((x, y), wide, high, facecolor=colour, edgecolor=edge, hatch=hatch, linewidth=1, linestyle=dash)
    )
    if hatch:
        axes.add_patch(Rectangle((x, y), wide, high, fill=False, edgecolor=INK, linewidth=1))
    ground = {"facecolor": colour, "edgecolor": "none", "pad": 1.5} if hatch else None
    word(axes, x + wide / 2, y + high / 2, text, size=size, color=ink, bbox=ground)


def memory_kinds() -> Figure:
    """What the digits network holds at three moments of a step, by the cost model."""
    model = SmallCNN()
    state = model_state(parameter_count(model), num_tensors=len(list(model.parameters())))
    kept = activation_bytes(conv_activations(cnn_layers(batch_size=64)))
    held = {"parameter": state.parameters, "optimizer state": state.optimizer}
    bars = {
        "start of the step": held,
        "after forward": {**held, "activation": kept},
        "after backward": {**held, "gradient": state.gradients},
    }
    return memory_bars(bars, title="A step of the digits network, batch of 64").figure


def three_products() -> Figure:
    """The three matrix products of a linear layer, and what each costs."""
    figure, axes = drawing(8, 3.2)
    rows = [
        ("forward", 22, ("y", 8, 5), ("x", 5, 5), ("w", 8, 4)),
        ("backward, for the input", 12, ("grad x", 7, 5), ("grad y", 8, 5), ("wᵀ", 8, 5)),
        ("backward, for the weights", 2, ("grad w", 8, 5), ("xᵀ", 5, 5), ("grad y", 8, 5)),
    ]
    for title, y, result, left, right in rows:
        axes.text(2, y + 3, title, va="center", fontsize=10, fontweight="bold")
        x = 28.0
        for sign, (text, wide, high) in (("", result), ("=", left), ("×", right)):
            axes.text(x - 2.2, y + 3, sign, ha="center", va="center", fontsize=13)
            is_grad = text.startswith("grad")
            box(axes, x, y + 3 - high / 2, wide, high, text, colour=ORANGE if is_grad else SKY,
                hatch="//" if is_grad else "", size=9)  # fmt: skip
            x += wide + 4.5
        axes.text(79, y + 3, "2 × rows × in × out FLOP", ha="right", va="center", fontsize=9)
    return figure


def bfloat16() -> Figure:
    """The bits of a float32 above those of a bfloat16."""
    figure, axes = drawing(8, 2.9)
    for y, name, digits in ((17, "float32", 23), (4, "bfloat16", 7)):
        axes.text(3, y + 3, name, fontsize=11, fontweight="bold", va="center")
        for i in range(1 + 8 + digits):
            colour = RED if i == 0 else SKY if i < 9 else PURPLE
            letter = "s" if i == 0 else "e" if i < 9 else "d"
            box(axes, 14 + 2 * i, y, 2, 6, letter, colour=colour, size=8)
    axes.text(14, 26, "s sign   e exponent: how large   d digits: how exactly", fontsize=10, va="center")
    return figure


def accumulate() -> Figure:
    """Twelve examples in pieces of 5, 5 and 2; by what each counts in the sum of gradients is the question."""
    figure, axes = drawing(8, 3.0)
    x = 3.0
    for size in (5, 5, 2):
        for i in range(size):
            box(axes, x + 3.4 * i, 22, 3.4, 4, "", colour=SKY)
        middle = x + 3.4 * size / 2
        arrow(axes, (middle, 21.5), (middle, 12.5))
        axes.text(middle + 1, 17, "× ?", fontsize=11, va="center")
        x += 3.4 * size + 4
    axes.text(3, 27.2, "a batch of 12 examples, in pieces of 5, 5 and 2", fontsize=10, fontweight="bold")
    box(axes, 3, 6, x - 7, 6, "one running sum, .grad", colour=ORANGE, hatch="//")
    arrow(axes, (x - 4, 9), (x + 3, 9))
    box(axes, x + 3.5, 6, 16, 6, "one step", colour=GREEN, hatch="\\\\")
    return figure


def autocast() -> Figure:
    """What has two bytes under autocast, and what keeps four."""
    figure, axes = drawing(8, 2.9)
    rows = [
        (17, "2 bytes", SKY, "", ["inputs of matmuls", "copies of the weights", "q, k, v, MLP inside"]),
        (4, "4 bytes", BLUE, "", ["parameters", "gradients", "AdamW's two", "norms, sums, loss"]),
    ]
    for y, text, colour, hatch, names in rows:
        axes.text(3, y + 4, text, fontsize=11, fontweight="bold", va="center")
        wide = 64 / len(names)
        for i, name in enumerate(names):
            box(axes, 13 + i * wide, y, wide - 1.2, 8, name, colour=colour, ink="black" if colour == SKY else "white",
                hatch=hatch, size=9.5)  # fmt: skip
    axes.text(3, 26.6, "under bfloat16 autocast", fontsize=10, va="center")
    return figure


def recompute() -> Figure:
    """Activations of four blocks: all kept, or the inputs alone and one block computed again."""
    figure, axes = drawing(8, 3.6)

    def row(y: float, title: str, filled: Sequence[int], back: int | None) -> None:
        axes.text(3, y + 8.7, title, fontsize=10, fontweight="bold")
        for block in range(4):
            x = 3 + 19 * block
            for i in range(5):
                kept, again = i in filled, block == back and i not in filled
                colour = RED if kept else PURPLE if again else "white"
                hatch, dashed = ".." if again else "", not (kept or again)
                box(axes, x + 3.2 * i, y, 3.0, 6, colour=colour, hatch=hatch, dashed=dashed)
            axes.text(x + 8, y - 2, f"block {block}", ha="center", va="center", fontsize=9)

    row(22, "keep everything until backward", range(5), None)
    row(
        5,
        "keep each block's input; backward is in block 3 and has computed the rest of it again (dotted)",
        [0],
        3,
    )
    return figure


def loader() -> Figure:
    """The way of a batch from files to the device, and below each place the settings of PyTorch's data loader."""
    figure, axes = drawing(8, 2.9)
    box(axes, 2, 13, 9, 6, "files")
    for y in (18, 8):
        box(axes, 18, y, 17, 6, "worker:\nread, decode, cut", colour=PURPLE, size=9)
        arrow(axes, (11.5, 16), (17.5, y + 3))
        arrow(axes, (35.5, y + 3), (39.5, 16))
    for slot in range(4):
        box(axes, 40 + 3.4 * slot, 13, 3.4, 6, colour=PURPLE if slot > 0 else "white", dashed=slot == 0)
    arrow(axes, (54, 16), (57.5, 16))
    box(axes, 58, 13, 9, 6, "pinned\nmemory", colour=SKY, size=9)
    arrow(axes, (67.5, 16), (70.5, 16))
    box(axes, 71, 13, 7.5, 6, "device", colour=BLUE, ink="white")
    word(axes, 46.8, 21, "ready batches", size=9.5)
    settings = [(26.5, "num_workers\npersistent_workers"), (46.8, "prefetch_factor\n"),
                (62.5, "pin_memory\n"), (74.2, "non_blocking\n")]  # fmt: skip
    for x, text in settings:
        axes.text(x, 3.5, text, size=9, family="DejaVu Sans Mono", ha="center", va="center", color=INK)
    axes.text(46.8, 2.5, "for each worker", size=9, ha="center", va="center", color=INK)
    return figure


def explorer() -> Figure:
    """The memory explorer with its controls, at one choice."""
    config = TransformerConfig(context_length=256, num_layers=12, width=512, num_heads=8)
    before = transformer_memory(config, batch_size=32)
    after = transformer_memory(config, batch_size=16)
    bars = memory_bars(
        {"kept": before, "now": after}, title="Memory of a training step, predicted", limit_bytes=2 << 30
    )
    figure = bars.figure
    figure.set_layout_engine("none")
    figure.set_size_inches(8, figure.get_size_inches()[1] + 0.9)
    height = figure.get_size_inches()[1]
    shrink = (height - 0.9) / height
    for part in figure.axes:
        place = part.get_position()
        part.set_position((0.08, 0.26, 0.86, place.height * shrink * 0.72))
    controls = figure.add_axes((0, shrink, 1, 1 - shrink))
    controls.set(xlim=(0, 80), ylim=(0, 9))
    controls.axis("off")
    for i, (name, value) in enumerate(
        [("Batch size", "16"), ("Optimizer", "adamw"), ("Precision", "float32"), ("Recompute", "no")]
    ):
        controls.text(2 + 19.5 * i, 5, name, fontsize=9, va="center")
        box(controls, 10 + 19.5 * i, 2.5, 9.5, 5, value, size=9)
    return figure


def levers() -> Figure:
    """Memory of a step by the cost model: plain, with each of three levers, and with all."""
    config = TransformerConfig(context_length=256, num_layers=12, width=512, num_heads=8)
    bars = {
        "plain": transformer_memory(config, batch_size=32),
        "in 4 pieces": transformer_memory(config, batch_size=8),
        "autocast": transformer_memory(config, batch_size=32, precision="bfloat16 autocast"),
        "recomputed": transformer_memory(config, batch_size=32, recompute=True),
        "all three": transformer_memory(config, batch_size=8, precision="bfloat16 autocast", recompute=True),
    }
    return memory_bars(bars, title="12 layers of width 512, batch of 32 with AdamW").figure


PICTURES: Drawings = {
    "memory_kinds": memory_kinds,
    "three_products": three_products,
    "accumulate": accumulate,
    "bfloat16": bfloat16,
    "autocast": autocast,
    "recompute": recompute,
    "loader": loader,
    "explorer": explorer,
    "levers": levers,
}
