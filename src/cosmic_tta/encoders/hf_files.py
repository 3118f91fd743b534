"""The files of a model: in a folder, or in the cache of the model hub. Only missing files are downloaded."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

from cosmic_tta.core.errors import EncoderError

SETTINGS = ["*.json", "*.txt", "*.model"]
WEIGHTS = (["model*.safetensors"], ["pytorch_model*.bin"])  # the first kind that exists is used
IMAGE_FILES = ("preprocessor_config.json", "processor_config.json")
TOKENIZER_FILES = ("vocab.json", "tokenizer.json")


def model_folder(name: str, revision: str | None) -> Path:
    """Return the folder of a model's files: `name` itself, or the hub's cache, filled if possible.

    A complete model in the cache is used without a request to the hub. HF_HOME and HF_HUB_OFFLINE are respected.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise EncoderError(f"{name!r} is a folder, so it has no revision {revision!r}.")
        return _checked(folder, f"put the model's files into {name!r}")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise EncoderError(f"there is no folder {name!r}: expected one with config.json and model.safetensors.")
    command = f"hf download {name}" + (f" --revision {revision}" if revision else "")
    try:
        cached = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except HFValidationError as error:
        raise EncoderError(
            f"{name!r} is neither a folder nor the name of a model such as openai/clip-vit-base-patch16."
        ) from error
    except LocalEntryNotFoundError as error:
        if constants.HF_HUB_OFFLINE:
            raise EncoderError(
                f"{name} is not in the cache {constants.HF_HUB_CACHE!r}, and HF_HUB_OFFLINE is set; "
                f"unset it and run: {command}."
            ) from error
        return _checked(_download(name, revision, command), command)
    if not constants.HF_HUB_OFFLINE and not _is_complete(cached):
        cached = _download(name, revision, command)
    return _checked(cached, command)


def _download(name: str, revision: str | None, command: str) -> Path:
    try:
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=SETTINGS))
        for patterns in WEIGHTS:
            if not _has_weights(folder):
                snapshot_download(name, revision=revision, allow_patterns=patterns)
    except RepositoryNotFoundError as error:
        raise EncoderError(
            f"the hub has no model {name!r} that you may read; check its name, or log in: hf auth login."
        ) from error
    except LocalEntryNotFoundError as error:
        raise EncoderError(
            f"{name} is not in the cache {constants.HF_HUB_CACHE!r} and the hub cannot be reached from here; "
            f"run on a machine that can reach it: {command}. Then copy the cache (HF_HOME) or the folder."
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise EncoderError(f"the files of {name} could not be downloaded ({error}); try: {command}.") from error
    return folder


def _is_complete(folder: Path) -> bool:
    """Return whether no file is missing; another program may have downloaded the weights alone."""
    config = folder / "config.json"
    if not config.is_file() or not _has_weights(folder):
        return False
    has_text = "text_config" in config.read_text(encoding="utf-8", errors="replace")
    required = [IMAGE_FILES, TOKENIZER_FILES] if has_text else [IMAGE_FILES]
    return all(any((folder / name).is_file() for name in names) for names in required)


def _has_weights(folder: Path) -> bool:
    return any(True for patterns in WEIGHTS for pattern in patterns for _ in folder.glob(pattern))


def _checked(folder: Path, remedy: str) -> Path:
    """Refuse a folder without settings or weights."""
    if not (folder / "config.json").is_file():
        raise EncoderError(f"{str(folder)!r} has no config.json; {remedy}.")
    if not _has_weights(folder):
        raise EncoderError(f"{str(folder)!r} has no weights (model.safetensors); {remedy}.")
    return folder
