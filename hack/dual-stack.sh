#!/usr/bin/env bash
# Tests elected pods and Services with IPv4 and IPv6, and compares them with plain pods. The script starts the clusters c1 and c2 with both, and takes them
# down at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
export KUBECONFIG=$PWD/.local/kubeconfig

if [[ -s $KUBECONFIG ]]; then
  echo "make test-dual-stack: the tests start clusters of their own. Take down those that run: .local/bin/clusters down" >&2
  exit 1
fi

finish() {
  local code=$?
  trap - EXIT
  .local/bin/clusters down c1 c2 || true
  exit "$code"
}
trap finish EXIT

.local/bin/clusters up c1 c2 --dual-stack
make deploy
failed=0
go test -tags e2e,dualstack -count=1 -run DualStack -v ./test/e2e || failed=1
go run ./test/conformance -short || failed=1
exit "$failed"
