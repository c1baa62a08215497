"""`adk-confirm api`: agents over ADK's HTTP API."""

from __future__ import annotations

import argparse
import os

from bot.commands.common import port_number
from runtime.rest.guard import TOKEN_VARIABLE, Guard
from runtime.rest.serve import Serving, serve_until_stopped
from runtime.target import load_agent

DEFAULT_STORE = "sqlite:///adk-confirm.db"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--agent",
        dest="agents",
        action="append",
        required=True,
        metavar="MODULE:NAME",
        help="an agent to serve, e.g. examples.oncall:agent; may be repeated",
    )
    parser.add_argument("--host", default="127.0.0.1", help=f"other machines reach it only with {TOKEN_VARIABLE} set")
    parser.add_argument("--port", type=port_number, default=8000, help="default: %(default)s; 0 takes a free one")
    parser.add_argument("--store", default=DEFAULT_STORE, metavar="URL", help="default: %(default)s")
    parser.add_argument(
        "--dialect", choices=("call", "response"), default="call", help="how requests are spoken; default: %(default)s"
    )
    parser.add_argument(
        "--shared-state",
        action="store_true",
        help="clients may write app: state although a bot on the same store uses it in Slack",
    )
    parser.add_argument(
        "--allow-origin",
        dest="origins",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="a page that may use the API from a browser, e.g. http://localhost:4200; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    guard = Guard.of(args.host, os.environ.get(TOKEN_VARIABLE), args.origins)
    agents = [load_agent(target) for target in args.agents]
    return serve_until_stopped(Serving(agents, guard, args.port, args.store, args.dialect, args.shared_state))
