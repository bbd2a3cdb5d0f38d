#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Reports which go.mod is not tidy. With FIX=1, it changes them.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while IFS= read -r mod; do
  dir=$(dirname "$mod")
  if [[ -n "${FIX:-}" ]]; then
    (cd "$dir" && GOFLAGS=-mod=mod go mod tidy)
  elif ! (cd "$dir" && GOFLAGS=-mod=mod go mod tidy -diff); then
    echo "not tidy: run 'make tidy FIX=1'"
    status=1
  fi
done < <(git ls-files --cached --others --exclude-standard -- 'go.mod' '*/go.mod')
exit $status
