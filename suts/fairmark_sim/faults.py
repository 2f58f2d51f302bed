"""What can go wrong on demand: the closed list of faults, and the rules that say which request gets which.

A fault either breaks the request (`BREAKING`) or only makes its framing unusual (`QUIRKS`). A request gets at
most one breaking fault, the first whose rule matches, and every quirk whose rule matches.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["BREAKING", "FAULTS", "QUIRKS", "FaultPlan", "FaultRule", "parse_rule"]

BREAKING: Final[dict[str, str]] = {
    "refuse": "close the listening socket and this connection: later connections are refused",
    "exit": "end the server process with exit code 1",
    "reset-before": "reset the connection before any response byte",
    "close-before": "close the connection cleanly before any response byte",
    "reset-after": "reset the connection after the first token",
    "stall-before": "never send a response byte",
    "stall": "send half of the tokens, then nothing for ever",
    "truncate": "send half of the tokens, then close without ending the body",
    "malformed-event": "send an event that is not JSON after half of the tokens",
    "malformed-http": "send a chunk header that is not a number after half of the tokens",
    "error": "send an error object inside the stream after half of the tokens",
    "error-first": "send an error object instead of the first token",
    "empty": "finish without any token",
    "no-finish": "send [DONE] without a finish reason",
    "finish-error": "finish with the reason `error`",
    "finish-abort": "finish with the reason `abort`",
    "status-400": "answer HTTP 400",
    "status-401": "answer HTTP 401",
    "status-404": "answer HTTP 404",
    "status-422": "answer HTTP 422",
    "status-429": "answer HTTP 429 with Retry-After",
    "status-500": "answer HTTP 500",
    "status-502": "answer HTTP 502",
    "status-503": "answer HTTP 503 with Retry-After",
}

QUIRKS: Final[dict[str, str]] = {
    "no-done": "leave [DONE] out",
    "no-usage": "never send usage",
    "usage-in-last": "send usage in the event that carries the finish reason",
    "usage-in-each": "send cumulative usage in every event",
    "token-ids": "send token ids with every event",
    "reasoning": "send the first half of the tokens as reasoning",
    "no-role": "leave the role event out",
    "crlf": "end lines with CRLF",
    "cr": "end lines with CR",
    "comments": "send keep-alive comments between events",
    "fields": "send event, id and retry fields with every event",
    "no-space": "leave the space after `data:` out",
    "multi-line": "spread the JSON of every event over two data lines",
    "bom": "begin the stream with a byte order mark",
    "split": "cut the response into small writes at arbitrary places",
    "slow-headers": "send the response head byte by byte",
    "until-close": "end the body by closing the connection",
    "content-length": "announce the length of the stream instead of chunking it",
    "close-after": "say `Connection: close` and close after the response",
    "close-silently": "close after the response without having said so",
    "open-after-done": "leave the body open for 30 s after [DONE], sending comments",
}

FAULTS: Final = BREAKING | QUIRKS

_MARKER = re.compile(r"\[\[fault:([a-z0-9-]+)\]\]")
_RULE = re.compile(r"(?P<kind>[a-z0-9-]+)(?:@(?P<how>rate|every|after|marker)=(?P<value>.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FaultRule:
    """Gives ``kind`` to the requests that match every condition that is set.

    Attributes:
        rate: probability for each request, drawn from the plan's own seeded generator.
        every: requests number ``every``, ``2 * every``, … counted from 1.
        after: all requests after the first ``after``.
        marker: requests whose prompt holds this text.
    """

    kind: str
    rate: float | None = None
    every: int | None = None
    after: int | None = None
    marker: str | None = None


def parse_rule(text: str) -> FaultRule:
    """Read ``KIND``, ``KIND@rate=0.1``, ``KIND@every=7``, ``KIND@after=100`` or ``KIND@marker=TEXT``.

    Raises:
        ValueError: the kind is unknown or the condition cannot be read.
    """
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is not a fault rule; accepted: KIND[@rate=P|@every=N|@after=N|@marker=TEXT]"
        )
    kind, how, value = match["kind"], match["how"], match["value"]
    if kind not in FAULTS:
        raise ValueError(f"there is no fault {kind!r}; accepted: {', '.join(FAULTS)}")
    match how:
        case None:
            return FaultRule(kind)
        case "rate":
            rate = float(value)
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"{text!r}: a rate lies between 0 and 1")
            return FaultRule(kind, rate=rate)
        case "every":
            if int(value) < 1:
                raise ValueError(f"{text!r}: every=N needs N >= 1")
            return FaultRule(kind, every=int(value))
        case "after":
            return FaultRule(kind, after=int(value))
        case _:
            return FaultRule(kind, marker=value)


class FaultPlan:
    """Decides, request by request, which faults apply. Equal seeds and order give equal decisions."""

    def __init__(self, rules: Sequence[FaultRule], seed: int) -> None:
        self._rules = tuple(rules)
        self._rng = random.Random(seed)

    def choose(self, number: int, prompt: str) -> frozenset[str]:
        """The faults of request ``number`` (from 1), at most one of them breaking.

        ``[[fault:KIND]]`` in the prompt always applies, and comes before every rule.
        """
        matching = [kind for kind in _MARKER.findall(prompt) if kind in FAULTS]
        # Every rate is drawn for every request, so that one rule never shifts another's decisions.
        matching += [rule.kind for rule in self._rules if self._matches(rule, number, prompt)]
        breaking = [kind for kind in matching if kind in BREAKING][:1]
        return frozenset(breaking + [kind for kind in matching if kind in QUIRKS])

    def _matches(self, rule: FaultRule, number: int, prompt: str) -> bool:
        if rule.rate is not None:
            return self._rng.random() < rule.rate
        if rule.every is not None:
            return number % rule.every == 0
        if rule.after is not None:
            return number > rule.after
        return rule.marker is None or rule.marker in prompt
