// Copyright The cluster-api-provider-remedy Authors.
// SPDX-License-Identifier: Apache-2.0

package jobs

// script runs a fence agent, which is $0, with parameters on standard input, because an agent with arguments does not read it. The
// arguments of the script are keys of the Secret. Values are only in variables that are not exported, and no other program than the agent
// gets them.
//
// The Secret comes first and the action last, because an agent uses the last value of a parameter, and reboots without an action.
//
// An agent's standard output is the termination message, which has its answer. Its standard error is the log. An agent logs a whole line of
// its input if it does not have the parameter, so the log is cut before the value.
//
// The kubelet replaces variables in a command: "$(" must not be followed by the name of one, and "$$" must not be used.
const script = `unset input value code
fail() { printf '%s\n' "$1" >&2; exit 1; }
newline='
'
input=
for key in "$@"; do
  value=$(cat "$REMEDY_DIR/secrets/$key") || fail "key $key of the Secret is missing"
  case $value in
  *[[:cntrl:]]*|' '*|*' '|'"'*'"')
    fail "key $key of the Secret has more than one line, control characters, or blanks or quotes around it" ;;
  esac
  input=$input$key=$value$newline
done
value=$(cat "$REMEDY_DIR/parameters") || fail "the parameters are missing"
case $newline$value in
*"$newline"action=on|*"$newline"action=off|*"$newline"action=status) ;;
*) fail "the parameters have no action" ;;
esac
log() {
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
    *'Ignoring unknown option'*=*) line=${line%%=*} ;;
    *'Ignoring unknown option'*) line=${line%%'unknown option'*} ;;
    esac
    printf '%s\n' "$line"
  done >&2
}
exec 5>"${REMEDY_TERMINATION_LOG:-/dev/termination-log}"
code=$({ { printf '%s%s\n' "$input" "$value" | "$0" >&5 2>&3 3>&- 4>&- 5>&-; printf '%s' "$?" >&4; } 3>&1 | log 3>&- 4>&- 5>&-; } 4>&1)
exit "${code:-125}"
`
