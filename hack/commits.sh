#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Checks the subjects of the commits since a base, which an argument can replace: `area: imperative summary` with one area in lower case, at most
# 72 characters, no full stop.
# Without the history since the base, for instance in a shallow clone, it prints so and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-10b89098a147905c679ee30845348976501c8bf5}
max=72

if [ ! -e .git ]; then
  echo "commit subjects are not checked: this is not a git checkout"
  exit 0
fi
if ! git merge-base --is-ancestor "$base" HEAD 2>/dev/null; then
  echo "commit subjects are not checked: this clone does not have the history since ${base:0:7}"
  exit 0
fi

area='[a-z0-9./-]+'
status=0
reject() { echo "commit ${1:0:7} \"$2\": $3"; status=1; }
while read -r hash subject; do
  summary=${subject#*: } first=${subject#*: }
  first=${first%% *}
  if [[ ! $subject =~ ^$area:\ [^\ ] ]]; then
    reject "$hash" "$subject" "write \`area: imperative summary\` with one area in lower case, for example \`requests: retry listing after RBAC is restored\`"
  elif [[ $summary =~ ^(fixup|squash|amend)! ]]; then
    reject "$hash" "$subject" "squash it"
  elif [[ $first =~ ^[a-z]+([a-z]ed|ing|[^su]s)$ && ! $first =~ ^(bring|embed|feed|need|seed|speed)$ ]]; then
    reject "$hash" "$subject" "write \"$first\" as an imperative"
  fi
  if [ ${#subject} -gt $max ]; then reject "$hash" "$subject" "${#subject} characters, at most $max are allowed"; fi
  if [[ $subject == *. ]]; then reject "$hash" "$subject" "remove the full stop"; fi
done < <(git log --no-merges --format='%H %s' "$base..HEAD")
exit $status
