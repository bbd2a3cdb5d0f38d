#!/usr/bin/env bash
# Copyright The cluster-api-provider-remedy Authors.
# SPDX-License-Identifier: Apache-2.0

# Ends a demo by Ctrl-C: once in the middle, and once with KEEP=1, after the commands that it prints for another terminal. Verifies that
# these work, and that no process and no file is left.
# usage: demo-kept.sh demo|demo-nodes
set -euo pipefail
cd "$(dirname "$0")/.."

target=$1
case $target in
  demo) last='kubectl get rmhc workers -o yaml' shows=(OBJECT machinehealthcheck.remedy maxUnhealthy Machine:) ;;
  demo-nodes) last='kubectl describe rnhc workers' shows=(worker-1 nodehealthcheck Events:) ;;
  *)
    echo "demo-kept: there is no demo $target: write demo or demo-nodes"
    exit 2
    ;;
esac

work=$(mktemp -d)
demo=
trap '[ -z "$demo" ] || { kill -INT -- "-$demo" && wait "$demo"; } 2>/dev/null || true; rm -rf "$work"' EXIT
log=$work/log
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
# Each background job is a process group of its own, as in a terminal, where Ctrl-C is sent to all processes of the group.
set -m

fail() {
  cat "$log"
  echo "demo-kept: $1"
  exit 1
}

# start runs the demo until its output has a text.
start() {
  make --no-print-directory "$target" "${@:2}" >"$log" 2>&1 &
  demo=$!
  until grep -qF -- "$1" "$log"; do
    kill -0 "$demo" 2>/dev/null || fail "the demo ended before it printed: $1"
    sleep 0.2
  done
}

# interrupt is Ctrl-C. The output must have a text then.
interrupt() {
  kill -INT -- "-$demo"
  { wait "$demo" || true; } 2>/dev/null
  demo=
  grep -qF -- "$1" "$log" || fail "after Ctrl-C, the demo did not print: $1"
  if pgrep -f -- "$TMPDIR" >&2; then fail "these processes are left"; fi
  [ -z "$(ls -A "$TMPDIR")" ] || fail "files are left: $(find "$TMPDIR")"
}

start '$ kubectl'
interrupt 'Interrupted. Everything that was started has been stopped.'

start "  $last" KEEP=1
sed -n '/^Everything keeps running/,$p' "$log" | grep '^  ' >"$work/commands"
shell='bash'
if [ "$target" = demo ]; then
  # The first line is a shell in the network namespace of the demo, and NAME is for the user to replace.
  shell=$(sed -n 1p "$work/commands")
  sed -i 1d "$work/commands"
  machine=$(echo 'kubectl get machines -o name' | eval "$shell" | sed -n '1s|.*/||p') || fail "kubectl does not list Machines: $shell"
  sed -i "s|machine/NAME|machine/$machine|" "$work/commands"
fi
eval "$shell -eu" <"$work/commands" >"$work/shown" 2>&1 || fail "these commands do not work: $(cat "$work/commands" "$work/shown")"
for shown in "${shows[@]}"; do
  grep -qF "$shown" "$work/shown" || fail "the commands do not show $shown: $(cat "$work/shown")"
done
interrupt 'Everything that was started has been stopped.'
echo "The demo ends by Ctrl-C, and nothing is left of it."
