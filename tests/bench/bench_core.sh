#!/usr/bin/env bash
# What the core's turns cost at full size.
set -euo pipefail
make --no-print-directory bench-turn
