#!/usr/bin/env bash
# Tests mutants of packages: gremlins changes one operator at a time, and at least one unit test of the package should
# fail. The arguments are folders. The survivors and the sums are in .local/mutation/<package>.log.
set -euo pipefail
cd "$(dirname "$0")/../.."

hack/tools/build.sh gremlins
root=$PWD
out=$root/.local/mutation
mkdir -p "$out"

# gremlins copies the whole folder that has the go.mod file, and .local with it. So it works on a copy of the sources.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src" "$work/tmp"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --no-dereference -t "$work/src"

REAL_GO=$(command -v go)
export REAL_GO PATH="$root/hack/mutation:$PATH" TMPDIR="$work/tmp"
# These are the settings of `make build`, so that dependencies are compiled already. With -trimpath, copies share the
# build cache. Vet would only cost time.
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath -vet=off"
# gremlins's option --test-cpu is not used: version 0.6.0 passes it in a form that no test accepts, so that every mutant
# counts as killed.
options=(--workers 1 --timeout-coefficient 5 --invert-logical)
for package in "$@"; do
  log=$out/${package//\//-}.log
  echo "==> $package"
  (cd "$work/src" && "$root/.local/bin/gremlins" unleash "${options[@]}" "./$package") > "$log" || {
    cat "$log"
    exit 1
  }
  grep -E 'LIVED|TIMED OUT|NOT COVERED|^(Killed|Timed out|Test efficacy|Mutator coverage):' "$log"
done
