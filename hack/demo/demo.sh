#!/usr/bin/env bash
# Shows the product on the running clusters c1 and c2: pods of c1 run in both, and draining the virtual node
# admiralty-c2 evacuates c2. It prints each command with its real output, checks every claim that it makes, and fails if
# one is false.
set -euo pipefail
cd "$(dirname "$0")/../.."

export KUBECONFIG=$PWD/.local/kubeconfig PATH=$PWD/.local/bin:$PATH
bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
[ -t 1 ] || bold='' dim='' plain=''
sampler=''
samples=$(mktemp)

say() { printf '\n%s# %s%s\n' "$dim" "$*" "$plain"; }
show() { printf '%s$ %s%s\n' "$bold" "$*" "$plain"; "$@"; }
# show_once prints each line of the output only the first time; progress is overwritten on a terminal and left out
# elsewhere.
show_once() {
  local line clear=''
  local -A seen=()
  [ ! -t 1 ] || clear=$'\r\e[K'
  show "$@" 2>&1 | while IFS= read -r line; do
    [ -z "${seen[$line]:-}" ] || continue
    seen[$line]=yes
    case $line in
      'Waiting for '*) [ -z "$clear" ] || printf '%s%s' "$clear" "$line" ;;
      *) printf '%s%s\n' "$clear" "$line" ;;
    esac
  done
}
fail() { printf '\ndemo: %s\n' "$*" >&2; exit 1; }

clean_up() {
  if [ -n "$sampler" ]; then kill "$sampler" 2>/dev/null || true; fi
  kubectl --context c1 uncordon admiralty-c2 >/dev/null 2>&1 || true
  rm -f "$samples"
}
trap clean_up EXIT

# pods CONTEXT SELECTOR counts the running, ready pods that are not being deleted.
pods() {
  kubectl --context "$1" get pods -n default -l "$2" -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{range .status.conditions}}{{if and (eq .type "Ready") (eq .status "True")}}ready{{"\n"}}{{end}}{{end}}{{end}}{{end}}' | wc -l
}
on_node() { kubectl --context c1 get pods -n default -l app=web --no-headers -o custom-columns=node:.spec.nodeName | grep -cx "$1" || true; }
delegates='multicluster.admiralty.io/parent-uid'

# wait_for SENTENCE COMMAND… waits up to three minutes until the command succeeds.
wait_for() {
  local sentence=$1 deadline=$((SECONDS + 180)); shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "this did not become true: $sentence"
    sleep 0.5
  done
}
proxies_ready() { [ "$(pods c1 app=web)" = 10 ]; }
c2_empty() { [ -z "$(kubectl --context c2 get pods -n default -l "$delegates" -o name)" ]; }
none_left() { [ -z "$(kubectl --context c1 get pods -n default -l app=web -o name)$(for c in c1 c2; do kubectl --context $c get pods -n default -l "$delegates" -o name; done)" ]; }
proxies_only_ten() { [ "$(kubectl --context c1 get pods -n default -l app=web -o name | wc -l)" = 10 ]; }
back_in_c2() { [ "$(on_node admiralty-c2)" -gt 0 ] && proxies_ready && proxies_only_ten; }
ips_agree() {
  local proxy delegate
  proxy=$(kubectl --context c1 get pods -n default -l app=web -o jsonpath='{range .items[*]}{.status.podIP}{"\n"}{end}' | sort)
  delegate=$(for c in c1 c2; do kubectl --context $c get pods -n default -l "$delegates" -o jsonpath='{range .items[*]}{.status.podIP}{"\n"}{end}'; done | sort)
  [ "$proxy" = "$delegate" ]
}

kubectl --context c1 uncordon admiralty-c2 >/dev/null
kubectl --context c1 delete -n default -f hack/demo/web.yaml --ignore-not-found >/dev/null # an earlier demonstration's
wait_for "an earlier demonstration's pods are gone" none_left

say "Two clusters, c1 and c2. In c1, each target cluster is one virtual node:"
show kubectl --context c1 get nodes
show kubectl multicluster status --context c1

say "Pods of namespace default may be elected. One annotation elects the Deployment's pods:"
show kubectl --context c1 label namespace default multicluster-scheduler=enabled --overwrite
show kubectl --context c1 apply -n default -f hack/demo/web.yaml
show_once kubectl --context c1 rollout status -n default deployment/web --timeout=3m
wait_for "10 proxies are ready" proxies_ready
wait_for "each proxy shows its delegate's IP" ips_agree

say "Ten proxies in c1, on both virtual nodes:"
show kubectl --context c1 get pods -n default -l app=web -o wide
say "Their ten delegates run the containers, in c1 and c2:"
show kubectl --context c1 get pods -n default -l "$delegates" -o wide
show kubectl --context c2 get pods -n default -l "$delegates" -o wide
c1=$(on_node admiralty-c1) c2=$(on_node admiralty-c2)
[ $((c1 + c2)) = 10 ] && [ $((c1 - c2)) -ge -1 ] && [ $((c1 - c2)) -le 1 ] || fail "$c1 pods are on admiralty-c1 and $c2 on admiralty-c2"

say "Logs and exec work as for any pod, wherever it runs:"
pod=$(kubectl --context c1 get pods -n default -l app=web --field-selector spec.nodeName=admiralty-c2 -o jsonpath='{.items[0].metadata.name}')
show kubectl --context c1 logs -n default "$pod" --tail=2
show kubectl --context c1 exec -n default "$pod" -- /whoami echo "this runs in c2"

say "Evacuate c2. The budget allows one unavailable pod at a time, so the drain waits and tries again:"
while :; do pods c1 app=web; done >"$samples" 2>/dev/null &
sampler=$!
show_once kubectl --context c1 drain admiralty-c2 --ignore-daemonsets --delete-emptydir-data --timeout=5m
wait_for "10 pods are ready after the drain" proxies_ready
wait_for "c2 has no delegates" c2_empty
kill "$sampler" 2>/dev/null; wait "$sampler" 2>/dev/null || true; sampler=''
wait_for "exactly 10 proxies are left" proxies_only_ten
fewest=$(grep -x '[0-9]*' "$samples" | sort -n | sed -n 1p)
[ "$fewest" -ge 9 ] || fail "only $fewest pods were ready during the drain; the budget allows no fewer than 9"
show kubectl --context c1 get nodes admiralty-c1 admiralty-c2
show kubectl --context c1 get pods -n default -l app=web -o wide
show kubectl --context c2 get pods -n default -l "$delegates"
[ "$(on_node admiralty-c1)" = 10 ] || fail "not all pods are on admiralty-c1"
kubectl --context c1 get node admiralty-c2 | grep 'Ready,SchedulingDisabled' >/dev/null || fail "admiralty-c2 is not Ready,SchedulingDisabled"

say "Now c2 can be replaced. After an uncordon, new pods go to c2 again:"
show kubectl --context c1 uncordon admiralty-c2
show kubectl --context c1 rollout restart -n default deployment/web
show_once kubectl --context c1 rollout status -n default deployment/web --timeout=3m
wait_for "pods are back in c2" back_in_c2
show kubectl --context c1 get pods -n default -l app=web -o wide

printf '\n%sShown: 10 pods spread over c1 and c2; c2 evacuated while at least %s of 10 pods were ready; pods back in c2. Look around: export KUBECONFIG=%s; kubectl --context c1 get pods,nodes. Remove the clusters: make clusters-down%s\n' \
  "$bold" "$fewest" '$PWD/.local/kubeconfig' "$plain"
