"""Figures of ranked lists on queries with judged images, graded and negative."""
