"""Plain models that know nothing of parallelism: a small CNN, a ResNet, a VGG, a small transformer.

All of them have the same outline, so that later lessons can cut any of them between layers::

    x = model.stem(x)              # raw input -> features
    for block in model.blocks:     # an nn.ModuleList; every block keeps the kind of tensor it was given
        x = block(x)
    return model.head(x)           # features -> logits

``pieces(model)`` lists those parts in order, under the names they have in ``state_dict()``.

In the order to read:

- ``loss.py``: what is made of logits
- ``pieces.py``: A model as a row of pieces, and how many parameters it has
- ``resnet.py``: residual networks of 18 to 152 layers
- ``small_cnn.py``: A convolutional network small enough for a laptop
- ``transformer.py``: A small decoder-only transformer: pre-norm blocks, learned positions, causal attention
- ``vgg.py``: convolutions first, large linear layers last
"""

from course_lib.models.loss import accuracy, next_token_loss
from course_lib.models.pieces import parameter_count, pieces
from course_lib.models.resnet import BasicBlock, Bottleneck, ResNet
from course_lib.models.small_cnn import SmallCNN
from course_lib.models.transformer import Attention, Mlp, Transformer, TransformerBlock, TransformerConfig
from course_lib.models.vgg import VGG

__all__ = [
    "VGG",
    "Attention",
    "BasicBlock",
    "Bottleneck",
    "Mlp",
    "ResNet",
    "SmallCNN",
    "Transformer",
    "TransformerBlock",
    "TransformerConfig",
    "accuracy",
    "next_token_loss",
    "parameter_count",
    "pieces",
]
