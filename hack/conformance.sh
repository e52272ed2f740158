#!/usr/bin/env bash
# Compares elected pods with plain pods on the clusters c1 and c2 of this checkout. The arguments are those of
# test/conformance. The script starts clusters that do not run, with containerd 2, and takes them down at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
export KUBECONFIG=$PWD/.local/kubeconfig

ready() { .local/bin/kubectl --context "$1" get --raw /readyz --request-timeout=5s >/dev/null 2>&1; }

started=()
finish() {
  local code=$?
  trap - EXIT
  if [[ ${#started[@]} -gt 0 ]]; then
    .local/bin/clusters down "${started[@]}"
  fi
  exit "$code"
}
trap finish EXIT
for cluster in c1 c2; do
  ready "$cluster" || started+=("$cluster")
done
if [[ ${#started[@]} -gt 0 ]]; then
  .local/bin/clusters up "${started[@]}" --containerd2
fi
.local/bin/clusters up c1 c2 # Clusters that run may have an older test image.
.local/bin/clusters load .local/images/devices.tar c1 c2
make deploy
go run ./test/conformance "$@"
