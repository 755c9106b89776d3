"""Statements that store rows, made once: making one takes as long as running it."""

from __future__ import annotations

from sqlalchemy import insert

from hsfiq.db.tables import FurtherSet, Pair, Question, RetrievedImage, RetrievedSet

NEW_SETS = insert(RetrievedSet).returning(RetrievedSet.id, sort_by_parameter_order=True)
NEW_IMAGES = insert(RetrievedImage)
NEW_PAIRS = insert(Pair).returning(Pair.id, sort_by_parameter_order=True)
NEW_FURTHER_SETS = insert(FurtherSet)
NEW_QUESTIONS = insert(Question).returning(Question.id, sort_by_parameter_order=True)
