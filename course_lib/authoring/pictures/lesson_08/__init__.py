"""The pictures of lesson 08: the explorer is the widget's own, the others are drawings.

``products.py`` draws one product, cut; ``regions.py`` regions and their gates; ``model.py`` a loss and dropout;
``building.py`` has the picture of part e.
"""

from course_lib.authoring.pictures.lesson_08 import building, model, products, regions
from course_lib.authoring.pictures.sketch import Drawings

__all__ = ["PICTURES"]

PICTURES: Drawings = {
    "columns": products.columns,
    "rows": products.rows,
    "tiles": products.tiles,
    "backward": products.backward,
    "explorer": products.explorer,
    "between": regions.between,
    "gates": regions.gates,
    "region": regions.region,
    "block": regions.block,
    "vocabulary": model.vocabulary,
    "sequence": regions.sequence,
    "link": regions.link,
    "hidden": regions.hidden,
    "masks": model.masks,
    "gather": products.gather,
    "building": building.building,
}
