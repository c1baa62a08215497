"""An agent of the OpenAI Agents SDK whose approvals are given at the door. The SDK runs no edited calls, so let the
policy say `edit = false`."""

import asyncio
import json
from typing import Any

from agents import Agent, Runner, function_tool

from adk_confirm.examples.door.caller import Approved, NotApproved, approved


@function_tool(needs_approval=True)  # type: ignore[untyped-decorator]  # where the SDK is not installed
def deploy(env: str) -> str:
    """Deploys the newest version."""
    return f"deployed to {env}"


def agent(model: Any) -> Agent[Any]:
    return Agent("Deployer", instructions="You deploy what people ask for.", tools=[deploy], model=model)


async def run(model: Any, words: str) -> str:
    """Runs the agent, and asks people about each tool that needs an approval."""
    it = agent(model)
    result = await Runner.run(it, words)
    while result.interruptions:
        state, given = result.to_state(), list[Approved]()
        for item in result.interruptions:
            arguments = json.loads(item.arguments or "{}")
            try:
                one = await asyncio.to_thread(approved, item.name or "", arguments)
            except NotApproved as no:
                state.reject(item, rejection_message=str(no))
                continue
            if one.arguments == arguments:
                given.append(one)
                state.approve(item)
            else:
                await asyncio.to_thread(one.report, done=False, why="the SDK can't run an edited call")
                state.reject(item, rejection_message=f"People want it otherwise: {json.dumps(one.arguments)}")
        result = await Runner.run(it, state)
        for one in given:
            await asyncio.to_thread(one.report, done=True)
    return str(result.final_output)
