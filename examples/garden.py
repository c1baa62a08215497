"""A first agent of your own, as in the README. Its model is a script, so it needs no key."""

from adk_confirm import Agent, FunctionCall, FunctionTool, ModelRequest, ScriptedModel, call


def water(plant: str, liters: float) -> dict[str, object]:
    """Waters a plant."""
    return {"watered": plant, "liters": liters}


def reply(request: ModelRequest) -> str | FunctionCall:
    """What the model says next: it waters, then tells what came of it."""
    results = [answer.response for answer in request.contents[-1].responses()]
    return f"The tool said: {results[0]}" if results else call("water", plant="fern", liters=3)


agent = Agent(
    name="gardener",
    model=ScriptedModel(reply=reply),  # later: "gemini-2.5-flash"
    tools=[FunctionTool(water, require_confirmation=True, title="Water the {plant} with {liters} l")],
)
