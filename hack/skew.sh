#!/usr/bin/env bash
# Compares elected pods with plain pods where source and target have different minor versions of Kubernetes, both ways
# round, and writes the results into docs/compatibility.md. The arguments are those of test/conformance. The script
# starts the clusters c1 and c2, with containerd 2, and takes them down at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
export KUBECONFIG=$PWD/.local/kubeconfig

readonly older=1.36 newer=1.37
# Fields behind these gates are new in the newer version. See newerFields in test/conformance/newer.go.
readonly gates=EmptyDirVolumeMode=true,AtomicWriteVolumeUserFields=true,VolumeBindMountOptions=true,$(
  )H2CContainerProbe=true,GRPCContainerProbeTLS=true

if [[ -s $KUBECONFIG ]]; then
  echo "make test-skew: the tests start clusters of their own. Take down those that run: .local/bin/clusters down" >&2
  exit 1
fi

finish() {
  local code=$?
  trap - EXIT
  .local/bin/clusters down c1 c2 || true
  exit "$code"
}
trap finish EXIT

# start CLUSTER VERSION starts a cluster. Only the newer version knows the gates.
start() {
  local options=(--containerd2 --kubernetes "$1=$2")
  [[ $2 != "$newer" ]] || options+=(--feature-gates "$gates")
  .local/bin/clusters up "$1" "${options[@]}"
}

failed=0
for versions in "$newer $older" "$older $newer"; do
  read -r source target <<< "$versions"
  echo "==> source $source, target $target"
  start c1 "$source" # The first cluster that is started becomes the source.
  start c2 "$target"
  .local/bin/clusters load .local/images/devices.tar c1 c2
  make deploy
  go run ./test/conformance -skew .local/skew.json -report docs/compatibility.md "$@" || failed=1
  .local/bin/clusters down c1 c2
done
exit "$failed"
