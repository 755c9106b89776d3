"""Importing this draws what the pictures of the drawn catalogue share, which takes a second."""

from itertools import product

from hsfiq.drawn.garments import CATEGORIES, VALUES
from hsfiq.drawn.pictures import START, drawn_small, layers, logo_parts, pattern_parts

for category, sleeve, neckline in product(CATEGORIES, VALUES["sleeve"], VALUES["neckline"]):
    layers(category, sleeve, neckline)  # type: ignore[arg-type]  # from VALUES
for category, sleeve, pattern in product(CATEGORIES, VALUES["sleeve"], VALUES["pattern"]):
    pattern_parts(category, sleeve, pattern)  # type: ignore[arg-type]
for category, neckline, logo in product(CATEGORIES, VALUES["neckline"], VALUES["logo"]):
    logo_parts(category, neckline, logo)  # type: ignore[arg-type]
for garment in START:
    drawn_small(garment)
