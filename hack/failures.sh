#!/usr/bin/env bash
# Prints from a log of tests what led to each failure, or the end of the log. It comes after all else, because some
# readers see no more: hack/failures.sh LOG
set -euo pipefail
echo "==> what failed (all of it is in $1):"
awk '
  function print_recent() { for (i = n + 1; i <= n + 25; i++) if (i % 25 in recent) print recent[i % 25]; split("", recent) }
  { $0 = substr($0, 1, 400) }
  /^FAIL\t/ { packages = packages "\n" $0 }
  following > 0 { following--; print; next } # what the test said, or which tests ran at a time-out
  length { recent[++n % 25] = $0 }
  /^ *--- FAIL|^panic:|DATA RACE/ { failed = 1; following = 12; print_recent() }
  END { if (!failed) print_recent(); print packages }
' "$1"
