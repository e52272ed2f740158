#!/usr/bin/env bash
# Runs all checks in stages, and stops at the first stage that fails.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly stages=(
  "setup|tools and Kubernetes"
  "verify|generated code, formatting, go.mod"
  "lint|golangci-lint"
  "test-unit|unit tests (-race)"
  "test-integration|integration tests (real API servers)"
  "test-chart|chart checks"
  "test-e2e|end-to-end tests (real clusters)"
)

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

summary=""
number=0
for stage in "${stages[@]}"; do
  target=${stage%%|*} title=${stage#*|}
  number=$((number + 1)) began=$SECONDS
  printf '\n==> stage %d/%d: %s [make %s], %s after the start\n' \
    "$number" "${#stages[@]}" "$title" "$target" "$(clock "$SECONDS")"
  if ! make "$target" </dev/null; then
    printf '\n==> FAILED in stage %d/%d: %s, after %s\n' \
      "$number" "${#stages[@]}" "$title" "$(clock $((SECONDS - began)))" >&2
    printf '    To run it alone: make %s\n' "$target" >&2
    exit 1
  fi
  summary+=$(printf '  %-40s %6s' "$title" "$(clock $((SECONDS - began)))")$'\n'
done
printf '\n==> all %d stages passed in %s\n%s' "${#stages[@]}" "$(clock "$SECONDS")" "$summary"
