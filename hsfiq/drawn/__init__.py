"""The drawn catalogue: garments, triplets, systems and annotators with known ground truth.

For the demo, the tests and the benchmarks. Everything is drawn by seeded generators and follows
from the garments' attributes, never from a scorer, so that every result of the pipeline can be
compared with the truth. Only pictures and recognizing them need Pillow.
"""

from hsfiq.drawn.annotators import Population, SimulatedAnnotator, draw_annotators
from hsfiq.drawn.garments import Garment, catalogue, corpus, garment_of, generator
from hsfiq.drawn.triplets import DrawnTriplet, draw_split, draw_triplets
from hsfiq.drawn.utility import SYSTEMS, DrawnSystem, set_utility, utility

__all__ = [
    "SYSTEMS",
    "DrawnSystem",
    "DrawnTriplet",
    "Garment",
    "Population",
    "SimulatedAnnotator",
    "catalogue",
    "corpus",
    "draw_annotators",
    "draw_split",
    "draw_triplets",
    "garment_of",
    "generator",
    "set_utility",
    "utility",
]
