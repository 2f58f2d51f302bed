"""The simulated engine: turns requests into scripts and counts what is going on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from fairmark_sim.answers import Answers, prompt_text, until_stop
from fairmark_sim.arrivals import Arrival, ArrivalLog
from fairmark_sim.embeddings import embedding_script
from fairmark_sim.faults import FaultPlan
from fairmark_sim.reply import Api, Reply
from fairmark_sim.script import Script, json_steps, write_script
from fairmark_sim.service import ServiceModel, Slots

if TYPE_CHECKING:
    from fairmark_sim.connection import Connection, Request

__all__ = ["Engine", "EngineParts"]


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What an engine is made of."""

    model: str
    service: ServiceModel
    slots: Slots
    faults: FaultPlan
    answers: Answers
    tokens_per_chunk: int
    log: ArrivalLog


_APIS: Mapping[str, Api] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
}
_PROMPTS: Mapping[Api, str] = {"chat": "messages", "completions": "prompt", "responses": "input"}


class Engine:
    """All connections share one: it numbers requests, plans their answers and keeps the counters."""

    def __init__(self, parts: EngineParts, loop: asyncio.AbstractEventLoop, shut: Callable[[], None]) -> None:
        self.loop = loop
        self.slots = parts.slots
        self.connections: set[Connection] = set()
        self.generations = 0
        self._parts = parts
        self._shut = shut
        self._connections_opened = 0
        self._in_flight = 0
        self._peak_in_flight = 0

    def next_connection(self) -> int:
        """Number a new connection, from 1."""
        self._connections_opened += 1
        return self._connections_opened

    def answer(self, request: Request) -> bytes | tuple[Script, str, frozenset[str]]:
        """The complete response to a question about the server, or the plan of a generation."""
        match request.method, request.path.partition("?")[0]:
            case "GET", "/v1/models":
                listed = {"id": self._parts.model, "object": "model", "owned_by": "fairmark_sim"}
                return _json(200, {"object": "list", "data": [listed]})
            case "GET", "/health":
                return _json(200, {"status": "ok"})
            case "GET", "/metrics":
                return self._metrics()
            case "GET", "/sim/stats":
                return _json(200, self._stats())
            case "POST", path if path in _APIS:
                return self._generate(request, _APIS[path])
            case "POST", "/v1/embeddings":
                return self._embed(request)
            case _:
                return _json(404, {"error": {"message": f"no {request.method} {request.path} here"}})

    def begin(self) -> int:
        """Count a generation in; returns how many are in flight now."""
        self._in_flight += 1
        self._peak_in_flight = max(self._peak_in_flight, self._in_flight)
        return self._in_flight

    def end(self, arrival: Arrival) -> None:
        """Count a generation out and write its line."""
        self._in_flight -= 1
        self._parts.log.write(arrival)

    def stop_listening(self) -> None:
        """Refuse all later connections and drop the idle ones."""
        self._shut()
        for connection in list(self.connections):
            if connection.idle and connection.transport is not None:
                connection.transport.close()

    def abandon_all(self) -> None:
        """Account for everything in progress; the server is about to end."""
        for connection in list(self.connections):
            connection.abandon()
        self._parts.log.close()

    def _generate(self, request: Request, api: Api) -> bytes | tuple[Script, str, frozenset[str]]:
        try:
            body = orjson.loads(request.body)
            reply = self._reply(body, api)
            prompt = prompt_text(body)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return _json(400, {"error": {"message": f"unusable request: {error}", "type": "invalid_request"}})
        self.generations += 1
        faults = self._parts.faults.choose(self.generations, prompt)
        return write_script(reply, faults), prompt, faults

    def _embed(self, request: Request) -> bytes | tuple[Script, str, frozenset[str]]:
        try:
            body = orjson.loads(request.body)
            prompt = prompt_text(body)
            if not body["input"]:
                raise ValueError("the input is empty")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return _json(400, {"error": {"message": f"unusable request: {error}", "type": "invalid_request"}})
        self.generations += 1
        faults = self._parts.faults.choose(self.generations, prompt)
        at_ns = self._parts.service.draw().ttft_ns
        return embedding_script(prompt, self._parts.model, at_ns, faults), prompt, faults

    def _reply(self, body: Mapping[str, Any], api: Api) -> Reply:
        if not body[_PROMPTS[api]]:
            raise ValueError("the prompt is empty")
        prompt = prompt_text(body)
        tokens = until_stop(self._parts.answers.tokens(prompt), body.get("stop"))
        limits = (body.get(name) for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"))
        limit = next((limit for limit in limits if limit is not None), None)
        allowed = len(tokens) if limit is None else int(limit)
        return Reply(
            number=self.generations + 1,
            api=api,
            stream=bool(body.get("stream", False)),
            include_usage=bool((body.get("stream_options") or {}).get("include_usage", False)),
            model=self._parts.model,
            tokens=tokens[:allowed],
            tokens_per_chunk=self._parts.tokens_per_chunk,
            finish_reason="length" if allowed < len(tokens) else "stop",
            input_tokens=len(prompt.split()),
            times=self._parts.service.draw(),
        )

    def _stats(self) -> dict[str, int]:
        return {
            "requests": self.generations,
            "in_flight": self._in_flight,
            "peak_in_flight": self._peak_in_flight,
            "connections_opened": self._connections_opened,
            "connections_open": len(self.connections),
        }

    def _metrics(self) -> bytes:
        """A page in Prometheus' text format, with the names that vLLM gives these gauges."""
        waiting = self.slots.waiting
        page = "".join(
            f"# TYPE vllm:{name} gauge\nvllm:{name}{{model_name={json.dumps(self._parts.model)}}} {value}\n"
            for name, value in (
                ("num_requests_running", self._in_flight - waiting),
                ("num_requests_waiting", waiting),
            )
        )
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(page)}"
        return f"{head}\r\n\r\n{page}".encode()


def _json(status: int, document: Any) -> bytes:
    return json_steps(status, document, 0)[0].data
