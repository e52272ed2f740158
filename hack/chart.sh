#!/usr/bin/env bash
# Checks the chart without a cluster. It runs helm lint, checks every rendered variant against the strict schemas of
# Kubernetes, cert-manager and our own custom resources, and tries values that the chart must refuse.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly chart=charts/multicluster-scheduler schemas=.local/schemas helm=.local/bin/helm

# One line for each value that the chart must refuse: the argument of --set, then a text that the error must contain.
readonly refused="
clusterNmae=c1                            'clusterNmae' not allowed
clusterName=C_1                           at '/clusterName'
targetSelf=maybe                          at '/targetSelf'
targets[0].nam=c2                         'nam' not allowed
targets[0].secretName=c2                  missing property 'name'
targets[0].name=C2                        at '/targets/0/name'
controllerManager.replicas=many           at '/controllerManager/replicas'
controllerManager.replica=2               'replica' not allowed
controllerManager.image.pullPolicy=Maybe  at '/controllerManager/image/pullPolicy'
placement.timeout=500ms                   at '/placement/timeout'
capacity.excludedLabelsRegex=a            'excludedLabelsRegex' not allowed
webhook.reinvocationPolicy=Sometimes      at '/webhook/reinvocationPolicy'
"

module() { go mod download "$1" && go list -m -f '{{.Dir}}' "$1"; }

render() { $helm template multicluster-scheduler $chart --namespace admiralty --include-crds "$@"; }

check() {
  echo "rendering $*"
  render "$@" | .local/bin/kubeconform -strict -summary -schema-location "$schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
}

kubernetes=$(module k8s.io/kubernetes)
certmanager=$(cd test/certmanager && module github.com/cert-manager/cert-manager)
rm -rf "$schemas"
go run -trimpath ./hack/schemas -openapi "$kubernetes/api/openapi-spec/swagger.json" -out "$schemas" "$chart/crds" "$certmanager/deploy/crds"

for values in "$chart"/ci/*.yaml; do
  $helm lint --strict --quiet $chart --values "$values"
  check --values "$values"
  check --values "$values" --api-versions cert-manager.io/v1
done

selector='  selector:
    matchLabels:
      app.kubernetes.io/instance: multicluster-scheduler
      app.kubernetes.io/name: multicluster-scheduler
      component: controller-manager'
if [[ $(render --show-only templates/deployment.yaml | grep -A 4 '^  selector:' | tr -d '"' | LC_ALL=C sort) != $(LC_ALL=C sort <<< "$selector") ]]; then
  echo "make test-chart: the Deployment's selector changed. A selector is immutable, so helm upgrade would fail." >&2
  exit 1
fi

while read -r set expected; do
  [[ -n $set ]] || continue
  if message=$(render --set "$set" 2>&1 >/dev/null); then
    echo "make test-chart: the chart accepts --set $set, which it must refuse" >&2
    exit 1
  fi
  if [[ $message != *"$expected"* ]]; then
    echo "make test-chart: the chart refuses --set $set, but its error does not contain \"$expected\": $message" >&2
    exit 1
  fi
  echo "refused, as expected: $set"
done <<< "$refused"
