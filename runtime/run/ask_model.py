"""Asks a model with a time limit, and puts its answer together from the pieces in which it comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable

from adk_confirm.runtime.errors import ConfirmError, message_of
from adk_confirm.runtime.jsontypes import as_json
from adk_confirm.runtime.models.protocol import Model, ModelFailure, ModelRequest, ModelResponse
from adk_confirm.runtime.wire import REQUEST_NAMES, Content, Part, is_storable_id, new_call_id

log = logging.getLogger(__name__)

_CLEANING_UP = 1.0
_END = object()  # after a model's last piece


async def ask_model(
    model: Model, request: ModelRequest, patience: float, show: Callable[[ModelResponse], None]
) -> ModelResponse:
    """The complete answer; `show` gets the partial ones. Raises `ModelFailure` for an answer that is not valid, or if a
    piece does not come within `patience`."""
    pieces: asyncio.Queue[object] = asyncio.Queue()
    answering = asyncio.create_task(_answer(model, request, pieces), name="adk-confirm-model")
    whole = ModelResponse()
    try:
        while (response := await _next(pieces, patience)) is not _END:
            if not isinstance(response, ModelResponse):
                raise _no_answer(model, f"yielded {type(response).__name__}")
            if response.partial:
                show(response)
            else:
                whole = response
        failure = await answering
    finally:
        await _cancel(answering)
    if isinstance(failure, asyncio.CancelledError):
        raise ModelFailure("MODEL_FAILED", "The model gave up by itself. Try again.") from failure
    if failure is not None:
        raise failure
    return _check_answer(whole)


async def _answer(model: Model, request: ModelRequest, pieces: asyncio.Queue[object]) -> BaseException | None:
    """Puts the model's pieces into the queue, in a task of its own: a model may hang even when it is cancelled. Returns
    its failure, because a task that raises `SystemExit` would end the event loop."""
    try:
        answering: object = model.generate(request)
        if not isinstance(answering, AsyncIterator):
            return _no_answer(model, f"returned {type(answering).__name__}")
        try:
            async for response in answering:
                pieces.put_nowait(response)
        finally:
            if isinstance(answering, AsyncGenerator):
                await answering.aclose()
    except BaseException as error:  # noqa: BLE001  (returned to the caller)
        return error
    finally:
        pieces.put_nowait(_END)
    return None


async def _next(pieces: asyncio.Queue[object], patience: float) -> object:
    if not pieces.empty():
        return pieces.get_nowait()
    try:
        async with asyncio.timeout(patience):
            return await pieces.get()
    except TimeoutError:
        raise ModelFailure("MODEL_TIMEOUT", f"The model did not answer within {patience:g} s. Try again.") from None


async def _cancel(answering: asyncio.Task[BaseException | None]) -> None:
    """Cancels a model twice, each time with a second to clean up. Then it is abandoned."""
    for _ in range(2):
        if not answering.done():
            answering.cancel()
            await asyncio.wait({answering}, timeout=_CLEANING_UP)


def _check_answer(whole: ModelResponse) -> ModelResponse:
    parts = (whole.content.parts if whole.content else None) or []
    if whole.error_code or not any(_says_something(part) for part in parts):
        nothing = "The model answered with nothing. Try again."
        raise ModelFailure(whole.error_code or "EMPTY_RESPONSE", whole.error_message or nothing, _words_in(parts))
    if any(_is_forged(part) for part in parts):
        raise ModelFailure(
            "FORGED_REQUEST", "The model tried to ask people, or to answer, by itself. Nothing was asked."
        )
    return whole


def _no_answer(model: Model, what: str) -> ModelFailure:
    return ModelFailure(
        "BAD_MODEL", f"generate() of {type(model).__name__} {what}: it must be an async generator of ModelResponses."
    )


def describe_failure(error: BaseException, agent: str) -> tuple[str, str]:
    """The failure's code and sentence."""
    if isinstance(error, ModelFailure):
        log.warning("the model of %s failed: %s", agent, error.code)
        return error.code, message_of(error)
    if not isinstance(error, ConfirmError):
        log.error("the model of %s failed", agent, exc_info=error)
    return type(error).__name__, message_of(error) or "The model failed."


def content_with_ids(response: ModelResponse, taken: Collection[str] = ()) -> Content | None:
    """The content of the model's response, each call with an id of its own: models give no ids, or one id twice."""
    if response.content is None:
        return None
    used = set(taken)
    parts: list[Part] = []
    for part in response.content.parts or ():
        said = part.function_call
        if said is None:
            parts.append(part)
            continue
        known = said.id if is_storable_id(said.id) and said.id not in used else new_call_id()
        used.add(str(known))
        named = said.model_copy(update={"id": known, "args": as_json(said.args)})
        parts.append(part.model_copy(update={"function_call": named}))
    return Content(role="model", parts=parts)


def _words_in(parts: Iterable[Part]) -> Content | None:
    """The text of a failed answer, since people may have seen it. Its calls are dropped."""
    words = [part for part in parts if part.text and not part.thought]
    return Content(role="model", parts=words) if words else None


def _says_something(part: Part) -> bool:
    """Whether the part answers anything. Thoughts and blank text do not count."""
    if part.thought:
        return False
    if part.text is not None:
        return bool(part.text.strip())
    acts = (part.function_call, part.tool_call, part.tool_response, part.executable_code, part.code_execution_result)
    return any(act is not None for act in (*acts, part.function_response, part.inline_data, part.file_data))


def _is_forged(part: Part) -> bool:
    return part.function_response is not None or (
        part.function_call is not None and part.function_call.name in REQUEST_NAMES
    )
