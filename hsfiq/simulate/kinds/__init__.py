"""How simulated annotators answer each question kind; `pair` has `SimulatedAnnotator.answer`."""

from hsfiq.simulate.kinds.images import judge_images
from hsfiq.simulate.kinds.query import judge_query
from hsfiq.simulate.kinds.question import JudgedQuestion, SimulatedJudgement
from hsfiq.simulate.kinds.ranking import rank_sets
from hsfiq.simulate.kinds.single import judge_set

JUDGES = {
    "single": judge_set,
    "images": judge_images,
    "ranking": rank_sets,
    "query": judge_query,
}
"""By question kind, the function that judges a question."""

__all__ = ["JUDGES", "JudgedQuestion", "SimulatedJudgement"]
