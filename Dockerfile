# syntax=docker/dockerfile:1

# The annotation server with the packages of requirements-server.txt, as a user without rights. compose.yaml
# runs it with PostgreSQL and a proxy; docs/hosting/server.md says how.

FROM python:3.11.14-slim-bookworm AS build
WORKDIR /source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/hsfiq
COPY requirements-server.txt ./
RUN /opt/hsfiq/bin/python -m pip install --require-hashes --requirement requirements-server.txt
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY hsfiq hsfiq
COPY annotate annotate
COPY analysis analysis
COPY model model
COPY migrations migrations
RUN /opt/hsfiq/bin/python -m pip install --no-deps --no-index --no-build-isolation .

FROM python:3.11.14-slim-bookworm
# pg_dump and pg_restore of `hsfiq db backup`: of the same version as PostgreSQL in compose.yaml.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends 'postgresql-client-15=15.*' \
    && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 hsfiq \
    && useradd --uid 10001 --gid hsfiq --create-home --home-dir /var/lib/hsfiq \
        --shell /usr/sbin/nologin hsfiq
COPY --from=build /opt/hsfiq /opt/hsfiq
ENV PATH=/opt/hsfiq/bin:$PATH PYTHONUNBUFFERED=1 XDG_CACHE_HOME=/var/lib/hsfiq/cache
USER 10001:10001
WORKDIR /var/lib/hsfiq
VOLUME /var/lib/hsfiq
EXPOSE 7860
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/readyz', timeout=8)"]
ENTRYPOINT ["hsfiq"]
CMD ["serve", "--host", "0.0.0.0", "--log-format", "json"]
