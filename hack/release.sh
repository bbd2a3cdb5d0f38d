#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes what a release consists of: release.sh <folder> [version]. Without a version the image stays the development one.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: release.sh <folder> [version]}
version=${2:-}
if [ -n "$version" ] && ! [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  echo "VERSION=$version is no version: give one such as v0.1.0" >&2
  exit 1
fi
# clusterctl refuses a version whose series metadata.yaml does not list.
if [ -n "$version" ]; then
  series=${version#v}; major=${series%%.*}; minor=${series#*.}; minor=${minor%%.*}
  if ! grep -A1 "^- major: $major$" metadata.yaml | grep -q "^  minor: $minor$"; then
    echo "VERSION=$version: metadata.yaml has no release series $major.$minor; add it, with its contract" >&2
    exit 1
  fi
fi
make --no-print-directory -s bin/kustomize >&2
mkdir -p "$out"
for part in default:infrastructure-components addon:addon-components fencing:fencing-components; do
  bin/kustomize build "config/${part%%:*}" | sed -E "s|^( *image: [^ ]+):dev$|\1:${version:-dev}|" > "$out/${part##*:}.yaml.new"
  # A file is there whole or not at all.
  mv "$out/${part##*:}.yaml.new" "$out/${part##*:}.yaml"
done
cp metadata.yaml "$out/metadata.yaml"
