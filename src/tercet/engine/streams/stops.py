"""Emergency stops of a tool, a pack or a whole tenant.

Stops have their own stream. Writing one raises the tenant's change counter, which every append of a run returns. So a run
that has written the INTENT of a call knows of a stop before it makes the call, without an extra read.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from tercet.contracts.errors import UsageError
from tercet.contracts.values.plain import storable
from tercet.engine.personal.keys import STOP_NOTES, has_keys, use_key
from tercet.engine.personal.reveal import Revealer
from tercet.engine.personal.sealing import demand_cryptography, seal
from tercet.journal.protocol import Journal
from tercet.journal.side_stream import append_at, encode_entry, read_all

STREAM = "stops"

StopKind: TypeAlias = Literal["tool", "pack", "tenant"]


def demand_kind(kind: str) -> None:
    """Raise `UsageError` for an unknown kind, which readers would take for a stop of everything."""
    if kind not in get_args(StopKind):
        raise UsageError(
            f"unknown kind of stop {kind!r}",
            code="wrong_kind",
            remedy=f"stop one of {', '.join(get_args(StopKind))}",
        )


def demand_name(name: str) -> None:
    """Raise `UsageError` for a name that no tool, pack or tenant can have."""
    if not name.strip() or not name.isprintable():
        raise UsageError(
            f"{name!r} cannot be the name of a tool, a pack or a tenant",
            code="usage",
            remedy="name what is to be stopped, without control characters",
        )


class Stop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An order not to call a tool, or any tool of a pack or tenant, until it is lifted."""

    kind: StopKind
    name: str
    """The tool, the pack's name without its version, or the tenant."""
    by: str
    at: int
    note: str = ""
    is_lifted: bool = False
    simulated_by: str = ""
    """The login of the person who acted as `by` in development mode; empty otherwise."""
    key: str = ""
    """The key of the call that wrote it, by which a repeat is recognised; empty if the call had none."""

    @property
    def reason(self) -> str:
        """The reason that stopped runs record."""
        return f"emergency stop of {self.kind} {self.name} by {self.by}: {self.note}".rstrip(": ")


_decode = msgspec.json.Decoder(Stop).decode


def read(data: bytes, tenant: str) -> Stop:
    """Decode a stop. One that cannot be decoded, such as a newer version's, could name anything, so it counts as a stop of
    the tenant until that is lifted."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        note = (
            f"it cannot be read here ({storable(str(error))}); upgrade Tercet, or lift the stop of the tenant"
        )
        return Stop(kind="tenant", name=tenant, by="somebody", at=0, note=note)


class EmergencyStops:
    """The stops of a tenant as known to this process, for runs of one pack."""

    def __init__(self, journal: Journal, tenant: str, pack: str) -> None:
        self._journal = journal
        self._tenant = tenant
        self._pack = pack
        self._change_count = -1
        self._position = 0
        self._stops: dict[tuple[str, str], Stop] = {}

    async def refresh(self, change_count: int | None = None) -> None:
        """Read the stops written since the last refresh, unless the change counter shows that there are none."""
        if change_count is not None and change_count <= self._change_count:
            return
        latest = await self._journal.change_count(self._tenant)
        for stored in await read_all(self._journal, self._tenant, STREAM, after=self._position):
            if stored.seq > self._position:  # a concurrent refresh may have read further
                stop = read(stored.data, self._tenant)
                self._stops[stop.kind, stop.name] = stop
                self._position = stored.seq
        self._change_count = max(self._change_count, latest)

    def stopped(self, tool: str) -> Stop | None:
        """Return the stop that applies to a tool of this pack; None if there is none."""
        if not self._stops:
            return None
        names = (("tool", tool), ("pack", self._pack), ("tenant", self._tenant))
        found = (self._stops.get(name) for name in names)
        return next((stop for stop in found if stop is not None and not stop.is_lifted), None)

    def active(self) -> tuple[Stop, ...]:
        """Every stop that has not been lifted."""
        return tuple(stop for stop in self._stops.values() if not stop.is_lifted)

    async def shown(self) -> list[Stop]:
        """Return the active stops with their notes as they were written."""
        revealer = Revealer(self._journal, self._tenant, STOP_NOTES)
        return [await revealer.reveal_struct(stop) for stop in self.active()]

    async def write(self, stop: Stop) -> Stop:
        """Write a stop or its end, and raise the change counter; return what an earlier call with the same key wrote. Raises
        `UsageError` if there is nothing to lift.

        Where the tenant has sealed values, the note is sealed too, under a key that every erasure destroys."""
        if stop.note and await has_keys(self._journal, self._tenant):
            demand_cryptography()
            key = await use_key(self._journal, self._tenant, STOP_NOTES, STOP_NOTES)
            stop = msgspec.structs.replace(stop, note=seal(key, self._tenant, stop.note))
        data = encode_entry(stop, self._tenant, STREAM)
        while True:
            await self.refresh()
            if stop.key and (written := await self._written_by(stop.key)) is not None:
                return written
            standing = self._stops.get((stop.kind, stop.name))
            if stop.is_lifted and (standing is None or standing.is_lifted):
                raise UsageError(
                    f"{stop.kind} {stop.name} is not stopped",
                    code="not_stopped",
                    remedy="tercet stop list shows the active stops",
                )
            if await append_at(self._journal, self._tenant, STREAM, self._position, data, notify=True):
                await self.refresh()
                return stop
            # Otherwise another stop was written at the same moment.

    async def _written_by(self, key: str) -> Stop | None:
        """Return the stop that a call with this key has written, as far as this process has read."""
        for stored in await read_all(self._journal, self._tenant, STREAM):
            stop = read(stored.data, self._tenant)
            if stop.key == key and stored.seq <= self._position:
                return stop
        return None
