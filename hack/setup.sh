#!/usr/bin/env bash
# Installs and builds everything that the other make targets need: Debian packages, the pinned tools, Kubernetes itself.
# Running it again is quick: it skips everything that is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "make setup: $*" >&2; exit 1; }

[[ $(uname -s) == Linux ]] || fail "real clusters need Linux; this is $(uname -s)."
command -v go >/dev/null || fail "Go is missing. Install Go $(awk '/^go / {print $2}' go.mod) or later and put it on the PATH."

# The race detector needs a C linker.
if ! command -v gcc >/dev/null; then
  command -v apt-get >/dev/null || fail "gcc is missing, and apt-get to install it, too. Install gcc and the headers of the C library."
  [[ $EUID -eq 0 ]] || fail "gcc is missing. Install it: sudo apt-get install gcc libc6-dev"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev
fi

hack/tools/build.sh controller-gen golangci-lint helm kubeconform
make clusters-program
.local/bin/clusters setup
.local/bin/clusters build
