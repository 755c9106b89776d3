"""A study's file with every key."""

from __future__ import annotations

OF_OTHER_KINDS = (
    *("design.kind", "design.levels", "design.sets", "design.show_target"),
    *("wording.levels", "wording.image", "wording.rank", "wording.query"),
    *("searches.task", "searches.target_seconds", "searches.rounds"),
    *("searches.history", "searches.chooser", "searches.retrievers"),
    *("searches.leaderboard", "searches.uploads"),
)
"""Keys with their defaults below, because other values cannot be used with what is for pairs."""

EVERY_KEY = """
[study]
name = "autumn-2026"
title = "어느 가게?"
guidelines = '''
# Look twice

[design]
k = 9
name = "no table, no key: this is text"
'''
consent = "I take part."
institution = "University of Examples"
contact = "study@example.org"
ethics = "board 7, 2026-17"
minutes = 20
languages = ["ko", "en"]
instrument = "papers"
set_names = ["Set A", "Set B"]

[design]
kind = "pair"
levels = 2
sets = 3
show_target = true
k = 3
questions_per_form = 10
forms_per_participant = 4
annotators_per_query = 3
overlap_share = 0.25
categories = "mixed"
image_order = "shuffled"
preference_ties = true
confirm_contradictions = true
reason_every = 5
lease_minutes = 45
seed = 17

[checks]
arithmetic = false
gold = 2
repeated = 1
on_failure = "pause"

[practice]
query = "12"
systems = ["SPRC", "CLIP4CIR"]
expected = "2"
explanation = "The second set shows what the text asks for."

[queries]
dataset = "cirr"
categories = ["a", "b"]
splits = ["val"]
systems = ["CLIP4CIR", "SPRC"]
sample = 400

[recruitment]
mode = "prolific"
participants = 61
enrolments_per_address = 60
unbegun_minutes = 30
signed_links = true
quotas = {}
completion_code = "C0DE"
platform_study_id = "64ab0c1d"
completion_url = "https://app.prolific.com/submissions/complete?cc=C0DE"
max_failed_checks = 2
failed_checks_code = "FA1L"
full_code = "FU11"
declined_code = "N0"

[wording]
anchors = ["none", "", "all"]
levels = []
score = "How much of it?"
image = ""
rank = ""
query = ""
preference = "Which one?"
tie = "None"
reference = "Before"
text = "After"
irrelevant = "Useless"
reason = "Why?"

[[questionnaire.after_each]]
name = "style"
type = "choice"
text = "Which style?"
options = ["Old", "New"]
required = true
other = true

[questionnaire]
note = "Voluntary."

[[questionnaire.at_end]]
name = "age"
type = "number"
text = "How old are you?"
options = []
required = true
min = 18.0
max = 99.5

[searches]
task = "target-shown"
target_seconds = 10
rounds = 5
history = "mean"
chooser = "nearest"
leaderboard = "owner"
uploads = false
retrievers = []

[analysis]
question = "metrics"
pair = ["cirqrs", "recall@5"]
statistic = "spearman"
margin = 0.05
alpha = 0.01
exclusions = ["invalid", "too-fast(seconds=2)"]

[release]
licence = "CC-BY-4.0"
citation = "@misc{shops, title = {Which shop?}}"
authors = ["Kim", "Ada Lovelace"]
contact = "shops@example.org"
url = "https://example.org/shops"
date = "2026-11-23"
name = "Shops: preferences"
description = "Which of two sets people prefer."
"""
