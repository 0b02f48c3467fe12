#!/usr/bin/env bash
# How long placing takes at full size, and what placements are worth beside those of simpler ways.
set -euo pipefail
make --no-print-directory bench-placement
