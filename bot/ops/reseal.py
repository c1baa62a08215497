"""`adk-confirm reseal`: the last step of changing the secret."""

from __future__ import annotations

import click

from adk_confirm.bot.ops.audit_verify import verification_results, verified
from adk_confirm.bot.ops.command import CommandLine, options, progress
from adk_confirm.bot.store.reseal import SEALED, count_sealed, cover_chains, reseal_page
from adk_confirm.runtime.errors import Conflict, Invalid


@click.command()
@options(json=True)
async def reseal(call: CommandLine) -> None:
    """Seal everything with the new secret, so that the old one can go.

    It works beside the service, and may be stopped and run again at any time.
    """
    environment = call.settings.environment
    if environment.accepted_secret is None:
        raise Invalid(
            "Set ADK_CONFIRM_SECRET to the new secret, and ADK_CONFIRM_SECRET_ACCEPTED to the old one. Nothing "
            "was done."
        )
    key = environment.signer
    async with call.changing() as database:
        report = await verified(call, database)
        if report.broken is not None:  # what was cut off would be forgotten: new checkpoints cover only what is there
            raise Conflict(f"{next(verification_results(report))}. Find out why first; nothing was done.")
        anew = 0
        with progress("Sealing", await database.read(count_sealed)) as more:
            for table in SEALED:
                after, left = None, True
                while left:
                    looked, sealed, after = await database.run(reseal_page, table, after)
                    more(looked)
                    anew, left = anew + sealed, after is not None
        made, unsealed = await database.run(cover_chains, key, None, None)
        first = made.number
        while unsealed:
            made, unsealed = await database.run(cover_chains, key, max(made.heads), first)
    line = made.publish(call.seal, key)
    call.tell(
        {"sealed_anew": anew, "checkpoint": line},
        f"Everything is sealed with the new secret; {anew} rows were not yet.",
        "Remove ADK_CONFIRM_SECRET_ACCEPTED, and restart. If a replica ran with the old secret until now, run "
        "this once more first.",
        "From now on an anchor begins with this line. Earlier ones can be checked only with the old secret:",
        f"  {line}",
    )
