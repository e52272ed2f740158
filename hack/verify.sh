#!/usr/bin/env bash
# Checks that generated code, formatting and go.mod files are up to date. It regenerates files that are out of date, so
# that they can be committed.
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
    echo "make verify: $path was out of date. It is regenerated now: commit it." >&2
    status=1
  fi
done

unformatted=$(find . -name '*.go' -not -path './.local/*' -not -path './.git/*' -exec gofmt -l {} +)
if [[ -n $unformatted ]]; then
  echo "make verify: gofmt would change these files. Run gofmt -w on them:" >&2
  echo "$unformatted" >&2
  status=1
fi

# A program that was built by hand and added by mistake stays in the history for ever.
readonly largest=$((256 * 1024))
while IFS= read -r -d '' path; do
  if [[ -f $path && $(stat --format %s "$path") -gt $largest ]]; then
    echo "make verify: $path is larger than $largest bytes. Is it a program? Remove it from the repository." >&2
    status=1
  fi
done < <(git ls-files -z)

# The check skips the modules that only pin and build programs of other projects. A tidy go.mod file would also list the
# modules that the tests of those programs need, and many of these cannot be downloaded. If a module is missing that a
# program needs, its build fails anyway.
for module in . hack/clusters test/csi; do
  if ! (cd "$module" && go mod tidy -diff); then
    echo "make verify: $module/go.mod is not tidy: run go mod tidy there." >&2
    status=1
  fi
done
exit $status
