#!/usr/bin/env bash
# Generated files equal what their generators make now. Without npm the front end cannot be rebuilt, and we say so.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v npm >/dev/null; then
    echo "generated files: the page was not compared, since npm is not installed"
    exit 0
fi
make --silent web/node_modules/.ready
cd web
PATH="$(cd .. && pwd)/.venv/bin:$PATH" npm run --silent verify
npm run --silent check
npm run --silent test
echo "generated files: up to date"
