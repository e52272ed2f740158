#!/usr/bin/env bash
# Checks that generated code, formatting and go.mod files are up to date. It regenerates outdated generated files, ready
# to commit.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly generated=(api charts/multicluster-scheduler/crds)
status=0

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
cp -r --parents "${generated[@]}" "$before"
make generate manifests
for path in "${generated[@]}"; do
  if ! diff -ru "$before/$path" "$path"; then
    echo "make verify: $path was out of date and is now regenerated: commit it." >&2
    status=1
  fi
done

unformatted=$(find . -name '*.go' -not -path './.local/*' -not -path './.git/*' -exec gofmt -l {} +)
if [[ -n $unformatted ]]; then
  echo "make verify: gofmt would change these files; run gofmt -w on them:" >&2
  echo "$unformatted" >&2
  status=1
fi

# Modules that only pin and build other projects' programs are left out. Tidy go.mod files would list the dependencies
# of those programs' own tests, many of which cannot be downloaded. A missing dependency fails the build anyway.
for module in . hack/clusters; do
  if ! (cd "$module" && go mod tidy -diff); then
    echo "make verify: $module/go.mod is not tidy: run go mod tidy there." >&2
    status=1
  fi
done
exit $status
