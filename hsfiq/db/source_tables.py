"""The tables of imported data (datasets, images, systems' ranked lists), and of accounts."""

from __future__ import annotations

import secrets
from datetime import datetime

from sqlalchemy import CheckConstraint, Column, ForeignKey, String, Table, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from hsfiq.db.types import DIGEST_LENGTH, Base, KeyedBase


class Setting(Base):
    """A value that belongs to this database, such as the key that signs its cookies."""

    __tablename__ = "settings"

    key: Mapped[str] = mapped_column(String(40), primary_key=True)
    value: Mapped[str]


class Account(KeyedBase):
    """An account of the studio; see `hsfiq.access`.

    `password` is a hash, None until one has been set. `link_hash` is the digest of the token in the
    link with which one can be set until `link_expires_at`.
    """

    __tablename__ = "accounts"
    __table_args__ = (CheckConstraint("role in ('owner', 'analyst', 'helper')", name="role"),)

    name: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[str] = mapped_column(String(10))
    is_disabled: Mapped[bool] = mapped_column(default=False)
    password: Mapped[str | None]
    link_hash: Mapped[str | None] = mapped_column(String(DIGEST_LENGTH), unique=True)
    link_expires_at: Mapped[datetime | None]


class Login(Base):
    """A login of an account, which a logout deletes."""

    __tablename__ = "logins"

    token_hash: Mapped[str] = mapped_column(String(DIGEST_LENGTH), primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), index=True)
    expires_at: Mapped[datetime]


class LoginAttempts(Base):
    """Attempts to log in at the studio, of one client or for one account, for some minutes.

    `client` is a keyed digest of the client's address, or of the account's name. The next attempt
    is made `delay` seconds after `free_at`, when the last one was made.
    """

    __tablename__ = "login_attempts"

    client: Mapped[str] = mapped_column(String(64), primary_key=True)
    delay: Mapped[float]
    last_at: Mapped[datetime]
    free_at: Mapped[datetime]


class Dataset(KeyedBase):
    """A CIR dataset; `image_root` is its image folder, None if it has none."""

    __tablename__ = "datasets"

    name: Mapped[str] = mapped_column(String(40), unique=True)
    image_root: Mapped[str | None]


class Image(KeyedBase):
    """An image of a dataset; its file may be absent.

    Browsers see only `token`. It is random, so that an address reveals neither the image's name nor
    the order of import (a reference next to its target). `sha256` is the digest of the file's bytes
    in hexadecimal, as the owner means it to be shown; None if it is not recorded.
    """

    __tablename__ = "images"
    __table_args__ = (UniqueConstraint("dataset_id", "name"),)

    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    name: Mapped[str] = mapped_column(String(200))
    token: Mapped[str] = mapped_column(
        String(32), unique=True, default=lambda: secrets.token_hex(16)
    )
    sha256: Mapped[str | None] = mapped_column(String(64))

    dataset: Mapped[Dataset] = relationship()


class ImageChange(Base):
    """An image whose file had other bytes than those recorded when a server read it."""

    __tablename__ = "image_changes"

    image_id: Mapped[int] = mapped_column(ForeignKey("images.id"), primary_key=True)
    found_at: Mapped[datetime]

    image: Mapped[Image] = relationship()


class Corpus(KeyedBase):
    """The images that a split file names: the candidates for its queries."""

    __tablename__ = "corpora"
    __table_args__ = (UniqueConstraint("dataset_id", "name"),)

    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    name: Mapped[str] = mapped_column(String(80))


corpus_images = Table(
    "corpus_images",
    Base.metadata,
    Column("corpus_id", ForeignKey("corpora.id"), primary_key=True),
    Column("image_id", ForeignKey("images.id"), primary_key=True, index=True),
)


class Triplet(KeyedBase):
    """A reference, a target and the captions of the difference.

    Own data may lack any of the three, but has a reference or captions.
    """

    __tablename__ = "triplets"
    __table_args__ = (UniqueConstraint("dataset_id", "external_id"),)

    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    external_id: Mapped[str] = mapped_column(String(200))
    category: Mapped[str] = mapped_column(String(40))
    split: Mapped[str | None] = mapped_column(String(40))
    reference_id: Mapped[int | None] = mapped_column(ForeignKey("images.id"), index=True)
    target_id: Mapped[int | None] = mapped_column(ForeignKey("images.id"), index=True)
    captions: Mapped[list[str]]

    dataset: Mapped[Dataset] = relationship()
    reference: Mapped[Image | None] = relationship(foreign_keys=[reference_id])
    target: Mapped[Image | None] = relationship(foreign_keys=[target_id])


class Query(KeyedBase):
    """A triplet with the text as shown, empty if it has none.

    Its outside id is the triplet's id plus `suffix`.
    """

    __tablename__ = "queries"
    __table_args__ = (UniqueConstraint("triplet_id", "suffix"),)

    triplet_id: Mapped[int] = mapped_column(ForeignKey("triplets.id"))
    suffix: Mapped[str] = mapped_column(String(20))
    text: Mapped[str]

    triplet: Mapped[Triplet] = relationship()


class System(KeyedBase):
    """A retrieval model whose results are judged; annotators never see its name."""

    __tablename__ = "systems"

    name: Mapped[str] = mapped_column(String(200), unique=True)


class RankedList(KeyedBase):
    """The images that a system returned for a query, best first."""

    __tablename__ = "ranked_lists"
    __table_args__ = (UniqueConstraint("system_id", "query_id"),)

    system_id: Mapped[int] = mapped_column(ForeignKey("systems.id"))
    query_id: Mapped[int] = mapped_column(ForeignKey("queries.id"), index=True)
    image_ids: Mapped[list[int]]
    scores: Mapped[list[float] | None]
