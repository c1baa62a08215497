#!/bin/sh
# Deploys once people have approved it, with the arguments that they approved.
set -eu
exec adk-confirm ask --tool deploy --args "{\"env\": \"$1\"}" --reason "Asked for by $(id -un)" \
    --exec -- sh -c 'echo "deployed to $ADK_CONFIRM_ARG_env"'
