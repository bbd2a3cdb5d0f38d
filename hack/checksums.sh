#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes the checksums of all files of a release: checksums.sh <folder>.
set -euo pipefail
cd "${1:?usage: checksums.sh <folder>}"
rm -f checksums.txt
files=(*)
sha256sum "${files[@]}" >.checksums.new
# A file is there whole or not at all.
mv .checksums.new checksums.txt
