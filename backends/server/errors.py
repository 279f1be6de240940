"""Refusals of the server, in OpenAI's shape."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arena.core.json import Json

RETRY_AFTER = "1"
"""Seconds: queues of small models are short."""
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


class ApiError(Exception):
    """A request that is not served; `str(error)` is what the client reads."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers

    @property
    def body(self) -> dict[str, Json]:
        general = "invalid_request_error" if self.status < 500 else "server_error"
        error = {
            "message": str(self),
            "type": _TYPES.get(self.status, general),
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}

    @property
    def response(self) -> Response:
        return JSONResponse(self.body, self.status, self.headers)


def bad_field(error: ValidationError) -> ApiError:
    """The first fault of a body, with the name of its field."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if fault["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {fault['msg']}", code="invalid_json")
    param = ".".join(map(str, fault["loc"])) or None
    told = fault["msg"].removeprefix("Value error, ")
    message = f"{param}: {told}" if param else told
    return ApiError(400, message, param=param, code="invalid_value")


async def http_error(_request: Request, error: Exception) -> Response:
    """What starlette refuses by itself: unknown routes and wrong methods."""
    assert isinstance(error, HTTPException)
    return ApiError(error.status_code, error.detail, headers=error.headers).response


async def api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response


async def internal_error(_request: Request, _error: Exception) -> Response:
    """A fault of ours: the log has the traceback, the client learns nothing about the inside."""
    return ApiError(500, "the server failed on this request; its log says why").response
