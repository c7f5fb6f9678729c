#!/usr/bin/env bash
# Generated files equal what their generators make now. Without npm the front end cannot be rebuilt, and we say so.
set -euo pipefail
cd "$(dirname "$0")/.."

built=src/headscope/app/static
if [ -z "$(git ls-files "$built")" ]; then
    echo "generated files: none yet"
elif ! command -v npm >/dev/null; then
    echo "generated files: not compared, since npm is not installed"
else
    fingerprint() { find "$built" -type f -print0 | sort -z | xargs -0 sha256sum; }
    before=$(fingerprint)
    make --silent web
    if [ "$before" != "$(fingerprint)" ]; then
        echo "generated files: $built differs from what 'make web' builds; commit the result" >&2
        exit 1
    fi
    echo "generated files: up to date"
fi
