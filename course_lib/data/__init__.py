"""Real data that needs no download, and loaders for it.

* ``digits()``: 1,797 handwritten digits, shipped inside scikit-learn;
* ``documentation_text()``: Python's own documentation, shipped with the course, as text, bytes and windows;
* ``generated_images(...)``: images of any size, made from a seed as they are asked for;
* ``image_folder(...)``: a folder of images with one sub-folder for each class, as ImageNet has;
* ``PacedReads(...)``: reads that sleep as long as one says, to see what a slow disk does to a loader;
* ``loader(dataset, ...)``: batches of any of them, in an order that a seed decides.

In the order to read:

- ``digits.py``: handwritten digits: 1,797 grey images of 8x8 pixels, shipped inside scikit-learn
- ``generated.py``: images of any size, made from a seed
- ``image_folder.py``: A folder of images with one sub-folder for each class, as ImageNet has
- ``loader.py``: batches of a data set, in an order that a seed decides
- ``paced.py``: reads that take as long as one says
- ``text.py``: python's own documentation as text to learn from
"""

from course_lib.data.digits import Digits, digits
from course_lib.data.generated import generated_images
from course_lib.data.image_folder import image_folder
from course_lib.data.loader import loader
from course_lib.data.paced import PacedReads
from course_lib.data.text import ByteTokenizer, TextWindows, documentation_text, documentation_windows

__all__ = [
    "ByteTokenizer",
    "Digits",
    "PacedReads",
    "TextWindows",
    "digits",
    "documentation_text",
    "documentation_windows",
    "generated_images",
    "image_folder",
    "loader",
]
