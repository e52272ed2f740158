#!/usr/bin/env bash
# Builds an earlier version, for tests of upgrades: hack/earlier.sh COMMIT. It leaves in .local/earlier the tree of the
# commit, with its chart, and its kubectl-multicluster in bin. The archive of its image, with the tag "earlier", is
# .local/images/earlier.tar. It does nothing if all this is there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly where=.local/earlier archive=earlier.tar
commit=$(git rev-parse --verify "$1^{commit}")

if [[ $(cat $where/commit 2>/dev/null || true) == "$commit" && -f .local/images/$archive ]]; then
  exit 0
fi
rm -rf $where
mkdir -p $where/.local/image $where/bin
git archive "$commit" | tar -x -C $where
(
  cd $where
  export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath"
  flags="-s -w -X github.com/multicluster-scheduler/multicluster-scheduler/pkg/version.Version=$commit"
  go build -ldflags "$flags" -o .local/image/ ./cmd/multicluster-scheduler
  go build -ldflags "$flags" -o bin/ ./cmd/kubectl-multicluster
)
.local/bin/clusters image --context "$PWD/$where" --reference localhost/multicluster-scheduler:earlier \
  --archive $archive
echo "$commit" > $where/commit
