"""The log as JSON, a line for each record and each answered request."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from hsfiq.annotate.serving.requests import AnsweredRequest, request_id

REQUESTS = "hsfiq.requests"

logger = logging.getLogger(REQUESTS)


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, the id of the request, and what a record adds to these."""

    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (id_of_request := request_id.get()) is not None:
            facts["request_id"] = id_of_request
        facts |= getattr(record, "facts", {})
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def log_as_json() -> None:
    """From now on, everything that this process logs to standard error is JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)
    logger.setLevel(logging.INFO)


def log_request(request: AnsweredRequest) -> None:
    facts = {
        "method": request.method,
        "route": request.route,
        "status": request.status,
        "seconds": round(request.seconds, 4),
    }
    logger.info("request", extra={"facts": facts})
