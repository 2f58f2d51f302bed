"""What the counts and times of tokens show."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import Final

from fairmark.conformance.check import Check, Finding, cannot, failed, irrelevant, passed
from fairmark.conformance.exercise import Query
from fairmark.conformance.questions import TOKENS
from fairmark.conformance.subject import Subject

__all__ = ["CHECKS"]

_SPARE_TOKENS: Final = 4
"""Tokens without a text of their own: ends of a turn, starts of a message."""

_WORDS_PER_TOKEN: Final = 4
_BURST_SHARE: Final = 0.95
_BURST_PIECES: Final = 8
_BURST_NS: Final = 20_000_000
"""A stream is judged if it has so many pieces and takes so long."""

_NO_TOKENS: Final = irrelevant("it simulates times, not tokens")


def _tokenless(subject: Subject) -> bool:
    """Whether it simulates times only."""
    queries = subject.alone.successes
    return subject.kind == "sim" and all(not q.chunks and q.row["output_tokens"] is None for q in queries)


def _counted(subject: Subject) -> Finding:
    if _tokenless(subject):
        return _NO_TOKENS
    found = _first(subject, _lacks_count)
    return found or _of(subject, "every success has its input and output tokens")


def _lacks_count(query: Query) -> str | None:
    lacking = [side for side in ("input", "output") if query.row[f"{side}_tokens"] is None]
    return f"lacks {' and '.join(lacking)} tokens" if lacking else None


def _chunks(subject: Subject) -> Finding:
    """Counts of chunks, where all of them are known, against the total."""
    if subject.alone.successes and all(_chunk_sum(query) is None for query in subject.alone.successes):
        return irrelevant("no answer has both a total and the tokens of all its chunks")
    return _first(subject, _wrong_sum) or _of(subject, "the tokens of the chunks add up to the totals")


def _chunk_sum(query: Query) -> int | None:
    counts = [tokens for _, _, tokens in query.chunks]
    # A stream without any token in its chunks has a check of its own.
    if not counts or None in counts or not any(counts) or query.row["output_tokens"] is None:
        return None
    return sum(tokens or 0 for tokens in counts)


def _wrong_sum(query: Query) -> str | None:
    total = query.row["output_tokens"]
    found = _chunk_sum(query)
    # The last token of a model, the end of its turn, is often in no chunk.
    if found is None or 0 <= total - found <= 1:
        return None
    return f"has chunks of {found} tokens and a total of {total}"


def _text(subject: Subject) -> Finding:
    if subject.alone.successes and not any(
        query.text or query.reasoning for query in subject.alone.successes
    ):
        return irrelevant("its answers have no text")
    return _first(subject, _unlike_text) or _of(subject, "the counts are such as the texts can have")


def _unlike_text(query: Query) -> str | None:
    tokens, text = query.row["output_tokens"], query.reasoning + query.text
    if tokens is None or query.data is not None or any(kind == "tool" for _, kind, _ in query.chunks):
        return None
    size, words = len(text.encode()), len(text.split())
    if tokens > size + _SPARE_TOKENS:
        return f"counts {tokens} tokens in {size} bytes of text"
    if words > _WORDS_PER_TOKEN * tokens + _SPARE_TOKENS:
        return f"counts {tokens} tokens in {words} words"
    return None


def _first_token(subject: Subject) -> Finding:
    if subject.alone.successes and not any(query.chunks for query in subject.alone.successes):
        return irrelevant("it streams nothing")
    return _first(subject, _no_first) or _of(subject, "every stream has a first token")


def _no_first(query: Query) -> str | None:
    lost = query.chunks and query.answer and query.row["first_token_ns"] is None
    return "came in chunks, none of which has a token" if lost else None


def _streams(subject: Subject) -> Finding:
    if subject.alone.successes and all(len(query.chunks) < 2 for query in subject.alone.successes):
        return irrelevant("every answer came in one piece")
    shares = [share for query in subject.alone.successes if (share := _wait_share(query)) is not None]
    if not shares:
        told = f"no stream had {_BURST_PIECES} pieces and took {_BURST_NS // 1_000_000} ms: nothing shows"
        timed = any(query.row["first_token_ns"] is not None for query in subject.alone.successes)
        return irrelevant(told) if timed else cannot(told)
    share = statistics.median(shares)
    told = f"the first token comes after {share:.0%} of the time of an answer (median of {len(shares)})"
    return failed(told) if share > _BURST_SHARE else passed(told)


def _wait_share(query: Query) -> float | None:
    """How much of its time an answer was waited for before its first token."""
    row = query.row
    took_ns = row["completed_ns"] - row["issued_ns"]
    if len(query.chunks) < _BURST_PIECES or took_ns < _BURST_NS or row["first_token_ns"] is None:
        return None
    return float((row["first_token_ns"] - row["issued_ns"]) / took_ns)


def _limit(subject: Subject) -> Finding:
    def too_long(query: Query) -> str | None:
        tokens = query.row["output_tokens"]
        return f"has {tokens} tokens where {TOKENS} were allowed" if tokens and tokens > TOKENS else None

    if _tokenless(subject):
        return _NO_TOKENS
    if subject.alone.successes and all(q.row["output_tokens"] is None for q in subject.alone.successes):
        return cannot("no answer says how many tokens it has")
    return _first(subject, too_long) or _of(subject, f"no answer is longer than {TOKENS} tokens")


def _one(subject: Subject) -> Finding:
    if _tokenless(subject):
        return _NO_TOKENS
    run = subject.short
    if not run.queries or not run.ended_well:
        return cannot(f"the run for one token ended as {run.stop_reason}")
    counts = [query.row["output_tokens"] for query in run.successes]
    if run.failures and set(run.failures) <= set(subject.alone.failures):
        return cannot(f"queries fail whatever is asked for: {dict(run.failures)}")
    if run.failures:
        return failed(f"asked for one token: {run.first_failure(run.failures)}")
    if None in counts:
        return cannot("the answers do not say how many tokens they have")
    if set(counts) != {1}:
        return failed(f"asked for one token, it gave {', '.join(map(str, sorted(set(counts))))}")
    return passed(f"{len(counts)} answers of one token")


def _cache(subject: Subject) -> Finding:
    """Shows what asking again saves. Only a count that cannot be fails."""
    for query in subject.alone.successes:
        cached, whole = query.row["cached_tokens"], query.row["input_tokens"]
        if cached is not None and whole is not None and cached > whole:
            return failed(f"{query.name} took {cached} of its {whole} input tokens from a cache")
    first, again = _first_and_again(subject)
    if not again:
        return cannot("no question was answered twice")
    cached = [query.row["cached_tokens"] for query in again if query.row["cached_tokens"] is not None]
    told = f"median time {_median_ms(first)} asked first, {_median_ms(again)} asked again"
    return passed(
        f"{told}; {f'up to {max(cached)} cached tokens' if cached else 'no cached tokens reported'}"
    )


def _first_and_again(subject: Subject) -> tuple[list[Query], list[Query]]:
    seen: set[int] = set()
    first: list[Query] = []
    again: list[Query] = []
    for query in subject.alone.successes:
        (again if query.sample in seen else first).append(query)
        seen.add(query.sample)
    return first, again


def _median_ms(queries: list[Query]) -> str:
    """To the first token; to the end where there is none."""
    times = [(q.row["first_token_ns"] or q.row["completed_ns"]) - q.row["issued_ns"] for q in queries]
    return f"{statistics.median(times) / 1e6:.2f} ms"


def _first(subject: Subject, wrong: Callable[[Query], str | None]) -> Finding | None:
    """A failure that names the first success with something ``wrong``."""
    found: Iterator[tuple[Query, str]] = ((q, w) for q in subject.alone.successes if (w := wrong(q)))
    query, problem = next(found, (None, ""))
    return None if query is None else failed(f"{query.name} {problem}")


def _of(subject: Subject, found: str) -> Finding:
    return passed(found) if subject.alone.successes else cannot("no query was answered")


CHECKS: Final = (
    Check(
        "token-counts",
        "rates and TPOT that cannot be computed",
        "give Usage(input_tokens, output_tokens) in Done; over HTTP, have the server send usage",
        _counted,
    ),
    Check(
        "chunk-counts",
        "token times that belong to other tokens than those counted",
        "set Chunk.n_tokens to the number of tokens in that chunk, or leave it out",
        _chunks,
    ),
    Check(
        "text-counts",
        "made-up token counts",
        "report the counts of the engine itself",
        _text,
    ),
    Check(
        "first-token",
        "a stream without a time to first token",
        "leave n_tokens out where it is not known; 0 means that a chunk holds no token",
        _first_token,
    ),
    Check(
        "streams",
        "a stream that is held back until the answer is complete",
        "yield chunks as the engine makes them",
        _streams,
    ),
    Check(
        "token-limit",
        "longer answers than were asked for",
        "pass sample.generation.max_output_tokens on to the engine",
        _limit,
    ),
    Check(
        "one-token",
        "answers of one token, the shortest, off by one",
        "hold max_output_tokens = 1 too: one token, then Done with the reason length",
        _one,
    ),
    Check(
        "cache",
        "a cache that makes repeated questions fast, unseen",
        "report Usage.cached_tokens, a part of input_tokens",
        _cache,
    ),
)
