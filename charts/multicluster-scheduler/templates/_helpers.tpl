{{- define "multicluster-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* At most 37 characters: names have suffixes of up to 26 characters, and Service names at most 63. */}}
{{- define "multicluster-scheduler.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 37 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 37 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 37 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
A Deployment's selector is immutable, so these labels must stay. They are also the labels of v0.8 to v0.15, whose chart
had this name. The charts of v0.16 and v0.17 are named admiralty. There the Deployment's name and the label
app.kubernetes.io/name differ from ours, unless nameOverride is admiralty.
*/}}
{{- define "multicluster-scheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "multicluster-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
component: controller-manager
{{- end }}

{{- define "multicluster-scheduler.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "multicluster-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The name of the manager's objects: its Deployment, ServiceAccount and roles. */}}
{{- define "multicluster-scheduler.managerName" -}}
{{ include "multicluster-scheduler.fullname" . }}-controller-manager
{{- end }}

{{- define "multicluster-scheduler.webhookName" -}}
{{ include "multicluster-scheduler.fullname" . }}-webhook
{{- end }}

{{- /* "true" if cert-manager issues the webhook's certificate, else empty. */}}
{{- define "multicluster-scheduler.certManager" -}}
{{- if kindIs "bool" .Values.certManager.enabled }}
{{- if .Values.certManager.enabled }}true{{ end }}
{{- else if .Capabilities.APIVersions.Has "cert-manager.io/v1" }}true
{{- end }}
{{- end }}

{{- /* Each issuer has its own Secret name, so that it does not find the other's Secret after a switch. */}}
{{- define "multicluster-scheduler.certificateSecretName" -}}
{{- $kind := ternary "tls" "certificate" (eq "true" (include "multicluster-scheduler.certManager" .)) -}}
{{ include "multicluster-scheduler.webhookName" . }}-{{ $kind }}
{{- end }}

{{- define "multicluster-scheduler.proofSecretName" -}}
{{ include "multicluster-scheduler.fullname" . }}-proof
{{- end }}

{{- define "multicluster-scheduler.tokensSecretName" -}}
{{ include "multicluster-scheduler.fullname" . }}-tokens
{{- end }}

{{- /* The metadata of the webhook configurations. A source has one for pods, and a target has one for copies. */}}
{{- define "multicluster-scheduler.webhookMetadata" -}}
name: {{ include "multicluster-scheduler.fullname" . }}
labels:
  {{- include "multicluster-scheduler.labels" . | nindent 2 }}
{{- if include "multicluster-scheduler.certManager" . }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "multicluster-scheduler.webhookName" . }}
{{- end }}
{{- end }}

{{- /* The conditions that a request is a source's, for the policy and for the webhook of a target. */}}
{{- define "multicluster-scheduler.fromASource" -}}
- name: from-a-source
  expression: >-
    authorizer.group('multicluster.admiralty.io').resource('podchaperons').namespace(request.namespace).check('act-as-source').allowed()
    || authorizer.group('multicluster.admiralty.io').resource('podchaperons').namespace(request.namespace).check('create').allowed()
# A condition of its own, because an expression may make two checks only.
- name: who-may-not-run-pods
  expression: >-
    !authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()
{{- end }}

{{- /* Fails if values contradict one another. */}}
{{- define "multicluster-scheduler.validate" -}}
{{- if not (or .Values.roles.source .Values.roles.target) }}
{{- fail "roles.source and roles.target are both false, so the manager would do nothing: set one of them to true, or both" }}
{{- end }}
{{- if and .Values.targetSelf (not (and .Values.roles.source .Values.roles.target)) }}
{{- fail "targetSelf is true, but a cluster that is its own target plays both roles: set roles.source and roles.target to true" }}
{{- end }}
{{- if and .Values.targets (not .Values.roles.source) }}
{{- fail "targets are set, but only a source has targets: set roles.source to true, or remove targets" }}
{{- end }}
{{- if and .Values.targetSelf (not .Values.rbac.selfTarget) }}
{{- fail "targetSelf is true, but rbac.selfTarget is false, so logs and exec of its pods would lack rights: set rbac.selfTarget to true" }}
{{- end }}
{{- if and .Values.roles.target (eq .Values.uninstall.pods "end") (lt (include "multicluster-scheduler.seconds" .Values.uninstall.timeout | int) 150) }}
{{- fail "uninstall.timeout: a target needs 150s or more, because the Job gives sources 45 s to notice that its manager has stopped: set a longer time, or uninstall.pods to leave" }}
{{- end }}
{{- if and .Values.networkPolicy.metricsFrom (not .Values.networkPolicy.enabled) }}
{{- fail "networkPolicy.metricsFrom is set, but there is no NetworkPolicy: set networkPolicy.enabled to true, or remove metricsFrom" }}
{{- end }}
{{- if and .Values.sources.endpoints.allowedCIDRs (not .Values.sources.endpoints.check) }}
{{- fail "sources.endpoints.allowedCIDRs is set, but addresses are not checked: set sources.endpoints.check to true, or remove allowedCIDRs" }}
{{- end }}
{{- range .Values.placement.annotationsFromTargets }}
{{- if or (hasPrefix "multicluster.admiralty.io/" .) (eq "kubectl.kubernetes.io/last-applied-configuration" .) }}
{{- fail (printf "placement.annotationsFromTargets: pods never take over %s: remove it" .) }}
{{- end }}
{{- end }}
{{- include "multicluster-scheduler.validateDefinitions" . }}
{{- end }}

{{- /* Fails if the cluster has custom resource definitions of an earlier version, which Helm does not upgrade. The manager
could not write the fields that they lack. Without a cluster, as with helm template, there is nothing to compare with. */}}
{{- define "multicluster-scheduler.validateDefinitions" -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
{{- $want := $.Files.Get $path | fromYaml }}
{{- $has := lookup $want.apiVersion $want.kind "" $want.metadata.name }}
{{- if $has }}
{{- $missing := include "multicluster-scheduler.missing" (dict "want" (first $want.spec.versions).schema.openAPIV3Schema "has" (first $has.spec.versions).schema.openAPIV3Schema "path" "") }}
{{- if $missing }}
{{- fail (printf "the custom resource definition %s is of an earlier version, and lacks%s. Helm does not upgrade definitions. Run first: kubectl apply --server-side --force-conflicts -f CHART/crds" $want.metadata.name (trimSuffix "," $missing)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The properties of a schema that another one lacks. */}}
{{- define "multicluster-scheduler.missing" -}}
{{- $path := .path }}
{{- $has := .has.properties | default dict }}
{{- range $name, $schema := .want.properties | default dict }}
{{- $full := printf "%s.%s" $path $name }}
{{- if hasKey $has $name }}
{{- include "multicluster-scheduler.missing" (dict "want" $schema "has" (get $has $name) "path" $full) }}
{{- else }} {{ trimPrefix "." $full }},{{ end }}
{{- end }}
{{- if and .want.items .has.items }}
{{- include "multicluster-scheduler.missing" (dict "want" .want.items "has" .has.items "path" (printf "%s[]" $path)) }}
{{- end }}
{{- end }}

{{- define "multicluster-scheduler.configuration" -}}
apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
roles:
  source: {{ .Values.roles.source }}
  target: {{ .Values.roles.target }}
{{- with .Values.clusterName }}
clusterName: {{ . | quote }}
{{- end }}
{{- with .Values.clusterID }}
clusterID: {{ . | quote }}
{{- end }}
leaderElection:
  enabled: true
  namespace: {{ .Release.Namespace }}
  name: {{ include "multicluster-scheduler.managerName" . }}
metrics:
  bindAddress: ":{{ include "multicluster-scheduler.metricsPort" . }}"
  secure: {{ .Values.metrics.secure }}
health:
  bindAddress: ":8081"
webhook:
  port: 9443
  {{- if include "multicluster-scheduler.certManager" . }}
  certDir: /var/run/secrets/webhook
  configurationName: {{ include "multicluster-scheduler.fullname" . }}
  {{- else }}
  selfManaged:
    secretName: {{ include "multicluster-scheduler.certificateSecretName" . }}
    serviceName: {{ include "multicluster-scheduler.webhookName" . }}
    webhookConfigurationName: {{ include "multicluster-scheduler.fullname" . }}
  {{- end }}
kubeletAPI:
  enabled: {{ .Values.rbac.parts.kubeletAPI }}
  port: 10250
  {{- with .Values.controllerManager.certificateSignerName }}
  certificateSignerName: {{ . }}
  {{- end }}
placement:
  strategy: {{ .Values.placement.strategy }}
  timeout: {{ .Values.placement.timeout }}
  keepLabels: {{ default false .Values.placement.keepLabels }}
{{- with .Values.placement.annotationsFromTargets }}
  annotationsFromTargets: {{ toJson . }}
{{- end }}
daemonSets:
  acknowledge: {{ .Values.daemonSets.acknowledge }}
proof:
  secretName: {{ include "multicluster-scheduler.proofSecretName" . }}
tokens:
  secretName: {{ include "multicluster-scheduler.tokensSecretName" . }}
tenants:
  enforce: {{ .Values.tenants.enforce }}
  allowLoopback: {{ .Values.tenants.allowLoopback }}
  allowOwnAddresses: {{ .Values.tenants.allowOwnAddresses }}
  allowInsecure: {{ .Values.tenants.allowInsecure }}
  allowProxy: {{ .Values.tenants.allowProxy }}
  nodeLabels: {{ default list .Values.tenants.nodeLabels | toJson }}
  allowedPodCIDRs: {{ default list .Values.tenants.allowedPodCIDRs | toJson }}
{{- with .Values.capacity.excludedLabelsRegexp }}
capacity:
  excludedLabelsRegexp: {{ . | quote }}
{{- end }}
sourceController:
  enabled: {{ .Values.sourceController.enabled }}
  clusterRoleName: {{ include "multicluster-scheduler.fullname" . }}-source
  summaryViewerClusterRoleName: {{ include "multicluster-scheduler.fullname" . }}-cluster-summary-viewer
  leavingClusterRoleName: {{ include "multicluster-scheduler.fullname" . }}-source-leaving
  earlierClusterRoleName: {{ include "multicluster-scheduler.fullname" . }}-source-earlier
  enforceDefaultExclusions: {{ .Values.sources.enforceDefaultExclusions }}
endpoints:
  check: {{ .Values.sources.endpoints.check }}
  allowedCIDRs: {{ default list .Values.sources.endpoints.allowedCIDRs | toJson }}
{{- with include "multicluster-scheduler.leasesNamespace" . }}
leases:
  namespace: {{ . }}
{{- end }}
garbageCollection:
  enabled: {{ .Values.rbac.parts.garbageCollection }}
{{- with include "multicluster-scheduler.secretNamespaces" . }}
secretNamespaces: {{ . }}
{{- end }}
{{- end }}

{{- /* The namespaces whose Secrets the manager may read and delete, as JSON; empty if it may in all. */}}
{{- define "multicluster-scheduler.secretNamespaces" -}}
{{- $namespaces := default list .Values.rbac.secretNamespaces }}
{{- if not (has "*" $namespaces) }}
{{- prepend $namespaces .Release.Namespace | uniq | toJson }}
{{- end }}
{{- end }}

{{- /* Metadata of one part of the manager's rights. The argument is a dict of root and part. */}}
{{- define "multicluster-scheduler.partOfManagerRole" -}}
name: {{ include "multicluster-scheduler.managerName" .root }}-{{ .part }}
labels:
  admiralty.io/aggregate-to-controller-manager: "true"
  {{- include "multicluster-scheduler.labels" .root | nindent 2 }}
{{- end }}

{{- /* The namespace of the Leases of a target; empty if there are none. */}}
{{- define "multicluster-scheduler.leasesNamespace" -}}
{{- if and .Values.roles.target .Values.leases.enabled }}
{{- printf "%s-leases" (.Release.Namespace | trunc 56 | trimSuffix "-") }}
{{- end }}
{{- end }}

{{- /* The rules on Secrets: a source reads those that pods need, a target finds and deletes copies. A target also finds
those of sources that leave a namespace. Empty if none. */}}
{{- define "multicluster-scheduler.rulesOnSecrets" -}}
{{- $collects := and .Values.roles.target .Values.rbac.parts.garbageCollection }}
{{- if .Values.roles.source }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
{{- end }}
{{- if $collects }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch, delete]
{{- else if and .Values.roles.target .Values.sourceController.enabled }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{- /*
Metadata of what exists during an uninstall only. The argument is a dict of root, weight (the order of creation), and
suffix of the name. Helm 4 shows the logs of the Job.
*/}}
{{- define "multicluster-scheduler.uninstallMetadata" -}}
name: {{ include "multicluster-scheduler.fullname" .root }}-uninstall{{ .suffix }}
labels:
  {{- include "multicluster-scheduler.labels" .root | nindent 2 }}
annotations:
  helm.sh/hook: pre-delete
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
{{- end }}

{{- /* The seconds of a duration such as 1h30m. */}}
{{- define "multicluster-scheduler.seconds" -}}
{{- $seconds := 0 }}
{{- range regexFindAll "[0-9]+[smh]" . -1 }}
{{- $seconds = add $seconds (mul (trimSuffix "h" . | trimSuffix "m" | trimSuffix "s" | int) (get (dict "s" 1 "m" 60 "h" 3600) (regexFind "[smh]" .))) }}
{{- end }}
{{- $seconds }}
{{- end }}

{{- /* The port of the metrics. */}}
{{- define "multicluster-scheduler.metricsPort" -}}
{{ ternary "8443" "8080" .Values.metrics.secure }}
{{- end }}

{{- /* The subject of the manager's bindings. */}}
{{- define "multicluster-scheduler.managerSubjects" -}}
- kind: ServiceAccount
  name: {{ include "multicluster-scheduler.managerName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
