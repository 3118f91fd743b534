"""Request and response bodies: checked on the way in, and described in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, StringConstraints

from cosmic_tta.classifier import DEFAULT_CLIP
from cosmic_tta.sessions.admission import AdmissionPolicy

MAX_CLASSES = 10_000  # per stream; checked by the stream factory, so that a long list gets a short error
MAX_SENTENCES = 100  # per class
MAX_LABELS = 1000  # per request
MAX_URLS = 16  # per request


def _check_utf8(text: str) -> str:
    """Refuse a text that neither a file nor a response can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("contains a lone surrogate, which is not a character") from error
    return text


StreamName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Text = Annotated[StrictStr, Field(min_length=1, max_length=400), AfterValidator(_check_utf8)]
Source = Annotated[StrictStr, Field(min_length=1, max_length=200), AfterValidator(_check_utf8)]
Note = Annotated[StrictStr, Field(max_length=200), AfterValidator(_check_utf8)]
FiniteFloat = Annotated[float, Field(strict=True, allow_inf_nan=False)]
UnitRow = Annotated[list[Annotated[FiniteFloat, Field(ge=-1.01, le=1.01)]], Field(min_length=1)]
Sentences = Annotated[list[Text], Field(min_length=1, max_length=MAX_SENTENCES)]
Base64 = Annotated[StrictStr, Field(min_length=1)]
Url = Annotated[StrictStr, Field(min_length=1, max_length=2048)]


class StrictModel(BaseModel):
    """A request body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


# Requests.


class AdmissionForm(StrictModel):
    """Rules for the images that a stream learns from. It answers the others without learning."""

    model_config = ConfigDict(extra="forbid", title="AdmissionPolicy")

    duplicate_similarity: Annotated[
        FiniteFloat, Field(ge=0.5, le=1, description="Cosine from which two images count as duplicates.")
    ] = AdmissionPolicy.duplicate_similarity
    quota: Annotated[
        FiniteFloat,
        Field(ge=0, le=1, description="Largest share of a class's slots that one of several sources may hold."),
    ] = AdmissionPolicy.quota
    slots: Annotated[StrictInt, Field(ge=1, le=1024, description="Images per class that are remembered.")] = (
        AdmissionPolicy.slots
    )


class CreateStream(StrictModel):
    """A new stream: its classes, its method and its encoders."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "harbour", "classes": ["ship", "truck", "airplane"]}]},
    )

    name: StreamName
    classes: Annotated[list[Text], Field(min_length=1)]
    method: Annotated[StrictStr, Field(max_length=80)] = "bayes_means"
    preset: Annotated[StrictStr, Field(max_length=80)] = "default"
    params: Annotated[
        dict[
            Annotated[str, Field(max_length=80)], StrictBool | StrictInt | FiniteFloat | StrictStr | list[FiniteFloat]
        ],
        Field(max_length=100, description="Hyper-parameters that differ from the preset."),
    ] = {}
    encoder: Annotated[
        StrictStr | None,
        Field(max_length=400, description="One of the server's encoders; null for a stream of features."),
    ] = DEFAULT_CLIP
    aux: Annotated[
        StrictStr | None,
        Field(
            max_length=400,
            description="Auxiliary self-supervised encoder; null for none. By default the one that fits the encoder.",
        ),
    ] = None
    templates: Annotated[
        Sentences | None,
        Field(description="Sentences with {} for the class name, or names of template sets. Default: a photo of a {}."),
    ] = None
    descriptions: Annotated[
        dict[Annotated[str, Field(max_length=400)], Sentences] | None,
        Field(description="Additional sentences per class."),
    ] = None
    views: Annotated[StrictInt, Field(ge=1, le=512, description="Augmented views per image.")] = 1
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1, description="Seed of the views.")] = 0
    text: Annotated[
        list[UnitRow] | None,
        Field(min_length=1, description="One unit row per class, for a stream without an encoder."),
    ] = None
    logit_scale: Annotated[
        FiniteFloat | None, Field(gt=0, le=1e6, description="For a stream without an encoder. Default: 100.")
    ] = None
    policy: Annotated[
        Literal["always", "everysec"] | None,
        Field(description="When the journal is synced to disk. Default: the server's policy."),
    ] = None
    guard: Annotated[
        AdmissionForm | None, Field(description="Rules for the images that the stream learns from; null for none.")
    ] = AdmissionForm()
    own_token: Annotated[StrictBool, Field(description="Create a token that gives access to this stream alone.")] = (
        False
    )


class EncodedImage(StrictModel):
    """The features of one image."""

    clip: Annotated[UnitRow | list[UnitRow], Field(description="One unit row, or one per view.")]
    aux: Annotated[UnitRow | None, Field(description="Unit row of the auxiliary encoder.")] = None


class PredictBody(StrictModel):
    """Images in base64, features, or URLs: exactly one of the three."""

    model_config = ConfigDict(
        extra="forbid",
        title="PredictRequest",
        json_schema_extra={"examples": [{"features": [{"clip": [0.6, 0.8, 0.0, 0.0]}]}]},
    )

    images: Annotated[list[Base64] | None, Field(min_length=1, description="Image files in base64.")] = None
    features: Annotated[
        list[EncodedImage] | None, Field(min_length=1, description="Images that the client has encoded.")
    ] = None
    urls: Annotated[
        list[Url] | None,
        Field(
            min_length=1, max_length=MAX_URLS, description="Addresses of images, on hosts that the operator allowed."
        ),
    ] = None


class StepLabel(StrictModel):
    """The true class of one step."""

    step: Annotated[StrictInt, Field(ge=0, le=2**63 - 1, description="The step number of the prediction.")]
    label: Text


class LabelSteps(StrictModel):
    """Labels of earlier steps. The monitor alone uses them; no method sees a label."""

    labels: Annotated[list[StepLabel], Field(min_length=1, max_length=MAX_LABELS)]


class ChangeClasses(StrictModel):
    """Classes to add, remove and rename in one request. Classes that stay keep what was learned."""

    add: list[Text] = []
    remove: list[Text] = []
    rename: Annotated[dict[str, Text], Field(description="New name by old name.")] = {}
    keep_text: Annotated[
        StrictBool, Field(description="Whether a renamed class keeps the text features of its old name.")
    ] = False
    text: Annotated[
        dict[str, UnitRow] | None,
        Field(description="Unit row per added class, for a stream without an encoder."),
    ] = None


class CreateSnapshot(StrictModel):
    """A new snapshot. One with a note is kept until it is deleted."""

    note: Note = ""


class RollBack(StrictModel):
    """The snapshot to return to."""

    snapshot: Annotated[StrictStr, Field(min_length=1, max_length=200, description="Its id, from the list.")]


class ForgetSource(StrictModel):
    """The source whose images are removed from what was learned."""

    source: Source


# Responses.


class ClassScoreBody(BaseModel):
    """A class and its probability."""

    model_config = ConfigDict(title="ClassScore")

    label: str
    score: float


class PredictionBody(BaseModel):
    """The prediction for one image."""

    model_config = ConfigDict(title="Prediction")

    step: Annotated[int | None, Field(description="Step number in the stream; null with learn=false.")]
    learned: Annotated[bool, Field(description="Whether the stream learned from the image.")]
    reason: Annotated[
        str, Field(description="Why the stream did not learn from it: paused, duplicate or quota; else empty.")
    ] = ""
    answers: Annotated[list[ClassScoreBody], Field(description="Classes by descending probability.")]
    unknown: Annotated[float, Field(description="How likely the image is of none of the classes, from 0 to 1.")]
    why: Annotated[dict[str, Any] | None, Field(description="Explanation of the prediction, with why=true.")] = None


class PredictResponse(BaseModel):
    """Predictions in the order of the images."""

    stream: str
    predictions: list[PredictionBody]


class Snapshot(BaseModel):
    """A saved state of a stream."""

    id: str
    number: Annotated[int, Field(description="Number of the last event that it contains.")]
    note: str


class SnapshotList(BaseModel):
    """Snapshots of a stream, newest first."""

    stream: str
    snapshots: list[Snapshot]


class SourceBody(BaseModel):
    """One source of images."""

    model_config = ConfigDict(title="Source")

    name: str
    first: Annotated[int, Field(description="Number of the event with its first image.")]
    samples: Annotated[int, Field(description="Images that it sent to learn from, including refused ones.")]


class SourceList(BaseModel):
    """Sources that contributed to what a stream has learned."""

    stream: str
    sources: list[SourceBody]


class StreamBody(BaseModel):
    """One stream."""

    model_config = ConfigDict(title="Stream")

    name: str
    id: str
    classes: list[str]
    method: str
    preset: str
    params: dict[str, Any]
    encoder: str | None
    aux: str | None
    templates: list[str] | None
    views: int
    paused: bool
    fallen_back: Annotated[
        bool, Field(description="Labels showed that adaptation did harm: it predicts zero-shot until it is resumed.")
    ]
    number: Annotated[int, Field(description="Number of its last event.")]
    seen: Annotated[int, Field(description="Samples that it has learned from.")]
    waiting: Annotated[int, Field(description="Requests that wait or run.")]
    problem: Annotated[str, Field(description="Why it takes no images on this server; empty if it does.")] = ""
    warnings: Annotated[list[str], Field(description="Failures that had no effect on the stream.")] = []
    digest: Annotated[str | None, Field(description="Fingerprint of its state, with digest=true.")] = None
    monitor: Annotated[dict[str, Any] | None, Field(description="Counts and accuracies; not in lists.")] = None
    alarms: Annotated[list[dict[str, Any]], Field(description="Active alarms; not in lists.")] = []
    signals: Annotated[dict[str, float], Field(description="Values that the alarms test; not in lists.")] = {}
    not_learned: Annotated[
        dict[str, int], Field(description="Samples that it did not learn from, by reason; not in lists.")
    ] = {}


class CreatedStream(StreamBody):
    """A new stream. Its own token is shown in this response alone."""

    model_config = ConfigDict(title="CreatedStream")

    token: str | None = None


class DamagedStream(BaseModel):
    """A stream whose files are damaged."""

    id: str
    name: Annotated[str | None, Field(description="Its name, if that can be read.")]
    reason: str
    recoverable: Annotated[int | None, Field(description="Last event that can be recovered; null if none can.")]


class StreamList(BaseModel):
    """All streams of a server."""

    streams: list[StreamBody]
    damaged: list[DamagedStream]


class Acknowledgement(BaseModel):
    """A change that is on disk."""

    stream: str
    done: Annotated[str, Field(description="What was done.")]
    number: Annotated[int, Field(description="Number of the stream's last event.")]


class ProblemBody(BaseModel):
    """Every error response has this form."""

    # The description for OpenAPI. `errors.problem_response` builds the body.
    model_config = ConfigDict(title="Problem")

    error: Annotated[str, Field(description="Error code.")]
    detail: Annotated[str, Field(description="What was given and what was expected.")]
    hint: Annotated[str, Field(description="What to do next.")]
