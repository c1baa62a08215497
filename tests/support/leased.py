"""A lease for whoever writes as a worker does: on a row of its own, which nobody else wants."""

from __future__ import annotations

from sqlalchemy import insert

from bot.store.tables import homes
from runtime.store.database import Database, Tx
from runtime.store.lease import Lease, try_lease


async def a_lease(database: Database, key: str = "a lease") -> Lease:
    def put_there(tx: Tx) -> None:
        tx.execute(insert(homes).values(key=key, team="T", user_id="U", opened_at=0, looked_at=0, version=0))

    await database.run(put_there)
    lease = await try_lease(database, homes, homes.c.key == key, term=3600.0)
    assert lease is not None
    return lease
