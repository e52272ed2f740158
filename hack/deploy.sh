#!/usr/bin/env bash
# Loads the image into every node, installs the chart in every running cluster, and connects the first cluster to itself
# and to the others. With --only-image it only loads the image and restarts the managers. Running it again is safe: it
# upgrades the releases, restarts the managers and keeps the connections.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly namespace=admiralty release=multicluster-scheduler chart=charts/multicluster-scheduler
readonly timeout=180s ours=app.kubernetes.io/instance=$release
export KUBECONFIG=$PWD/.local/kubeconfig
export PATH=$PWD/.local/bin:$PATH

say() { printf '==> %s\n' "$*"; }

explain() {
  local cluster=$1
  {
    echo "make deploy: the manager did not become ready in $cluster within $timeout. The state of the cluster:"
    kubectl --context "$cluster" -n $namespace get pods -o wide || true
    kubectl --context "$cluster" -n $namespace get events --sort-by=.lastTimestamp | tail -n 20 || true
    kubectl --context "$cluster" -n $namespace logs -l $ours --all-containers --prefix --tail=20 || true
  } >&2
}

# restart CLUSTER replaces the manager's pods. A new image under the same tag does not change the Deployment, so the old
# pods would stay.
restart() {
  kubectl --context "$1" -n $namespace rollout restart deployment -l $ours >/dev/null
}

wait_ready() {
  kubectl --context "$1" -n $namespace rollout status deployment -l $ours --timeout=$timeout >/dev/null || {
    explain "$1"
    return 1
  }
}

install_chart() {
  local cluster=$1 installed=false
  if helm --kube-context "$cluster" -n $namespace status $release >/dev/null 2>&1; then
    installed=true
  fi
  say "$cluster: installing the chart"
  if $installed; then # Helm does not upgrade CustomResourceDefinitions.
    kubectl --context "$cluster" apply --server-side --force-conflicts -f $chart/crds >/dev/null
  fi
  helm --kube-context "$cluster" -n $namespace upgrade --install $release $chart --create-namespace --timeout $timeout \
    --set clusterName="$cluster" \
    --set controllerManager.image.repository=localhost/multicluster-scheduler \
    --set controllerManager.image.tag=dev \
    --set controllerManager.image.pullPolicy=IfNotPresent >/dev/null
  if $installed; then
    restart "$cluster"
  fi
}

connect() {
  local source=$1 target=$2
  say "connecting $source to $target"
  if [[ $source == "$target" ]]; then
    kubectl-multicluster connect "$target" --self --source-context "$source"
  else
    kubectl-multicluster connect "$target" --source-context "$source" --target-context "$target"
  fi
}

clusters=()
if [[ -f $KUBECONFIG ]]; then
  mapfile -t clusters < <(kubectl config get-contexts -o name)
fi
if [[ ${#clusters[@]} -eq 0 ]]; then
  echo "make deploy: no cluster runs. Start clusters first: make clusters-up" >&2
  exit 1
fi

say "loading the image into the nodes of ${clusters[*]}"
clusters load .local/images/multicluster-scheduler.tar

if [[ ${1:-} == --only-image ]]; then
  for cluster in "${clusters[@]}"; do restart "$cluster"; done
  for cluster in "${clusters[@]}"; do wait_ready "$cluster"; done
  exit 0
fi

for cluster in "${clusters[@]}"; do install_chart "$cluster"; done
for cluster in "${clusters[@]}"; do
  say "$cluster: waiting for the manager"
  wait_ready "$cluster"
done
for cluster in "${clusters[@]}"; do connect "${clusters[0]}" "$cluster"; done
kubectl --context "${clusters[0]}" get nodes
say "done. To look around: export KUBECONFIG=$KUBECONFIG; kubectl --context ${clusters[0]} get nodes"
