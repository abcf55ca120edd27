"""The requests that change something: pause, rate and budget, and when the server ends."""

from __future__ import annotations

from typing import Any, TypeGuard

import orjson
from flask import Blueprint, abort, jsonify, request
from flask.typing import ResponseReturnValue

from flametap.errors import UsageError

from .control_types import Controls

SETTINGS = ("rate_hz", "budget_percent")


def add_controls(api: Blueprint, controls: Controls | None) -> None:
    """Add the routes. Without controls, those that change a recorder refuse."""

    def recorder() -> Controls:
        if controls is None:
            raise UsageError("nothing is being recorded", "this is a recording from a file")
        return controls

    @api.post("/pause")
    def pause() -> ResponseReturnValue:
        body = json_body()
        if not isinstance(body.get("paused"), bool):
            abort(400, 'the body must be {"paused": true} or {"paused": false}')
        recorder().set_paused(body["paused"])
        return jsonify({"paused": body["paused"]})

    @api.post("/settings")
    def settings() -> ResponseReturnValue:
        body = json_body()
        given = [body.get(name) for name in SETTINGS]
        numbers = [float(each) for each in given if is_number(each)]
        if len(numbers) != len(SETTINGS):
            abort(400, f"the body must have the numbers {' and '.join(SETTINGS)}")
        recorder().set_sampling(*numbers)
        return jsonify(dict(zip(SETTINGS, numbers, strict=True)))


def json_body() -> dict[str, Any]:
    """Return the JSON object in the body of the request; an empty one for anything else.

    Raises:
        UnsupportedMediaType: the request does not say that it is JSON.
    """
    if not request.is_json:
        abort(415, "the body must be JSON")
    try:
        body = orjson.loads(request.get_data())
    except orjson.JSONDecodeError:
        body = None
    return body if isinstance(body, dict) else {}


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return True for a number in JSON."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
