#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates everything (the tools are in bin/ by now) in a copy of the working tree and compares, so that neither the index nor uncommitted work is touched.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  # A file that was removed and not committed yet is listed, too.
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi
done | tar --null -T - -cf - | tar -xf - -C "$copy"
# The generators are built already; in the copy they must not look older than their go.mod.
mkdir "$copy/bin"
cp bin/* "$copy/bin/"
make --no-print-directory -s -C "$copy" generate
rm -rf "$copy/bin"
changed=0
while IFS= read -r file; do
  if ! diff -u "$file" "$copy/$file" 2>/dev/null; then changed=1; echo "out of date: $file"; fi
done < <(cd "$copy" && find . -type f | sed 's|^\./||' | sort)
if [ "$changed" = 1 ]; then
  echo "Generated files do not match their sources: run 'make generate' and commit the result."
  exit 1
fi
