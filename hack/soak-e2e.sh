#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Runs each scenario of 'make e2e' alone ten times, then all of them together twice. JOBS is how many scenarios run at the same time, each in a
# process and a world of its own. Each part adds a line to soak-e2e.txt, and a log to out/soak-e2e. Parts that have passed at this commit are
# left out, so an interrupted run continues; with uncommitted changes, all of them run.
# usage: soak-e2e.sh [SCENARIOS], in test/world
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
scenarios=${1:-}
jobs=${JOBS:-1}
binary=$root/bin/world.test
record=$root/soak-e2e.txt
logs=$root/out/soak-e2e
commit=$(git describe --always --dirty --exclude='*')
export FULL=1
mkdir -p "$logs"
rm -f "$logs/failed"
touch "$record"

part() {
  local name=$1 log=$logs/${1//[^A-Za-z0-9_]/-}.log began=$SECONDS result=passed
  shift
  if [[ $commit != *-dirty ]] && grep -qF " $commit passed " <(grep -F ": $name" "$record"); then
    echo "$name: passed before"
    return
  fi
  "$binary" "$@" >"$log" 2>&1 || result=FAILED
  echo "$(date -u '+%F %R') $commit $result $(((SECONDS - began) / 60)) min: $name" | tee -a "$record"
  if [ "$result" = FAILED ]; then
    grep -E '^ *--- FAIL|^panic:' "$log" || true
    echo "$name: the log is $log" | tee -a "$logs/failed"
  fi
}

names=$("$binary" -test.list "${scenarios:-.}" | grep '^Test') || { echo "no scenario has a name that matches SCENARIOS=$scenarios"; exit 1; }
for name in $names; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do sleep 1; done
  part "$name alone, ten times" -test.count=10 -test.timeout 180m -test.run "^$name\$" &
done
wait
for round in 1 2; do
  part "${scenarios:-all} together, round $round" -test.timeout 60m ${scenarios:+-test.run "$scenarios"}
done
[ ! -e "$logs/failed" ]
