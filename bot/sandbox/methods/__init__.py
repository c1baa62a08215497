"""The Web API's methods, by family; each module maps Slack's method names to functions of one call."""
