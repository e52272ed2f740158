#!/usr/bin/env bash
# Breaks the clusters c1 and c2 of this checkout at random, and checks what the product makes of it. The arguments are
# those of test/faults. The script starts clusters that do not run, and takes them down at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
export KUBECONFIG=$PWD/.local/kubeconfig

ready() { .local/bin/kubectl --context "$1" get --raw /readyz --request-timeout=5s >/dev/null 2>&1; }

started=()
finish() {
  local code=$?
  trap - EXIT
  if [[ ${#started[@]} -gt 0 && ($code -eq 0 || -z ${KEEP:-}) ]]; then
    .local/bin/clusters down "${started[@]}"
  fi
  exit "$code"
}
trap finish EXIT
for cluster in c1 c2; do
  ready "$cluster" || started+=("$cluster")
done
if [[ ${#started[@]} -gt 0 ]]; then
  .local/bin/clusters up "${started[@]}"
fi
make deploy
go run ./test/faults "$@"
