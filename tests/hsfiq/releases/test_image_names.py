"""The names of the images of a large corpus."""

from hsfiq.db.engine import Database
from hsfiq.releases.searches import image_names


def test_more_images_than_a_statement_of_postgresql_takes(database: Database) -> None:
    with database.reading() as session:
        assert image_names(session, set(range(70_000))) == {}
