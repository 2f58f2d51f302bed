"""Every case of ``data/sse_cases.json``, in each way HTTP can mark the end of its body."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read, Response

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "sse_cases.json").read_text(encoding="utf-8")
)
TOKENS = {"content", "reasoning", "tool"}
# What the cases call `no_done_marker` is the flag `no_end_marker` here.
FLAGS = {"no_done_marker": "no_end_marker"}


def _pieces(case: dict[str, Any]) -> tuple[list[bytes], list[int]]:
    if "generate" not in case:
        return [bytes.fromhex(h) for h in case["chunks_hex"]], case["arrive_ms"]
    choice = {"index": 0, "delta": {"content": "w" * 200_000}, "finish_reason": "stop"}
    body = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\ndata: [DONE]\n\n"
    size = case["generate"]["chunk_bytes"]
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return pieces, [100 * (i + 1) for i in range(len(pieces))]


def _decode(case: dict[str, Any], framing: str) -> Response:
    """Decode the case; the head is read 0, at 0 ms, so chunk ``i`` is read ``i + 1``."""
    pieces, arrive_ms = _pieces(case)
    head = f"HTTP/1.1 {case['http_status']} OK\r\nContent-Type: {case['content_type']}\r\n"
    bodies = pieces
    if framing == "chunked":
        head += "Transfer-Encoding: chunked\r\n"
        bodies = [b"%x\r\n%b\r\n" % (len(p), p) for p in pieces]
        bodies[-1] += b"0\r\n\r\n"
    elif framing == "length":
        head += f"Content-Length: {sum(map(len, pieces))}\r\n"
    reads = [Read(0, head.encode() + b"\r\n")]
    reads += [Read(ms * 1_000_000, body) for ms, body in zip(arrive_ms, bodies, strict=True)]
    return dialect("openai-chat").decode(reads, closed=framing == "close", stream=True)


def _milliseconds(ns: int) -> float:
    return ns / 1e6


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['id']}-{c['kind']}")
def test_the_case_is_read_as_it_should_be(case: dict[str, Any], framing: str) -> None:
    expected = dict(case["expect"])
    response = _decode(case, framing)
    tokens = [e for e in response.events if e.kind in TOKENS]
    first = _milliseconds(tokens[0].arrival_ns) if tokens else None
    last = _milliseconds(tokens[-1].arrival_ns) if tokens else None
    n = response.output_tokens

    failed = expected.pop("status") == "failed"
    assert (response.failure is not None) == failed, response.failure_detail
    if failed:
        # A failed response is credited with nothing that it did not report.
        assert (n or 0) == expected.pop("output_tokens", 0)
        expected.pop("counts_in_success_percentiles", None)
    for key, value in expected.items():
        match key:
            case "text":
                assert response.text == value
            case "text_len":
                assert len(response.text) == value
            case "output_tokens":
                assert n == value or (n is None and _usage_is_absent(case))
            case "finish_reason":
                assert response.finish_reason == value
            case "first_token_chunk":
                assert tokens[0].read == value + 1
            case "ttft_ms":
                assert first == value
            case "first_content_ms":
                content = next(e for e in response.events if e.kind == "content")
                assert _milliseconds(content.arrival_ns) == value
            case "tpot_ms":
                assert first is not None
                assert last is not None
                assert n is not None
                assert (None if n < 2 else (last - first) / (n - 1)) == value
            case "itl_ms" | "chunk_gaps_ms":
                stamps = [e.arrival_ns for e in tokens]
                gaps = [_milliseconds(b - a) for a, b in pairwise(stamps)]
                assert gaps == value
            case "tokens_per_chunk":
                assert n is not None
                assert n / len(tokens) == value
            case "end_ms":
                assert [_milliseconds(e.arrival_ns) for e in response.events if e.kind == "end"] == [value]
            case "flag":
                assert FLAGS[value] in response.flags
            case "error_contains":
                assert value in (response.failure_detail or "")
            case _:
                pytest.fail(f"the case expects {key}, which this test does not know")


def _usage_is_absent(case: dict[str, Any]) -> bool:
    return b'"usage"' not in b"".join(_pieces(case)[0])


def test_all_cases_are_there() -> None:
    assert len(CASES) == 23
    assert len({case["id"] for case in CASES}) == 23


def test_an_open_socket_after_the_end_marker_needs_no_close() -> None:
    case = next(c for c in CASES if c["id"] == "S27")
    pieces, _ = _pieces(case)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    response = dialect("openai-chat").decode([Read(1, head + pieces[0])], closed=False)
    assert response.failure is None
    assert response.text == "A"
