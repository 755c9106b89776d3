"""The first schema."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("image_root", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", name=op.f("uq_datasets_name")),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.String(length=40), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_settings")),
    )
    op.create_table(
        "studies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("guidelines", sa.Text(), nullable=False),
        sa.Column("consent", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("origin", sa.String(length=10), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("ties_allowed", sa.Boolean(), nullable=False),
        sa.Column("forms_per_participant", sa.Integer(), nullable=False),
        sa.Column("design", sa.JSON(), nullable=False),
        sa.Column("image_path", sa.Text(), nullable=False),
        sa.Column("source_sha256", sa.String(length=64), nullable=True),
        sa.CheckConstraint(
            "origin in ('collected', 'imported', 'simulated')", name=op.f("ck_studies_origin")
        ),
        sa.CheckConstraint(
            "status in ('draft', 'open', 'paused', 'closed')", name=op.f("ck_studies_status")
        ),
        sa.CheckConstraint("k >= 1", name=op.f("ck_studies_k")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
        sa.UniqueConstraint("name", name=op.f("uq_studies_name")),
    )
    op.create_table(
        "systems",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_systems")),
        sa.UniqueConstraint("name", name=op.f("uq_systems_name")),
    )
    op.create_table(
        "corpora",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_corpora_dataset_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_corpora")),
        sa.UniqueConstraint("dataset_id", "name", name=op.f("uq_corpora_dataset_id_name")),
    )
    op.create_table(
        "images",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_images_dataset_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
        sa.UniqueConstraint("dataset_id", "name", name=op.f("uq_images_dataset_id_name")),
        sa.UniqueConstraint("token", name=op.f("uq_images_token")),
    )
    op.create_table(
        "participants",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("category", sa.String(length=40), nullable=True),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("source", sa.String(length=20), nullable=False),
        sa.Column("external_id", sa.String(length=200), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("consented_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("practised_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("enrolled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "source in ('open', 'invitation', 'prolific', 'mturk', 'imported')",
            name=op.f("ck_participants_source"),
        ),
        sa.CheckConstraint(
            "status in ('active', 'paused', 'returned', 'screened-out', 'excluded')",
            name=op.f("ck_participants_status"),
        ),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name=op.f("fk_participants_study_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_participants")),
        sa.UniqueConstraint(
            "study_id", "external_id", name=op.f("uq_participants_study_id_external_id")
        ),
        sa.UniqueConstraint("study_id", "name", name=op.f("uq_participants_study_id_name")),
        sa.UniqueConstraint("token", name=op.f("uq_participants_token")),
    )
    op.create_table(
        "corpus_images",
        sa.Column("corpus_id", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["corpus_id"], ["corpora.id"], name=op.f("fk_corpus_images_corpus_id")
        ),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_corpus_images_image_id")
        ),
        sa.PrimaryKeyConstraint("corpus_id", "image_id", name=op.f("pk_corpus_images")),
    )
    with op.batch_alter_table("corpus_images", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(batch_op.f("ix_corpus_images_image_id"), ["image_id"], unique=False)

    op.create_table(
        "forms",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("portion", sa.Integer(), nullable=False),
        sa.Column("category", sa.String(length=40), nullable=False),
        sa.Column("participant_id", sa.Integer(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=True),
        sa.Column("name", sa.String(length=80), nullable=True),
        sa.CheckConstraint(
            "(participant_id is null and position is null and name is null) or (participant_id is not null and position is not null and name is not null)",
            name=op.f("ck_forms_taken"),
        ),
        sa.ForeignKeyConstraint(
            ["participant_id"], ["participants.id"], name=op.f("fk_forms_participant_id")
        ),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_forms_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forms")),
        sa.UniqueConstraint("participant_id", "name", name=op.f("uq_forms_participant_id_name")),
        sa.UniqueConstraint(
            "participant_id", "position", name=op.f("uq_forms_participant_id_position")
        ),
        sa.UniqueConstraint("study_id", "number", name=op.f("uq_forms_study_id_number")),
    )
    op.create_table(
        "triplets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("external_id", sa.String(length=200), nullable=False),
        sa.Column("category", sa.String(length=40), nullable=False),
        sa.Column("split", sa.String(length=40), nullable=True),
        sa.Column("reference_id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=True),
        sa.Column("captions", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_triplets_dataset_id")
        ),
        sa.ForeignKeyConstraint(
            ["reference_id"], ["images.id"], name=op.f("fk_triplets_reference_id")
        ),
        sa.ForeignKeyConstraint(["target_id"], ["images.id"], name=op.f("fk_triplets_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_triplets")),
        sa.UniqueConstraint(
            "dataset_id", "external_id", name=op.f("uq_triplets_dataset_id_external_id")
        ),
    )
    with op.batch_alter_table("triplets", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_triplets_reference_id"), ["reference_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_triplets_target_id"), ["target_id"], unique=False)

    op.create_table(
        "queries",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("triplet_id", sa.Integer(), nullable=False),
        sa.Column("suffix", sa.String(length=20), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["triplet_id"], ["triplets.id"], name=op.f("fk_queries_triplet_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queries")),
        sa.UniqueConstraint("triplet_id", "suffix", name=op.f("uq_queries_triplet_id_suffix")),
    )
    op.create_table(
        "ranked_lists",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=False),
        sa.Column("query_id", sa.Integer(), nullable=False),
        sa.Column("image_ids", sa.JSON(), nullable=False),
        sa.Column("scores", sa.JSON(), nullable=True),
        sa.ForeignKeyConstraint(
            ["query_id"], ["queries.id"], name=op.f("fk_ranked_lists_query_id")
        ),
        sa.ForeignKeyConstraint(
            ["system_id"], ["systems.id"], name=op.f("fk_ranked_lists_system_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ranked_lists")),
        sa.UniqueConstraint(
            "system_id", "query_id", name=op.f("uq_ranked_lists_system_id_query_id")
        ),
    )
    with op.batch_alter_table("ranked_lists", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(batch_op.f("ix_ranked_lists_query_id"), ["query_id"], unique=False)

    op.create_table(
        "retrieved_sets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("query_id", sa.Integer(), nullable=False),
        sa.Column("system_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["query_id"], ["queries.id"], name=op.f("fk_retrieved_sets_query_id")
        ),
        sa.ForeignKeyConstraint(
            ["system_id"], ["systems.id"], name=op.f("fk_retrieved_sets_system_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_retrieved_sets")),
        sa.UniqueConstraint("id", "query_id", name=op.f("uq_retrieved_sets_id_query_id")),
    )
    with op.batch_alter_table("retrieved_sets", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(batch_op.f("ix_retrieved_sets_query_id"), ["query_id"], unique=False)

    op.create_table(
        "pairs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("query_id", sa.Integer(), nullable=False),
        sa.Column("first_id", sa.Integer(), nullable=False),
        sa.Column("second_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["first_id", "query_id"],
            ["retrieved_sets.id", "retrieved_sets.query_id"],
            name=op.f("fk_pairs_first_id"),
        ),
        sa.ForeignKeyConstraint(["query_id"], ["queries.id"], name=op.f("fk_pairs_query_id")),
        sa.ForeignKeyConstraint(
            ["second_id", "query_id"],
            ["retrieved_sets.id", "retrieved_sets.query_id"],
            name=op.f("fk_pairs_second_id"),
        ),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_pairs_study_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pairs")),
    )
    with op.batch_alter_table("pairs", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(batch_op.f("ix_pairs_query_id"), ["query_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_pairs_study_id"), ["study_id"], unique=False)

    op.create_table(
        "retrieved_images",
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("image_id", sa.Integer(), nullable=False),
        sa.CheckConstraint("rank >= 0", name=op.f("ck_retrieved_images_rank")),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_retrieved_images_image_id")
        ),
        sa.ForeignKeyConstraint(
            ["set_id"], ["retrieved_sets.id"], name=op.f("fk_retrieved_images_set_id")
        ),
        sa.PrimaryKeyConstraint("set_id", "rank", name=op.f("pk_retrieved_images")),
    )
    op.create_table(
        "questions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("form_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("pair_id", sa.Integer(), nullable=False),
        sa.Column("swapped", sa.Boolean(), nullable=False),
        sa.Column("order_1", sa.JSON(), nullable=True),
        sa.Column("order_2", sa.JSON(), nullable=True),
        sa.Column("handed_on", sa.Boolean(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("served_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("place >= 0", name=op.f("ck_questions_place")),
        sa.ForeignKeyConstraint(["form_id"], ["forms.id"], name=op.f("fk_questions_form_id")),
        sa.ForeignKeyConstraint(["pair_id"], ["pairs.id"], name=op.f("fk_questions_pair_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_questions")),
        sa.UniqueConstraint("form_id", "place", name=op.f("uq_questions_form_id_place")),
    )
    with op.batch_alter_table("questions", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(batch_op.f("ix_questions_pair_id"), ["pair_id"], unique=False)

    op.create_table(
        "checks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("form_id", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=True),
        sa.Column("expected", sa.Text(), nullable=True),
        sa.Column("question_id", sa.Integer(), nullable=True),
        sa.Column("repeats_id", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "(kind = 'arithmetic' and prompt is not null and expected is not null) or (kind = 'gold' and question_id is not null and expected is not null) or (kind = 'repeat' and question_id is not null and repeats_id is not null)",
            name=op.f("ck_checks_whole"),
        ),
        sa.CheckConstraint("kind in ('arithmetic', 'gold', 'repeat')", name=op.f("ck_checks_kind")),
        sa.ForeignKeyConstraint(["form_id"], ["forms.id"], name=op.f("fk_checks_form_id")),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_checks_question_id")
        ),
        sa.ForeignKeyConstraint(
            ["repeats_id"], ["questions.id"], name=op.f("fk_checks_repeats_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checks")),
        sa.UniqueConstraint("form_id", "place", "kind", name=op.f("uq_checks_form_id_place_kind")),
        sa.UniqueConstraint("question_id", name=op.f("uq_checks_question_id")),
    )
    op.create_table(
        "responses",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.Integer(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("submit_key", sa.String(length=64), nullable=False),
        sa.Column("score_1", sa.Integer(), nullable=True),
        sa.Column("score_2", sa.Integer(), nullable=True),
        sa.Column("preferred", sa.Integer(), nullable=True),
        sa.Column("irrelevant", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("skipped", sa.String(length=40), nullable=True),
        sa.Column("served_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("first_interaction_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("active_seconds", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(skipped is null and score_1 is not null and score_2 is not null and preferred is not null) or (skipped is not null and score_1 is null and score_2 is null and preferred is null)",
            name=op.f("ck_responses_whole"),
        ),
        sa.CheckConstraint("active_seconds >= 0", name=op.f("ck_responses_active_seconds")),
        sa.CheckConstraint("preferred between 0 and 2", name=op.f("ck_responses_preferred")),
        sa.CheckConstraint("revision >= 1", name=op.f("ck_responses_revision")),
        sa.CheckConstraint("score_1 between 1 and 5", name=op.f("ck_responses_score_1")),
        sa.CheckConstraint("score_2 between 1 and 5", name=op.f("ck_responses_score_2")),
        sa.ForeignKeyConstraint(
            ["question_id"], ["questions.id"], name=op.f("fk_responses_question_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_responses")),
        sa.UniqueConstraint(
            "question_id", "revision", name=op.f("uq_responses_question_id_revision")
        ),
        sa.UniqueConstraint(
            "question_id", "submit_key", name=op.f("uq_responses_question_id_submit_key")
        ),
    )
    op.create_table(
        "check_answers",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("check_id", sa.Integer(), nullable=False),
        sa.Column("given", sa.Text(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["check_id"], ["checks.id"], name=op.f("fk_check_answers_check_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_check_answers")),
    )
    with op.batch_alter_table("check_answers", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.create_index(batch_op.f("ix_check_answers_check_id"), ["check_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("check_answers", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_check_answers_check_id"))

    op.drop_table("check_answers")
    op.drop_table("responses")
    op.drop_table("checks")
    with op.batch_alter_table("questions", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_questions_pair_id"))

    op.drop_table("questions")
    op.drop_table("retrieved_images")
    with op.batch_alter_table("pairs", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_pairs_study_id"))
        batch_op.drop_index(batch_op.f("ix_pairs_query_id"))

    op.drop_table("pairs")
    with op.batch_alter_table("retrieved_sets", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_retrieved_sets_query_id"))

    op.drop_table("retrieved_sets")
    with op.batch_alter_table("ranked_lists", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_ranked_lists_query_id"))

    op.drop_table("ranked_lists")
    op.drop_table("queries")
    with op.batch_alter_table("triplets", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_triplets_target_id"))
        batch_op.drop_index(batch_op.f("ix_triplets_reference_id"))

    op.drop_table("triplets")
    op.drop_table("forms")
    with op.batch_alter_table("corpus_images", reflect_kwargs={"resolve_fks": False}) as batch_op:
        batch_op.drop_index(batch_op.f("ix_corpus_images_image_id"))

    op.drop_table("corpus_images")
    op.drop_table("participants")
    op.drop_table("images")
    op.drop_table("corpora")
    op.drop_table("systems")
    op.drop_table("studies")
    op.drop_table("settings")
    op.drop_table("datasets")
