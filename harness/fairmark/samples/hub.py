"""Files of a Hugging Face data set at one commit. Runs in the preparing process only.

Tested against a local server that speaks the part of the Hub's API that is used. Not tried: the public Hub,
data sets that need a token, and files in Xet storage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairmark.errors import InputError
from fairmark.samples.source import HubSource

__all__ = ["download"]

_SCHEME = "hf://datasets/"


def download(source: HubSource, cache: Path) -> list[Path]:
    """Download the data files of one split, in the order in which `datasets` reads them.

    `datasets` decides which files belong to a configuration and a split (from the repository's card or its
    file names). The files are then read like local ones, so that equal content has an equal digest.

    Args:
        source: the data set, its commit, and optionally configuration and split.
        cache: a folder for the files.

    Raises:
        InputError: the hub cannot be reached, does not have the commit, or has several configurations or
            splits and the source names none.
    """
    files = _data_files(source, cache)
    splits = list(files)
    split = source.split or (splits[0] if len(splits) == 1 else None)
    if split not in splits:
        problem = (
            "there are several splits" if source.split is None else f"there is no split {source.split!r}"
        )
        raise _refused(source, problem, ", ".join(f"{_spelling(source)}{name}" for name in splits))
    return [_fetch(source, address, cache) for address in files[split]]


def _spelling(source: HubSource) -> str:
    config = f"{source.config}/" if source.config else ""
    return f"hub:{source.dataset}@{source.commit}:{config}"


def _refused(source: HubSource, problem: str, accepted: str | None = None) -> InputError:
    return InputError(
        problem, field="samples.source", value=f"hub:{source.dataset}@{source.commit}", accepted=accepted
    )


def _unreachable(source: HubSource, cause: BaseException) -> InputError:
    reason = " ".join(str(cause).split()) or type(cause).__name__
    return _refused(
        source,
        f"the hub did not give this data set: {reason}",
        "a reachable hub (HF_ENDPOINT, HF_HUB_OFFLINE), or a local jsonl, csv or parquet copy",
    )


def _data_files(source: HubSource, cache: Path) -> Any:
    import datasets
    from huggingface_hub.errors import HfHubHTTPError

    options = datasets.DownloadConfig(cache_dir=str(cache), max_retries=0)
    try:
        builder = datasets.load_dataset_builder(
            source.dataset,
            name=source.config,
            revision=source.commit,
            cache_dir=str(cache),
            download_config=options,
        )
    except ValueError as error:  # several configurations, or none of this name: the text lists them
        raise _refused(source, " ".join(str(error).split()), "hub:ID@COMMIT:CONFIG/SPLIT") from error
    except (OSError, HfHubHTTPError, datasets.exceptions.DatasetNotFoundError) as error:
        raise _unreachable(source, error) from error
    return builder.config.data_files or {}


def _fetch(source: HubSource, address: str, cache: Path) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    prefix = f"{_SCHEME}{source.dataset}@{source.commit}/"
    if not address.startswith(prefix):
        raise _refused(source, f"its file {address!r} lies outside the pinned commit")
    try:
        path = hf_hub_download(
            source.dataset,
            address.removeprefix(prefix),
            repo_type="dataset",
            revision=source.commit,
            cache_dir=str(cache),
        )
    except (OSError, HfHubHTTPError) as error:
        raise _unreachable(source, error) from error
    return Path(path)
