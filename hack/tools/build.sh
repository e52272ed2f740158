#!/usr/bin/env bash
# Builds the pinned tools named as arguments into .local/bin, from the module beside this script, or from the module in
# a folder of the tool's name. Such a tool needs other versions of dependencies than the rest.
# It builds a tool again only if the pins or the Go version have changed since the last build, or if the tool is
# missing. (`go tool` would link these large programs on every call.)
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly bin=.local/bin stamps=.local/stamps
mkdir -p "$bin" "$stamps"

for tool in "$@"; do
  module=hack/tools
  if [[ -d $module/$tool ]]; then
    module=$module/$tool
  fi
  stamp=$stamps/tool-$tool
  wanted=$( (go version; cat "$module/go.mod" "$module/go.sum") | sha256sum | cut -d' ' -f1)
  if [[ -x $bin/$tool && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    continue
  fi
  package=$(cd "$module" && go list -e tool | grep "/$tool\$") || {
    echo "$module/go.mod pins no tool named $tool. To add it:" \
      "go get -tool -modfile=$module/go.mod PACKAGE@VERSION" >&2
    exit 1
  }
  echo "building $tool (once per change of $module/go.mod)"
  root=$PWD
  (cd "$module" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$root/$bin/$tool" "$package")
  echo "$wanted" > "$stamp"
done
