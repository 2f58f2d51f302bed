"""The sample library: what queries are made of, loaded and checked before a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmark.errors import EvidenceError, InputError
from fairmark.samples.cache import prepared
from fairmark.samples.content import canonical_row, digest_rows, parse_row
from fairmark.samples.sample import Message, Sample
from fairmark.samples.source import SourceFile, parse_source
from fairmark.samples.synthetic import prompt_of_length
from fairmark.scenario.model import Generation, InputKind, Samples

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SampleLibrary", "load_library", "max_output_tokens"]


@dataclass(frozen=True, slots=True)
class SampleLibrary:
    """All samples of a scenario, in source order.

    Attributes:
        spec: the scenario's ``[samples]``.
        generation: the scenario's ``[generation]``, which every sample carries.
        canonical: every row as RFC 8785 JSON of its used columns.
        content_sha256: the digest of the content; see `content.content_sha256`.
        files: the files that the rows were read from.
    """

    spec: Samples
    generation: Generation
    canonical: Sequence[str]
    content_sha256: str
    files: tuple[SourceFile, ...] = ()

    def __len__(self) -> int:
        return len(self.canonical)

    @property
    def source(self) -> str:
        """Where the samples came from, as the scenario spells it."""
        return self.spec.source

    def row(self, index: int) -> dict[str, Any]:
        """The used columns of row ``index``."""
        return parse_row(self.canonical[index])

    def sample(self, index: int) -> Sample:
        """Row ``index`` as the sample that queries carry.

        Raises:
            IndexError: there is no such row.
            InputError: the row's prompt is not of the scenario's input kind.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"no sample {index} in a library of {len(self)}")
        row = self.row(index)
        value = row[self.spec.prompt]
        _check_prompt(value, self.spec, index)
        return Sample(
            index=index,
            data=row,
            prompt=_prompt(value, self.spec.input, index),
            generation=self._generation(row),
            reference=_reference(row, self.spec.reference),
            token_ids=tuple(value) if self.spec.input == "token_ids" else None,
        )

    def _generation(self, row: Mapping[str, Any]) -> Generation:
        limit = max_output_tokens(row, self.spec.output_tokens, self.generation.max_output_tokens)
        if limit == self.generation.max_output_tokens:
            return self.generation
        return replace(self.generation, max_output_tokens=limit)

    def facts(self) -> dict[str, Any]:
        """What the run record says about the samples."""
        return {
            "source": self.source,
            "rows": len(self),
            "content_sha256": self.content_sha256,
            "pinned_sha256": self.spec.sha256,
            "files": [asdict(file) for file in self.files],
        }

    def to_table(self) -> pa.Table:
        """The evidence table ``samples``: ``index`` (int64) and ``row`` (RFC 8785 JSON)."""
        import pyarrow as pa

        index = pa.array(range(len(self)), pa.int64())
        return pa.table({"index": index, "row": pa.array(self.canonical, pa.string())})

    @classmethod
    def from_table(
        cls, table: pa.Table, spec: Samples, generation: Generation, *, files: Sequence[SourceFile] = ()
    ) -> SampleLibrary:
        """The library that `to_table` stored; nothing but the table is trusted.

        Raises:
            EvidenceError: rows are missing, out of order, not canonical, or lack a used column.
        """
        if table.column("index").to_pylist() != list(range(len(table))):
            raise EvidenceError("samples table: the index column does not count from 0")
        rows: list[str] = []
        for index, row in enumerate(table.column("row").to_pylist()):
            rows.append(_checked(row, _columns(spec), index))
        return cls(spec, generation, tuple(rows), digest_rows(rows), tuple(files))


def load_library(
    spec: Samples,
    generation: Generation,
    *,
    base: Path,
    progress: Callable[[int], None] | None = None,
) -> SampleLibrary:
    """Load a scenario's samples and hold them to what the scenario says of them.

    Args:
        spec: the scenario's ``[samples]``.
        generation: the scenario's ``[generation]``.
        base: the folder of the scenario file, which relative paths start from.
        progress: called with the number of rows read so far while a source is read for the first time.

    Raises:
        InputError: the source is unknown, missing, empty or malformed, lacks a column, has prompts of
            another kind, has fewer rows than the scenario counts on, or another digest than it pins.
    """
    found = prepared(parse_source(spec.source, base), _columns(spec), progress)
    library = SampleLibrary(spec, generation, tuple(found.rows), found.content_sha256, found.files)
    _check_counts(library)
    _check_pin(library)
    for index in range(len(library)):
        row = library.row(index)
        _check_prompt(row[spec.prompt], spec, index)
        if spec.output_tokens is not None:
            _check_output_tokens(row[spec.output_tokens], spec, index)
    return library


def max_output_tokens(row: Mapping[str, Any], column: str | None, cap: int | None) -> int | None:
    """How many tokens the answer to ``row`` may have: its ``column``, at most ``cap``; None is no limit."""
    own = None if column is None else _whole_number(row[column])
    if own is None or cap is None:
        return cap if own is None else own
    return min(own, cap)


def _whole_number(value: Any) -> int | None:
    """A number of tokens, 1 or more, also as the digits that CSV holds; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None


def _check_output_tokens(value: Any, spec: Samples, index: int) -> None:
    if _whole_number(value) is None:
        raise InputError(
            f"row {index + 1} of {spec.source} has no number of tokens in column {spec.output_tokens!r}",
            field="samples.output_tokens",
            value=_short(value),
            accepted="a whole number, 1 or more",
        )


def _columns(spec: Samples) -> list[str]:
    named = (spec.prompt, spec.reference, spec.output_tokens)
    return sorted({column for column in named if column is not None})


def _check_counts(library: SampleLibrary) -> None:
    spec, rows = library.spec, len(library)
    if rows == 0:
        raise InputError(
            "has no rows", field="samples.source", value=spec.source, accepted="at least one sample"
        )
    for field in ("performance_sample_count", "accuracy_sample_count"):
        count = getattr(spec, field)
        if count is not None and count > rows:
            raise InputError(
                f"is more than the {rows} rows of {spec.source}",
                field=f"samples.{field}",
                value=count,
                accepted=f"1 to {rows}",
            )


def _check_pin(library: SampleLibrary) -> None:
    pin, found = library.spec.sha256, library.content_sha256
    if pin is not None and pin != found:
        raise InputError(
            f"the scenario pins the content digest {pin}, but {library.source} has {found}",
            field="samples.sha256",
            accepted=f'the pinned content, or, if this content is meant, the line: sha256 = "{found}"',
        )


_ACCEPTED: Mapping[InputKind, str] = {
    "messages": 'a string, or a list of {"role": string, "content": string}',
    "text": "a string",
    "token_ids": "a list of integers >= 0",
    "length": "a whole number of tokens, 1 or more",
    "data": "anything but null",
}


def _check_prompt(value: Any, spec: Samples, index: int) -> None:
    fits = {
        "messages": isinstance(value, str) or _is_messages(value),
        "text": isinstance(value, str),
        "token_ids": _is_token_ids(value),
        "length": _whole_number(value) is not None,
        "data": value is not None,
    }[spec.input]
    if not fits:
        raise InputError(
            f"row {index + 1} of {spec.source} has a prompt of the wrong kind in column {spec.prompt!r}",
            field="samples.prompt",
            value=_short(value),
            accepted=f'{_ACCEPTED[spec.input]} (input = "{spec.input}")',
        )


def _short(value: Any) -> str:
    text = canonical_row({"": value}, [""])[4:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
            for m in value
        )
    )


def _is_token_ids(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(t, int) and not isinstance(t, bool) and t >= 0 for t in value)
    )


def _prompt(value: Any, kind: InputKind, index: int) -> str | Sequence[Message] | None:
    if kind == "length":
        return prompt_of_length(index, int(value))
    if kind == "messages":
        return [{"role": "user", "content": value}] if isinstance(value, str) else value
    return value if kind == "text" else None


def _reference(row: Mapping[str, Any], column: str | None) -> str | None:
    """A reference that is not a string is scored by its JSON text: 18 as ``18``."""
    value = None if column is None else row[column]
    return value if value is None or isinstance(value, str) else canonical_row({"": value}, [""])[4:-1]


def _checked(row: str | None, columns: Sequence[str], index: int) -> str:
    """``row``, if it is what `canonical_row` writes for ``columns``."""
    try:
        if row is not None and canonical_row(parse_row(row), columns) == row:
            return row
    except (ValueError, KeyError, InputError) as error:
        raise EvidenceError(f"samples table: row {index} is not the JSON of a sample: {error}") from error
    raise EvidenceError(f"samples table: row {index} is not the RFC 8785 JSON of the used columns")
