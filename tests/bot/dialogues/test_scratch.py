from __future__ import annotations
import pytest
from tests.support.office import LAB, ONE, PAY, Office, Opens, config

def policy(approvers: str = '"group:S0ONCALL"', more: str = "", when: str = "", tools: str = "*") -> str:
    condition = f'when = "{when}"\n' if when else ""
    return f'[[policy]]\ntools = ["{tools}"]\n{condition}approvers = [{approvers}]\n{more}\n'

@pytest.mark.office(policy(more="quorum = 2"), target=LAB)
async def test_home(at: Office) -> None:
    card = await at.ask(PAY)
    await at.bob.clicks(card, "Approve"); await at.rests()
    await at.denies(at.cyd, at.cyd.now(card), "no")
    await at.rests()
    print(await at.bob.opens_home(""))
    print(await at.cyd.opens_home(""))

@pytest.mark.office(policy(), target=LAB)
async def test_home2(at: Office) -> None:
    card = await at.bob.finds("Migrate", at.deploys, thread=await at.ann.says('@adk-confirm migrate {"table": "users"}', at.deploys))
    await at.edits(at.bob, card, table="orders"); await at.rests()
    await at.cyd.clicks(at.cyd.now(card), "Approve"); await at.rests()
    print(at.bob.now(card))
    print(await at.bob.opens_home(""))
    print(await at.cyd.opens_home(""))
