"""Routes of snapshots: create, list, delete, roll back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from cosmic_tta.service.routes.dependencies import Host, StreamPath
from cosmic_tta.service.routes.responses import STREAM_PROBLEMS, change_stream
from cosmic_tta.service.schemas import Acknowledgement, CreateSnapshot, RollBack, Snapshot, SnapshotList

router = APIRouter(prefix="/v1/streams/{stream}", tags=["snapshots"], responses=STREAM_PROBLEMS)


@router.post("/snapshots", status_code=201, summary="Create a snapshot")
async def create_snapshot(host: Host, stream: StreamPath, body: CreateSnapshot) -> Snapshot:
    """Write the state to disk. A snapshot with a note is kept until it is deleted."""
    made, _ = await host.change(host.queue(stream), "snapshot", lambda session: session.snapshot(body.note))
    return Snapshot(id=made.id, number=made.number, note=made.note)


@router.get("/snapshots", summary="List the snapshots")
async def list_snapshots(host: Host, stream: StreamPath) -> SnapshotList:
    """List the snapshots that the stream can return to, newest first."""
    found = await host.query(host.queue(stream), lambda session: session.snapshots())
    snapshots = [Snapshot(id=one.id, number=one.number, note=one.note) for one in found]
    return SnapshotList(stream=stream, snapshots=snapshots)


@router.delete("/snapshots/{snapshot}", summary="Delete a snapshot")
async def delete_snapshot(
    host: Host, stream: StreamPath, snapshot: Annotated[str, Path(max_length=20, description="Id of the snapshot.")]
) -> Acknowledgement:
    """Delete a snapshot, with or without a note. The newest one cannot be deleted."""
    return await change_stream(host, stream, "snapshot deleted", lambda session: session.drop_snapshot(snapshot))


@router.post("/roll-back", summary="Return to a snapshot")
async def roll_back(host: Host, stream: StreamPath, body: RollBack) -> Acknowledgement:
    """Return to the state of a snapshot. Later events stay in the journal, without effect."""
    return await change_stream(host, stream, "rolled back", lambda session: session.roll_back(body.snapshot))
