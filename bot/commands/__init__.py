"""One module per subcommand of `adk-confirm`; `bot.cli` has the table of them."""
