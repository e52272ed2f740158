#!/usr/bin/env bash
# Builds the pinned tools named as arguments into .local/bin, from the module beside this script. It builds a tool again
# only if the pins or the Go version changed, or the tool's file is missing. `go tool` would link these large programs
# on every call.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly bin=.local/bin stamps=.local/stamps
mkdir -p "$bin" "$stamps"
wanted=$( (go version; cat hack/tools/go.mod hack/tools/go.sum) | sha256sum | cut -d' ' -f1)

for tool in "$@"; do
  stamp=$stamps/tool-$tool
  if [[ -x $bin/$tool && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    continue
  fi
  package=$(cd hack/tools && go list -e tool | grep "/$tool\$") || {
    echo "hack/tools/go.mod pins no tool named $tool; add it with: go get -tool -modfile=hack/tools/go.mod PACKAGE@VERSION" >&2
    exit 1
  }
  echo "building $tool (once per change of hack/tools/go.mod)"
  (cd hack/tools && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "../../$bin/$tool" "$package")
  echo "$wanted" > "$stamp"
done
