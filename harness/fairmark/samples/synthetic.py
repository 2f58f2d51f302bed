"""Prompts of a given length, where a data set tells lengths and no texts: traces of real services."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["prompt_of_length"]

_WORDS: Final = """
    time year people way day man thing woman life child world school state family student group country
    problem hand part place case week company system program question work government number night point
    home water room mother area money story fact month lot right study book eye job word business issue
    side kind head house service friend father power hour game line end member law car city community
    name president team minute idea body information back parent face others level office door health
    person art war history party result change morning reason research girl guy moment air teacher force
    education foot boy age policy music market sense nation plan college interest death experience
    effect use class control field development role effort rate heart drug show leader light voice wife
    police mind price report decision son view relationship town road arm difference value building
    action season society tax director position player record paper space ground form event official
    matter center couple site project activity star table need court oil situation cost industry figure
    street image phone data picture practice piece land product doctor wall worker news test movie north
    love support technology step baby computer type attention film tree source hair window culture
    chance brother energy period course summer plant opportunity term letter condition choice rule south
    husband floor campaign material population call economy hospital church risk fire future bank west
    sport board subject officer rest behavior performance fight top goal second bed order author blood
    agency nature color store sound movement page race concern series language response
""".split()  # noqa: SIM905
"""256 common English words, one for each value of a byte; with the space before it each is one token of
byte-pair vocabularies that were learnt from English (checked with SmolLM2's)."""


def prompt_of_length(index: int, tokens: int) -> str:
    """A text of ``tokens`` words, another one for each sample, so that no prefix is worth caching.

    The words are the bytes of SHA-256 over ``fairmark/prompt/1 <index> <block>`` for block 0, 1, …, each byte
    naming a word. Servers count a few tokens more for the chat template.
    """
    blocks = range(-(-tokens // 32))
    stream = b"".join(hashlib.sha256(f"fairmark/prompt/1 {index} {n}".encode()).digest() for n in blocks)
    return " ".join(map(_WORDS.__getitem__, stream[:tokens]))
