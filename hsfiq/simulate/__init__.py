"""Simulated annotators as outsiders: a client that answers a running study as browsers do.

They know what a page shows and nothing else: images behind opaque tokens, texts, sums. The study
has to be made for them (`hsfiq study create --simulated`), so that all made from it says so.
"""

from hsfiq.simulate.crowd import Crowd, Tally
from hsfiq.simulate.entry import Destination, destination_of
from hsfiq.simulate.participant import Outcome
from hsfiq.simulate.sessions import Sessions

__all__ = ["Crowd", "Destination", "Outcome", "Sessions", "Tally", "destination_of"]
