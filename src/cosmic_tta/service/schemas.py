"""What goes in and out, described for OpenAPI and checked on the way in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, StringConstraints

from cosmic_tta.classifier import DEFAULT_CLIP
from cosmic_tta.guards import Guard

MOST_CLASSES = 10_000  # of a stream; told apart from the schema, since what is larger is large
MOST_SENTENCES = 100


def _words(text: str) -> str:
    """Refuse what no file or answer can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("has half a character in it (a lone surrogate)") from error
    return text


StreamName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Words = Annotated[StrictStr, Field(min_length=1, max_length=400), AfterValidator(_words)]
Source = Annotated[StrictStr, Field(min_length=1, max_length=200), AfterValidator(_words)]
Note = Annotated[StrictStr, Field(max_length=200), AfterValidator(_words)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Row = Annotated[list[Annotated[Number, Field(ge=-1.01, le=1.01)]], Field(min_length=1)]  # of length one
Texts = Annotated[list[Words], Field(min_length=1, max_length=MOST_SENTENCES)]
Base64 = Annotated[StrictStr, Field(min_length=1)]


class Form(BaseModel):
    """A body in which every field is known."""

    model_config = ConfigDict(extra="forbid")


class GuardForm(Form):
    """Which pictures may teach a stream; the others are answered and not learned from."""

    alike: Annotated[
        Number, Field(ge=0.5, le=1, description="Pictures whose features are so similar are the same one again.")
    ] = Guard.alike
    quota: Annotated[
        Number,
        Field(ge=0, le=1, description="Where several sources teach, the most of a class's places that one may hold."),
    ] = Guard.quota
    places: Annotated[StrictInt, Field(ge=1, le=1024, description="Pictures a class that are remembered.")] = (
        Guard.places
    )


class CreateStream(Form):
    """A new stream: what it tells apart, by which method, seen through which encoders."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "harbour", "classes": ["ship", "truck", "airplane"]}]},
    )

    name: StreamName
    classes: Annotated[list[Words], Field(min_length=1)]
    method: Annotated[StrictStr, Field(max_length=80)] = "bayes_means"
    preset: Annotated[StrictStr, Field(max_length=80)] = "default"
    params: Annotated[
        dict[Annotated[str, Field(max_length=80)], StrictBool | StrictInt | Number | StrictStr | list[Number]],
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
            description="A self-supervised encoder beside it; null for none. Left out: the one that goes with it.",
        ),
    ] = None
    templates: Annotated[
        Texts | None,
        Field(description="Sentences with {} where the class goes, or names of sets; 'a photo of a {}.' if left out."),
    ] = None
    descriptions: Annotated[
        dict[Annotated[str, Field(max_length=400)], Texts] | None,
        Field(description="More sentences for each class."),
    ] = None
    views: Annotated[StrictInt, Field(ge=1, le=512, description="Views of each picture.")] = 1
    seed: Annotated[StrictInt, Field(ge=0, le=2**32 - 1, description="Of the views.")] = 0
    text: Annotated[
        list[Row] | None,
        Field(min_length=1, description="A unit row a class, for a stream without an encoder."),
    ] = None
    logit_scale: Annotated[
        Number | None, Field(gt=0, le=1e6, description="For a stream without an encoder; 100 if left out.")
    ] = None
    policy: Annotated[
        Literal["always", "everysec"] | None,
        Field(description="When the journal is synced; the server's own if left out."),
    ] = None
    guard: Annotated[GuardForm | None, Field(description="Which pictures may teach; null: all.")] = GuardForm()
    own_token: Annotated[StrictBool, Field(description="Make a token that opens this stream alone.")] = False


class Features(Form):
    """One encoded picture."""

    clip: Annotated[Row | list[Row], Field(description="A unit row, or one a view.")]
    aux: Annotated[Row | None, Field(description="The auxiliary encoder's unit row.")] = None


class PredictBody(Form):
    """Pictures in base64, or features, or addresses: one of the three."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"features": [{"clip": [0.6, 0.8, 0.0, 0.0]}]}]}
    )

    pictures: Annotated[list[Base64] | None, Field(min_length=1)] = None
    features: Annotated[list[Features] | None, Field(min_length=1)] = None
    urls: Annotated[
        list[Annotated[StrictStr, Field(min_length=1, max_length=2048)]] | None, Field(min_length=1, max_length=16)
    ] = None


class Answer(BaseModel):
    """A class and how probable it is."""

    label: str
    score: float


class Predicted(BaseModel):
    """What one picture is."""

    step: Annotated[int | None, Field(description="Its number in the stream; null if it was only looked at.")]
    learned: bool
    reason: Annotated[
        str, Field(description="Why nothing was learned from it: paused, duplicate, quota; else empty.")
    ] = ""
    answers: list[Answer]
    why: Annotated[dict[str, Any] | None, Field(description="What spoke for it, if asked for.")] = None


class Predictions(BaseModel):
    """What the pictures are, in the order they came."""

    stream: str
    predictions: list[Predicted]


class Label(Form):
    """What a picture turned out to be."""

    step: Annotated[StrictInt, Field(ge=0, le=2**63 - 1, description="The number that the answer came with.")]
    label: Words


class Labels(Form):
    """Late labels: for the monitor only, no method ever sees them."""

    labels: Annotated[list[Label], Field(min_length=1, max_length=1000)]


class ChangeClasses(Form):
    """Classes to add, remove and rename, in one go; what was learned stays with the names that stay."""

    add: list[Words] = []
    remove: list[Words] = []
    rename: Annotated[dict[str, Words], Field(description="Old name to new.")] = {}
    keep_text: Annotated[StrictBool, Field(description="A renamed class keeps the text features of its old name.")] = (
        False
    )
    text: Annotated[
        dict[str, Row] | None,
        Field(description="Unit rows of added classes, for a stream without an encoder."),
    ] = None


class MakeSnapshot(Form):
    """A snapshot with a note is kept until its stream is deleted."""

    note: Note = ""


class RollBack(Form):
    """Go back to a snapshot."""

    snapshot: Annotated[StrictStr, Field(min_length=1, max_length=200, description="Its id, as the list gives it.")]


class Undo(Form):
    """Undo what a source taught."""

    source: Source


class Snapshot(BaseModel):
    """A state on disk."""

    id: str
    number: Annotated[int, Field(description="The last event that is in it.")]
    note: str


class Snapshots(BaseModel):
    """The snapshots of a stream, the newest first."""

    stream: str
    snapshots: list[Snapshot]


class SourceInfo(BaseModel):
    """One who sent pictures."""

    name: str
    first: Annotated[int, Field(description="The event of the first.")]
    samples: Annotated[int, Field(description="How many came to teach; some of them may have been refused.")]


class Sources(BaseModel):
    """Who had a part in what was learned."""

    stream: str
    sources: list[SourceInfo]


class StreamInfo(BaseModel):
    """One stream."""

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
    fallen_back: Annotated[bool, Field(description="Late labels showed harm: zero-shot answers until resumed.")]
    number: Annotated[int, Field(description="Of its last event.")]
    seen: Annotated[int, Field(description="Samples that it learned from.")]
    waiting: Annotated[int, Field(description="Requests that are waiting or under way.")]
    problem: Annotated[str, Field(description="Why it takes no pictures here; empty if it does.")] = ""
    warnings: Annotated[list[str], Field(description="What went wrong here without harm.")] = []
    digest: Annotated[str | None, Field(description="A fingerprint of all that it knows, if asked for.")] = None
    monitor: Annotated[dict[str, Any] | None, Field(description="Counts and accuracies.")] = None
    alarms: Annotated[list[dict[str, Any]], Field(description="Those that are on, where one stream is asked for.")] = []
    signals: Annotated[dict[str, float], Field(description="What the alarms go by.")] = {}
    not_learned: Annotated[dict[str, int], Field(description="Samples that did not teach, by reason.")] = {}


class Created(StreamInfo):
    """A stream just made; the token is told this once."""

    token: str | None = None


class DamagedInfo(BaseModel):
    """A stream whose files were damaged."""

    id: str
    name: Annotated[str | None, Field(description="As far as it can still be read.")]
    reason: str
    recoverable: Annotated[int | None, Field(description="Up to which event it can be had back; null: not at all.")]


class StreamList(BaseModel):
    """All streams."""

    streams: list[StreamInfo]
    damaged: list[DamagedInfo]


class Done(BaseModel):
    """What was done."""

    stream: str
    done: str
    number: int


class Problem(BaseModel):
    """Every error has this form."""

    error: str
    detail: str
    hint: str
