"""All pages of the studio."""

from __future__ import annotations

from fastapi import FastAPI

from hsfiq.annotate.handlers import Services
from hsfiq.annotate.owner.downloads import add_audit
from hsfiq.annotate.owner.login import Identities
from hsfiq.annotate.owner.study_pages import add_study_files
from hsfiq.annotate.studio import design, images, people, question, systems
from hsfiq.annotate.studio.decisions import add_pay_list
from hsfiq.annotate.studio.home import HOME, add_setup
from hsfiq.annotate.studio.launch import add_rehearsal, step_after
from hsfiq.annotate.studio.question import add_preview_of_draft
from hsfiq.annotate.studio.recruiting import RECRUITING
from hsfiq.annotate.studio.results import RESULTS, TEXTS, add_reports, add_shared_reports
from hsfiq.annotate.studio.setup import add_steps
from hsfiq.annotate.studio.shell import Studio, add_files, add_page
from hsfiq.annotate.studio.watch import HISTORY, WATCH, add_tables

BEFORE_LAUNCH = (images.STEP, systems.STEP, question.STEP, design.STEP, people.STEP)
STEPS = (*BEFORE_LAUNCH, step_after(BEFORE_LAUNCH))


def add_studio(app: FastAPI, services: Services, identities: Identities) -> None:
    studio = Studio(services, identities)
    add_files(app)
    for page in (HOME, RESULTS, TEXTS, WATCH, HISTORY, RECRUITING):
        add_page(app, studio, page)
    add_steps(app, studio, STEPS)
    add_setup(app, studio)
    images.add_uploads(app, studio)
    people.add_links(app, studio)
    add_preview_of_draft(app, studio)
    add_rehearsal(app, studio)
    add_shared_reports(app, studio)
    add_reports(app, studio)
    add_pay_list(app, studio)
    add_tables(app, studio)
    add_study_files(app, identities, services.images)
    add_audit(app, identities)
