#!/usr/bin/env bash
# Checks the chart without a cluster. It runs helm lint, and checks every rendered variant against the strict schemas of
# Kubernetes, of cert-manager and of our own custom resources. It also checks that the chart refuses wrong values.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly chart=charts/multicluster-scheduler schemas=.local/schemas helm=.local/bin/helm

# Each line is a value that the chart must refuse: the argument of --set, and a part of the error.
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
placement.keepLabels=some                 at '/placement/keepLabels'
placement.annotationsFromTargets={a/b/c}  at '/placement/annotationsFromTargets/0'
daemonSets.keepOff=some                   at '/daemonSets/keepOff'
capacity.excludedLabelsRegex=a            'excludedLabelsRegex' not allowed
sources.enforceDefaultExclusion=true       'enforceDefaultExclusion' not allowed
sources.refusedPodKeys[0]=a|b             at '/sources/refusedPodKeys/0'
sources.finalizers.secrets[0]=a|b         at '/sources/finalizers/secrets/0'
sources.endpoints.allowedCIDRs[0]=pods    at '/sources/endpoints/allowedCIDRs/0'
webhook.reinvocationPolicy=Sometimes      at '/webhook/reinvocationPolicy'
uninstall.pods=keep                       at '/uninstall/pods'
uninstall.timeout=3                       at '/uninstall/timeout'
roles.source=maybe                        at '/roles/source'
rbac.parts.kubelet=false                  'kubelet' not allowed
roles.source=false,roles.target=false     set one of them to true
targetSelf=true,roles.target=false        its own target plays both roles
targets[0].name=c2,roles.source=false     only a source has targets
targetSelf=true,rbac.selfTarget=false     set rbac.selfTarget to true
uninstall.timeout=2m29s                   uninstall.timeout: a target needs 150s
networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b  set networkPolicy.enabled to true
sources.endpoints.allowedCIDRs[0]=10.0.0.0/8,sources.endpoints.check=false  set sources.endpoints.check to true
"

module() { go mod download "$1" && go list -m -f '{{.Dir}}' "$1"; }

render() { $helm template multicluster-scheduler $chart --namespace admiralty --include-crds "$@"; }

check() {
  echo "rendering $*"
  render "$@" | .local/bin/kubeconform -strict -summary \
    -schema-location "$schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"
}

kubernetes=$(module k8s.io/kubernetes)
certmanager=$(cd test/certmanager && module github.com/cert-manager/cert-manager)
rm -rf "$schemas"
go run -trimpath ./hack/schemas -openapi "$kubernetes/api/openapi-spec/swagger.json" -out "$schemas" \
  "$chart/crds" "$certmanager/deploy/crds"

for values in "$chart"/ci/*.yaml; do
  $helm lint --strict --quiet $chart --values "$values"
  check --values "$values"
  check --values "$values" --api-versions cert-manager.io/v1 \
    --api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy
done

selector='  selector:
    matchLabels:
      app.kubernetes.io/instance: multicluster-scheduler
      app.kubernetes.io/name: multicluster-scheduler
      component: controller-manager'
rendered=$(render --show-only templates/deployment.yaml | grep -A 4 '^  selector:' | tr -d '"' | LC_ALL=C sort)
if [[ $rendered != $(LC_ALL=C sort <<< "$selector") ]]; then
  echo "make test-chart: the Deployment's selector differs from that of v0.17." \
    "A selector cannot change, so an upgrade from v0.17 would fail." >&2
  exit 1
fi

# What keeps a manager at work in a drain, an upgrade and a full cluster: a part of the template, and what it must have.
readonly resilience="
deployment.yaml           maxUnavailable: 0
deployment.yaml           priorityClassName: system-cluster-critical
deployment.yaml           preStop: {sleep: {seconds: 5}}
deployment.yaml           tolerationSeconds: 30
resourcequota.yaml        values: [system-cluster-critical]
poddisruptionbudget.yaml  maxUnavailable: 1
"
while read -r template expected; do
  [[ -n $template ]] || continue
  if ! render --show-only "templates/$template" | grep -qF "$expected"; then
    echo "make test-chart: $template does not have \"$expected\"" >&2
    exit 1
  fi
done <<< "$resilience"

# Replicas on one node or in one zone would be lost together.
for topology in kubernetes.io/hostname topology.kubernetes.io/zone; do
  if ! render --show-only templates/deployment.yaml | grep -A 1 "topologyKey: $topology\$" | grep -q 'maxSkew: 1'; then
    echo "make test-chart: the Deployment's replicas are not spread by $topology" >&2
    exit 1
  fi
done

while read -r set expected; do
  [[ -n $set ]] || continue
  if message=$(render --set "$set" 2>&1 >/dev/null); then
    echo "make test-chart: the chart accepts --set $set, which it must refuse" >&2
    exit 1
  fi
  if [[ $message != *"$expected"* ]]; then
    echo "make test-chart: the error for --set $set does not contain \"$expected\": $message" >&2
    exit 1
  fi
  echo "the chart refuses --set $set, as it must"
done <<< "$refused"
