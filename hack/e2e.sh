#!/usr/bin/env bash
# Runs the end-to-end tests on the clusters of this checkout. The tests of three clusters run last. The script deploys
# the current build to clusters that run already, and keeps them running. It starts the other clusters, and takes them
# down at the end, also after a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly clusters=(c1 c2)
readonly log=.local/e2e.log
export KUBECONFIG=$PWD/.local/kubeconfig

# Also keeps what the tests print, for the end.
logged() { "$@" 2>&1 | tee -a "$log"; }

ready() { .local/bin/kubectl --context "$1" get --raw /readyz --request-timeout=5s >/dev/null 2>&1; }

report() {
  echo "==> the tests failed. The state of the clusters:"
  for cluster in "${clusters[@]}"; do
    ready "$cluster" || { echo "$cluster does not answer"; continue; }
    echo "--- $cluster"
    .local/bin/kubectl --context "$cluster" get nodes,clustertargets -o wide || true
    .local/bin/kubectl --context "$cluster" get pods,podchaperons -A -o wide || true
    .local/bin/kubectl --context "$cluster" -n admiralty logs -l app.kubernetes.io/instance=multicluster-scheduler \
      --prefix --tail=60 || true
  done
}

started=()
finish() {
  local code=$?
  trap - EXIT
  [[ $code -eq 0 ]] || report || true
  if [[ " ${started[*]} " == *" c3 "* ]] && ready c1; then
    .local/bin/kubectl --context c1 delete clustertarget c3 --ignore-not-found --timeout=60s || true
  fi
  if [[ ${#started[@]} -gt 0 ]]; then
    .local/bin/clusters down "${started[@]}"
  fi
  if ready c1 && ready c2; then
    .local/bin/clusters up c1 c2 --fake-nodes 0
  fi
  [[ $code -eq 0 ]] || hack/failures.sh "$log"
  exit "$code"
}
contexts=$(.local/bin/kubectl config get-contexts -o name 2>/dev/null || true)
others=$(grep -vxF "$(printf '%s\n' "${clusters[@]}")" <<< "$contexts" || true)
if [[ -n $others ]]; then
  echo "make test-e2e: the tests need the clusters ${clusters[*]} and no others. Take down the others:" \
    ".local/bin/clusters down ${others//$'\n'/ }" >&2
  exit 1
fi

mkdir -p .local
: > "$log"
trap finish EXIT
for cluster in "${clusters[@]}"; do
  ready "$cluster" || started+=("$cluster")
done
if [[ ${#started[@]} -gt 0 ]]; then
  .local/bin/clusters up "${started[@]}"
fi
make deploy
tags=e2e timeout=120m
if [[ -n ${E2E_LONG:-} ]]; then
  tags=e2e,long timeout=180m
fi
logged go test -race -vet=off -tags "$tags" -count=1 -v -timeout "$timeout" ./test/e2e/...

if [[ -z ${E2E_LONG:-} ]]; then
  echo "==> faults, drawn from a seed"
  logged go run ./test/faults -short
  echo "==> elected pods beside plain pods, in a short form"
  logged go run ./test/conformance -short
fi

echo "==> with a third cluster, and simulated nodes for many pods"
started+=(c3)
.local/bin/clusters up c1 c2 c3 --fake-nodes 2 # The clusters are equal, so that the scheduler spreads pods over all.
make deploy
logged go test -race -vet=off -tags "$tags,three" -run '^TestFollowing' -count=1 -v -timeout 60m ./test/e2e
