"""The samples that a run may ask for, as the worker finds them in the live store: one JSON line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

import orjson

from fairmark.samples.library import SampleLibrary
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation

__all__ = ["read_samples", "write_samples"]

_FILE: Final = "samples.jsonl"


def write_samples(folder: Path, library: SampleLibrary, indexes: Iterable[int]) -> None:
    """Write the samples ``indexes`` of ``library``; the first line says what is asked of the model."""
    with (folder / _FILE).open("wb") as file:
        file.write(orjson.dumps(asdict(library.generation), option=orjson.OPT_APPEND_NEWLINE))
        for index in indexes:
            sample = library.sample(index)
            row = [index, sample.data, sample.prompt, sample.reference, sample.token_ids]
            file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))


def read_samples(folder: Path) -> dict[int, Sample]:
    """Read what `write_samples` wrote, by index."""
    with (folder / _FILE).open("rb") as file:
        asked = orjson.loads(file.readline())
        generation = Generation(**{**asked, "stop": tuple(asked["stop"])})
        rows = (orjson.loads(line) for line in file)
        return {
            index: Sample(
                index=index,
                data=data,
                prompt=prompt,
                generation=generation,
                reference=reference,
                token_ids=None if token_ids is None else tuple(token_ids),
            )
            for index, data, prompt, reference, token_ids in rows
        }
