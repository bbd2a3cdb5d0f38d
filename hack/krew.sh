#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Packs the plugins of a release for krew, and writes their manifest: krew.sh <folder with plugins> <version>.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: krew.sh <folder> <version>} version=${2:?usage: krew.sh <folder> <version>}
# The page for users has the address of releases.
releases=$(sed -n 's|^ *url: \(.*/releases\)/latest/.*|\1|p' docs/install.md)
homepage=${releases%/releases}
manifest=$out/remedy.yaml

cat >"$manifest.new" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: remedy
spec:
  version: $version
  homepage: $homepage
  shortDescription: Explain why a Node is (not) being remediated
  description: |
    Explains why a Machine or Node of a Cluster API workload cluster is (not) being remediated by
    cluster-api-provider-remedy, and when it will be. Lists the checks that need attention, releases
    MachineHealthChecks to Cluster API's controller, and uninstalls Remedy.
  platforms:
END
for plugin in "$out"/kubectl-remedy-*-*; do
  case $plugin in *.tar.gz) continue ;; esac
  platform=$(basename "${plugin%.exe}")
  platform=${platform#kubectl-remedy-}
  program=kubectl-remedy
  case $plugin in *.exe) program=kubectl-remedy.exe ;; esac
  folder=$(mktemp -d)
  cp "$plugin" "$folder/$program"
  cp LICENSE "$folder/"
  archive=kubectl-remedy-$platform.tar.gz
  tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "$program" LICENSE | gzip -n >"$out/$archive"
  rm -r "$folder"
  cat >>"$manifest.new" <<END
  - selector:
      matchLabels:
        os: ${platform%-*}
        arch: ${platform#*-}
    uri: $releases/download/$version/$archive
    sha256: $(sha256sum "$out/$archive" | cut -d' ' -f1)
    bin: $program
END
done
mv "$manifest.new" "$manifest"
