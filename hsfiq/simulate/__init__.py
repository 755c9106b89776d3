"""Simulated annotators answer a running study over HTTP, as browsers do.

They know only what a page shows: images behind opaque tokens, texts, arithmetic checks. The study
must have been made for them (`hsfiq study create --simulated`), so that its outputs say so.
"""

from hsfiq.simulate.client import Destination, Sessions, destination_of
from hsfiq.simulate.participant import Outcome
from hsfiq.simulate.simulation import Simulation, Summary

__all__ = ["Destination", "Outcome", "Sessions", "Simulation", "Summary", "destination_of"]
