#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Says which go.mod is not tidy, and how to mend it. Changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
while IFS= read -r mod; do
  dir=$(dirname "$mod")
  if ! (cd "$dir" && GOFLAGS=-mod=mod go mod tidy -diff); then
    echo "not tidy: run 'go mod tidy' in $dir"
    status=1
  fi
done < <(git ls-files --cached --others --exclude-standard -- 'go.mod' '*/go.mod')
exit $status
