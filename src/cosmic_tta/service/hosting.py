"""The streams that are served: their lanes, their encoders, and what is asked of them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cosmic_tta.core import Sample
from cosmic_tta.errors import CosmicError
from cosmic_tta.guards import Guard
from cosmic_tta.loading import Recipe
from cosmic_tta.service.access import hashed, new_token
from cosmic_tta.service.bodies import Asked
from cosmic_tta.service.decoding import Decoders
from cosmic_tta.service.encoding import Batcher, Encoders, Load, encoded
from cosmic_tta.service.fetching import Fetcher
from cosmic_tta.service.lanes import Answers, Lane
from cosmic_tta.service.making import changed_task, check_size, equipped, method_of, new_task
from cosmic_tta.service.metrics import Metrics
from cosmic_tta.service.refusals import Refused, busy, placeless
from cosmic_tta.service.schemas import ChangeClasses, CreateStream
from cosmic_tta.service.settings import Settings
from cosmic_tta.session import Session
from cosmic_tta.store import Store
from cosmic_tta.views import Views

THREADS = 16  # in which sessions work
SPARE = 16  # places beside a full queue for those who steer: who wants to pause a stream is not sent away
T = TypeVar("T")
Heard = Callable[[str, str, Any], None]
Pixels = NDArray[np.uint8]
Shown = Callable[[Lane, Answers, Sequence[Sample], Sequence[Pixels]], None]


class Host:
    """All streams of one data folder, each behind its lane."""

    def __init__(
        self, store: Store, settings: Settings, metrics: Metrics | None = None, load: Load | None = None
    ) -> None:
        self._load = load
        self.store, self.settings, self.metrics = store, settings, metrics or Metrics()
        self.ready = False
        self.lanes: dict[str, Lane] = {}  # by name
        self.problems: dict[str, str] = {}  # why a stream takes no pictures here
        self.listeners: list[Heard] = []  # told (stream, what, result) in the event loop, after each change
        self.shown: Shown | None = None  # told the pictures that were answered, as the encoder saw them
        self._making: set[str] = set()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="session")

    async def open(self) -> None:
        """Bring every stream back from disk; those whose files are damaged are left aside and told of."""
        self.encoders, self.decoders = Encoders(self.settings, self._load), Decoders(self.settings)
        self.encoders.on_batch = self.metrics.batches.observe
        self.fetcher = Fetcher(self.settings)
        await self._off(self.store.open_all)
        for identity, session in self.store.sessions().items():
            self._take(identity)
            self.problems[session.name] = await self._problem(session)
        self.ready = True

    async def close(self) -> None:
        """Let every lane finish, then close files and processes."""
        self.ready = False
        await asyncio.gather(*(lane.close() for lane in self.lanes.values()))
        await self.decoders.close()
        await self.encoders.close()
        await self._off(self.store.close)
        self._threads.shutdown(wait=True)

    def require_ready(self) -> None:
        """Say so while the streams are still being read from disk."""
        if not self.ready:
            raise Refused(503, "the server is still reading its streams from disk.", headers={"Retry-After": "2"})

    def damaged(self) -> list[dict[str, Any]]:
        """Tell of the streams whose files are damaged, and what can be had back."""
        return [
            {
                "id": identity,
                "name": self.store.name_of(identity) or None,
                "reason": placeless(str(error)),
                "recoverable": getattr(error, "recoverable", None),
            }
            for identity, error in self.store.damaged().items()
        ]

    def lane(self, name: str) -> Lane:
        """Return a stream's lane, or say that there is none."""
        self.require_ready()
        if name in self.lanes:
            return self.lanes[name]
        identity = self._damaged(name)
        if identity is not None:
            error = self.store.damaged()[identity]
            upto = getattr(error, "recoverable", None)
            hint = f"POST /v1/streams/{identity}/recover keeps it up to event {upto}. " if upto is not None else ""
            hint += "Or restore its folder from a copy, or delete it: DELETE. The other streams go on."
            raise Refused(409, f"the files of this stream are damaged: {placeless(str(error))}", hint, error="damaged")
        raise Refused(404, f"there is no stream {name[:80]!r}.")

    def stream_hash(self, name: str) -> str | None:
        """Return the hash of a stream's own token, if it has one; a damaged stream keeps its own."""
        lane = self.lanes.get(name)
        if lane is not None:
            return lane.session.about.get("token_hash")
        identity = self._damaged(name)
        return None if identity is None else self.store.about_of(identity).get("token_hash")

    def _damaged(self, name: str) -> str | None:
        """Return the id of a damaged stream, given that or its name."""
        damaged = self.store.damaged()
        return next((key for key in damaged if key == name or self.store.name_of(key) == name), None)

    async def create(self, wanted: CreateStream) -> tuple[Lane, str | None]:
        """Make a stream; the token, if one was wanted, is told this once."""
        self._room(wanted.name)
        self._making.add(wanted.name)
        try:
            method = method_of(wanted)
            about, task = await new_task(wanted, self.encoders, self.settings.views)
            task = await self._off(equipped, method, task)
            await self._off(check_size, method, wanted, task)
            token = new_token() if wanted.own_token else None
            if token is not None:
                about["token_hash"] = hashed(token)
            policy = wanted.policy or self.settings.policy
            guard = None if wanted.guard is None else Guard(**wanted.guard.model_dump())
            make = partial(self.store.create, wanted.name, task, method, about=about, guard=guard, policy=policy)
            return self._take(await self._off(make)), token
        finally:
            self._making.discard(wanted.name)

    async def import_(self, name: str, data: bytes) -> Lane:
        """Make a stream of an exported file."""
        self._room(name)
        self._making.add(name)
        try:
            with tempfile.TemporaryDirectory(prefix="cosmic-import-") as folder:
                file = Path(folder) / "stream"  # our own word, not the client's
                await self._off(file.write_bytes, data)
                lane = self._take(await self._off(self.store.import_, file, name))
        finally:
            self._making.discard(name)
        self.problems[name] = await self._problem(lane.session)
        return lane

    async def recover(self, identity: str) -> Lane:
        """Open a damaged stream with what comes before the damage, by its id or its name."""
        found = self._damaged(identity)
        if found is None:
            raise Refused(409, "there is no damaged stream of this id.", "GET /v1/streams lists the damaged ones.")
        session = await self._off(self.store.recover, found)
        lane = self._take(found)
        self.problems[session.name] = await self._problem(session)
        return lane

    async def export(self, lane: Lane) -> bytes:
        """Return a stream as one file; the hash of its own token goes along."""

        def write(session: Session) -> bytes:
            with tempfile.TemporaryDirectory(prefix="cosmic-export-") as folder:
                file = Path(folder) / "stream"
                session.export(file)
                return file.read_bytes()

        return await self._asked(lane, write)

    async def delete(self, name: str) -> None:
        """Remove a stream and its files; one that is damaged, also by its id."""
        damaged = None if name in self.lanes else self._damaged(name)
        if damaged is None:
            lane = self.lane(name)
            identity = lane.id
            del self.lanes[name]  # from here on it is unknown; what waits is seen through
            self.problems.pop(name, None)
            await lane.close(gone=True)
        else:
            identity = damaged
        try:
            await self._off(self.store.delete, identity)
        except CosmicError:
            if identity in self.store.sessions():  # the disk refused: it is still there
                self._take(identity)
            raise
        self.metrics.forget(name)
        self._tell(name, "deleted", None)

    async def predict(self, lane: Lane, asked: Asked, *, learn: bool, source: str | None) -> Answers:
        """Answer pictures or features; nothing is learned unless all of them can be."""
        with lane.admitted():
            samples, pixels = await self._samples(lane, asked)
            answers = await (lane.step(samples, source) if learn else lane.peek(samples))
        for one in answers.answered:
            self.metrics.steps.labels(lane.session.name, str(one.learned).lower()).inc()
        if learn:
            self._tell(lane.session.name, "step", answers)
            if pixels and self.shown is not None:
                self.shown(lane, answers, samples, pixels)
        return answers

    async def change(self, lane: Lane, what: str, call: Callable[[Session], T]) -> T:
        """Do something to a stream, in its turn."""
        result = await self._asked(lane, call)
        self._tell(lane.session.name, what, result)
        return result

    async def look(self, lane: Lane, call: Callable[[Session], T]) -> T:
        """Ask something of a stream, in its turn."""
        return await self._asked(lane, call)

    async def change_classes(self, lane: Lane, wanted: ChangeClasses) -> None:
        """Give a stream other classes; what was learned stays with the names that stay."""
        with lane.admitted():
            old, about = lane.session.task, lane.session.about
            task = await changed_task(old, about, wanted, self.encoders)

            def change(session: Session) -> None:
                if session.task.class_names != old.class_names:
                    raise Refused(409, "the stream's classes were changed by another request meanwhile.")
                session.change_classes(task, dict(wanted.rename))

            await lane.ask(change)
        self._tell(lane.session.name, "classes", list(task.class_names))

    def _room(self, name: str) -> None:
        self.require_ready()
        if name in self.lanes or name in self._making:
            raise Refused(409, f"there is a stream {name!r} already.", "Choose another name, or delete that one.")
        if len(self.lanes) + len(self._making) >= self.settings.streams:
            raise busy(f"this server holds at most {self.settings.streams} streams; delete one.", 60)

    def _take(self, identity: str) -> Lane:
        session = self.store.get(identity)
        queue, patience = self.settings.queue, self.settings.patience
        lane = Lane(identity, session, self._threads, queue=queue, patience=patience, reopen=self.store.reopen)
        lane.groups = self.metrics.groups.observe
        self.lanes[session.name] = lane
        return lane

    def _tell(self, name: str, what: str, result: Any) -> None:
        for listener in list(self.listeners):
            listener(name, what, result)

    async def _asked(self, lane: Lane, call: Callable[[Session], T]) -> T:
        with lane.admitted(spare=SPARE):
            return await lane.ask(call)

    async def _off(self, call: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *given)

    async def _samples(self, lane: Lane, asked: Asked) -> tuple[list[Sample], list[Pixels]]:
        """Return what is to be answered and, where it came as pictures, what the encoder saw of them."""
        if asked.samples:
            return asked.samples, []
        about = lane.session.about
        problem = self.problems.get(lane.session.name, "")
        if about.get("encoder") is None or problem:
            detail = problem or "this stream has no encoder: it takes features, not pictures."
            raise Refused(409 if problem else 422, detail, 'Send features: {"features": [{"clip": [...]}]}.')
        clip = await self.encoders.clip(about["encoder"])
        aux = None if about.get("aux") is None else await self.encoders.image(about["aux"])
        pictures = asked.pictures
        for place, url in enumerate(asked.urls):
            pictures = [*pictures, (f"picture {place}", await self._fetched(url))]
        recipe = Recipe(
            Views(about.get("views", 1), about.get("seed", 0)),
            clip.encoder.preprocessing,
            None if aux is None else aux.encoder.preprocessing,
            self.settings.max_pixels,
        )
        # All are awaited, also after the first refusal: none goes on alone.
        found = await asyncio.gather(
            *(self._sample(name, data, recipe, clip, aux) for name, data in pictures), return_exceptions=True
        )
        samples: list[Sample] = []
        pixels: list[Pixels] = []
        for one in found:
            if isinstance(one, BaseException):
                raise one
            samples.append(one[0])
            pixels.append(one[1])
        self.metrics.killed.set(self.decoders.killed)
        return samples, pixels

    async def _fetched(self, url: str) -> bytes:
        try:
            # The fetcher has a clock of its own; a name that is never answered has not.
            return await asyncio.wait_for(asyncio.to_thread(self.fetcher.fetch, url), 2 * self.settings.fetch_seconds)
        except TimeoutError:
            raise Refused(422, "fetching the picture took too long.") from None

    async def _sample(
        self, name: str, data: bytes, recipe: Recipe, clip: Batcher, aux: Batcher | None
    ) -> tuple[Sample, Pixels]:
        prepared = await self.decoders.decode(data, recipe, name)
        assert prepared.clip is not None
        return Sample(*await encoded(prepared, clip, aux)), prepared.clip[0]

    async def _problem(self, session: Session) -> str:
        """Load what a stream's pictures need; tell what is not there, or is not what it was made with."""
        about = session.about
        for key, get in (("encoder", self.encoders.clip), ("aux", self.encoders.image)):
            name = about.get(key)
            if name is None:
                continue
            try:
                batcher = await get(name)
            except CosmicError as error:
                return str(error)
            if batcher.encoder.fingerprint != about.get(f"{key}_fingerprint"):
                return (
                    f"the weights of {name} are not those that this stream was made with: fingerprint "
                    f"{about.get(f'{key}_fingerprint')!s:.16} there, {batcher.encoder.fingerprint:.16} here."
                )
        return ""
