"""`hsfiq serve` and `hsfiq doctor`: the server, and checks of its requirements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hsfiq.actors import command_line
from hsfiq.cli import common
from hsfiq.errors import UnreadableInput
from hsfiq.public_url import is_local
from hsfiq.public_url import public_url as public_address
from hsfiq.text import count_text

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from hsfiq.annotate.serving.proxy import TrustedHeader
    from hsfiq.db.engine import Database
    from hsfiq.doctor import Finding
    from hsfiq.public_url import PublicUrl

app = common.Commands()

HOST, PORT = "127.0.0.1", 7860

PortOption = Annotated[
    int, typer.Option(metavar="N", help="The port to listen on.", min=1, max=65535)
]

TOKEN_VARIABLE = "HSFIQ_METRICS_TOKEN_FILE"  # noqa: S105 (a variable's name)
AUTH_VARIABLE = "HSFIQ_AUTH_HEADER"
SECRET_VARIABLE = "HSFIQ_AUTH_SECRET_FILE"  # noqa: S105 (a variable's name)


@app.command(epilog="Example: hsfiq serve --port 8000")
def serve(
    call: common.Call,
    port: PortOption = PORT,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = HOST,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The public address of the server behind a proxy, with the path; else "
            "$HSFIQ_PUBLIC_URL.",
            show_default=False,
        ),
    ] = None,
    auth_header: Annotated[
        str | None,
        typer.Option(
            metavar="HEADER",
            help=f"A header, such as X-Remote-User, in which the proxy names the studio account. "
            f"It is accepted only below /owner/, from the addresses in $FORWARDED_ALLOW_IPS "
            f"(127.0.0.1), and with the secret of --auth-secret-file; else ${AUTH_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    auth_secret_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"The proxy must send the first line of this file as X-Auth-Secret in requests "
            f"that name an account; else ${SECRET_VARIABLE}.",
            show_default=False,
        ),
    ] = None,
    metrics_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Serve /metrics, for Prometheus, to requests with the token in this file; else "
            f"${TOKEN_VARIABLE}. Without a token, /metrics is disabled.",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(help="The log format; json: one object per line, one line per request."),
    ] = "text",
    slow_statement_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Log database statements that take longer, without their values.",
            min=0,
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(metavar="N", help="The number of server processes.", min=1, max=64),
    ] = 1,
    connections: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="The most connections of each process to the database; 10 to PostgreSQL if not "
            "given.",
            min=2,
            max=1000,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the studies of a database, or open and serve the project's study."""
    public = public_address(public_url)
    with common.requires("annotate"):
        from hsfiq.annotate import app
        from hsfiq.annotate.serving.monitoring import Watching, token_in
    header = trusted_header(auth_header, auth_secret_file)
    token_file = metrics_token_file or file_in(TOKEN_VARIABLE)
    token = token_in(token_file) if token_file else None
    watching = Watching(token, logs_json=log_format == "json", slow_seconds=slow_statement_seconds)
    opened = call.open(create=True, connections=connections)
    serving = app.Serving(public, workers, connections, watching, header)
    root = str(public or f"http://{host}:{port}").rstrip("/")
    prepared = list(prepare_project(call, opened, root))
    if header is None and not watching.logs_json:
        prepared += setup_lines(opened, root)

    def tell() -> None:
        if not watching.logs_json:
            for line in (*addresses(opened, host, port, public), *prepared):
                common.print_text(line, to_stderr=True)

    app.serve(opened, host, port, serving, tell)


def prepare_project(call: common.Call, opened: Database, root: str) -> Iterator[str]:
    """In a project: redraw its study if the file has changed, open it, and invite people.

    Yields what was done, and the links.
    """
    from hsfiq.cli.study import open_draft
    from hsfiq.collect.studies import find_study
    from hsfiq.study.config import config_of
    from hsfiq.study.recruiting import platform_name

    project = common.current_project()
    if project is None or call.url != project.database_url:
        return
    from hsfiq.project import INVITATIONS_FILE, invited_links, redraw_if_changed

    redrawn = redraw_if_changed(opened, project, command_line(), common.progress("images"))
    if redrawn is not None:
        yield redrawn
    name, _ = project.names()
    open_draft(opened, name)
    with opened.reading() as session:
        study = find_study(session, name)
        if study is None:
            return
        status, recruitment = study.status, config_of(study).recruitment
    if status == "open" and recruitment.mode == "invitation":
        links = invited_links(opened, project, name, command_line(), root)
        made = f"{count_text(len(links), 'personal link')} in {INVITATIONS_FILE}"
        such = f"{made}, such as {links[0]}" if links else "every place has a personal link"
        yield f"study {name} is open: {such}"
    elif not platform_name(recruitment):
        yield f"study {name} is {status}: participants start at {root}/"
    yield f"the studio is at {root}/owner/"
    if is_local(root):
        yield "these addresses work only on this machine; give the public one with --public-url"


def setup_lines(database: Database, root: str) -> Iterator[str]:
    """The link that sets the owner's first password, if there is none yet."""
    from hsfiq.access import setup_link

    with database.writing() as session:
        token = setup_link(session, datetime.now(UTC))
    if token is not None:
        yield f"nobody can log in yet: set the owner's password at {root}/owner/link/{token}"


def addresses(database: Database, host: str, port: int, public: PublicUrl | None) -> Iterator[str]:
    """The server's address, and the study address to enter at a panel."""
    from hsfiq.collect.studies import list_studies
    from hsfiq.study.config import config_of
    from hsfiq.study.recruiting import PROLIFIC, panel_link, panel_of

    reached = f" for {public}" if public else ""
    yield f"serving at http://{host}:{port}{reached}; Ctrl-C stops it"
    with database.reading() as session:
        at_panels = [
            (study.name, panel)
            for study in list_studies(session)
            if study.status == "open" and (panel := panel_of(config_of(study).recruitment))
        ]
    root = str(public) if public else f"http://{host}:{port}/"
    is_alone = [panel for _, panel in at_panels].count(PROLIFIC) == 1
    for name, panel in at_panels:
        named = "" if panel == PROLIFIC and is_alone else name
        yield f"study {name} on {panel.name}: {panel_link(panel, root, named)}"


def trusted_header(name: str | None, secret_file: Path | None) -> TrustedHeader | None:
    """The header in which the proxy names users, as the options or the variables say."""
    from hsfiq.annotate.serving import proxy
    from hsfiq.annotate.serving.monitoring import MAKE_ONE, token_in

    name = name or os.environ.get(AUTH_VARIABLE) or None
    secret_file = secret_file or file_in(SECRET_VARIABLE)
    if name is None and secret_file is None:
        return None
    if name is None:
        raise UnreadableInput(
            proxy.SECRET_OPTION, f"needs {proxy.HEADER_OPTION}", "name the header of the proxy too"
        )
    proxy.checked_header(name)
    proxy.trusted_proxies()
    if secret_file is None:
        what = f"needs {proxy.SECRET_OPTION} FILE, the secret that the proxy sends with the name"
        raise UnreadableInput(
            proxy.HEADER_OPTION,
            what,
            f"{MAKE_ONE}; docs/hosting/proxy.md shows the proxy's part",
        )
    return proxy.TrustedHeader(name, token_in(secret_file))


def file_in(variable: str) -> Path | None:
    named = os.environ.get(variable)
    return Path(named) if named else None


# `hsfiq doctor`: what is wrong with a server, and the command that repairs it.


@app.command(epilog="Example: hsfiq doctor --public-url https://study.example.org")
def doctor(
    call: common.JsonCall,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address at which browsers reach the server; else $HSFIQ_PUBLIC_URL.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check a server's requirements, and print commands that repair problems.

    Database, schema, settings, clock, images, disks, permissions, proxy and versions are checked
    with the variables and as the user of this shell; nothing is changed. Exit code 1 if there is
    a problem; warnings do not count.
    """
    from hsfiq.db.engine import connect
    from hsfiq.doctor import examine

    public = public_address(public_url)
    url = call.url
    engine = connect(url)
    call.ctx.call_on_close(engine.dispose)
    findings = list(examine(engine, thumbnails_of(engine), public))
    is_well = all(finding.status != "problem" for finding in findings)
    result = {"well": is_well, "findings": [asdict(finding) for finding in findings]}
    call.print(result, "\n".join(map(line_of, findings)))
    raise typer.Exit(0 if is_well else 1)


def thumbnails_of(engine: Engine) -> Path | None:
    """The folder of the thumbnails, None where the app is not installed."""
    try:
        from hsfiq.annotate.image_copies import cache_folder
    except ModuleNotFoundError:
        return None
    from hsfiq.db.engine import Database

    return cache_folder(Database(engine))


def line_of(finding: Finding) -> str:
    fix = f"; to repair it: {finding.fix}" if finding.fix else ""
    return f"{finding.status:<8} {finding.check:<11} {finding.what}{fix}"
