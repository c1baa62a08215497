"""The Web API's methods, by family. Each module maps Slack's method names to functions of one call."""
