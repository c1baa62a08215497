"""A LangGraph graph whose interrupt is decided at the door."""

from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from adk_confirm.examples.door.caller import Approved, NotApproved, approved


class State(TypedDict):
    args: dict[str, Any]
    said: str


def deploy(state: State) -> dict[str, Any]:
    """A node that asks before it deploys, in the form of LangChain's human-in-the-loop middleware."""
    asked = {"action_requests": [{"name": "deploy", "args": state["args"], "description": "The nightly deployment"}]}
    decision = interrupt(asked)["decisions"][0]
    if decision["type"] == "reject":
        return {"said": f"not deployed: {decision['message']}"}
    args = decision["edited_action"]["args"] if decision["type"] == "edit" else state["args"]
    return {"args": args, "said": f"deployed to {args['env']}"}


def graph() -> Any:
    built = StateGraph(State)
    built.add_node("deploy", deploy)
    built.add_edge(START, "deploy")
    built.add_edge("deploy", END)
    return built.compile(checkpointer=InMemorySaver())


def run(args: dict[str, Any]) -> str:
    """Runs the graph, and asks people at each interrupt."""
    it, config = graph(), {"configurable": {"thread_id": "1"}}
    result = it.invoke({"args": args, "said": ""}, config)
    while "__interrupt__" in result:
        given: list[Approved] = []
        decisions = [_decide(action, given) for action in result["__interrupt__"][0].value["action_requests"]]
        result = it.invoke(Command(resume={"decisions": decisions}), config)
        for one in given:
            one.report(done=True, said=result["said"])
    return str(result["said"])


def _decide(action: dict[str, Any], given: list[Approved]) -> dict[str, Any]:
    try:
        one = approved(action["name"], action["args"], action.get("description", ""))
    except NotApproved as no:
        return {"type": "reject", "message": str(no)}
    given.append(one)
    if one.arguments == action["args"]:
        return {"type": "approve"}
    return {"type": "edit", "edited_action": {"name": action["name"], "args": one.arguments}}
