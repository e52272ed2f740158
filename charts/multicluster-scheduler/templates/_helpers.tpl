{{- define "multicluster-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Longer suffixes than 26 characters would pass the limit of 63 for Service names. */}}
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

{{- /* Those of v0.17: a Deployment's selector cannot be changed, and a release of that version can thus be upgraded. */}}
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

{{- /* The name of what belongs to the manager: the Deployment, its ServiceAccount, its roles. */}}
{{- define "multicluster-scheduler.managerName" -}}
{{ include "multicluster-scheduler.fullname" . }}-controller-manager
{{- end }}

{{- define "multicluster-scheduler.webhookName" -}}
{{ include "multicluster-scheduler.fullname" . }}-webhook
{{- end }}

{{- /* "true" where cert-manager issues the webhook's certificate, empty otherwise. */}}
{{- define "multicluster-scheduler.certManager" -}}
{{- if kindIs "bool" .Values.certManager.enabled }}
{{- if .Values.certManager.enabled }}true{{ end }}
{{- else if .Capabilities.APIVersions.Has "cert-manager.io/v1" }}true
{{- end }}
{{- end }}

{{- /* Two names, so that neither issuer finds the other's Secret when one replaces the other. */}}
{{- define "multicluster-scheduler.certificateSecretName" -}}
{{- $kind := ternary "tls" "certificate" (eq "true" (include "multicluster-scheduler.certManager" .)) -}}
{{ include "multicluster-scheduler.webhookName" . }}-{{ $kind }}
{{- end }}

{{- define "multicluster-scheduler.configuration" -}}
apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
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
  bindAddress: ":8080"
health:
  bindAddress: ":8081"
webhook:
  port: 9443
  {{- if include "multicluster-scheduler.certManager" . }}
  certDir: /var/run/secrets/webhook
  {{- else }}
  selfManaged:
    secretName: {{ include "multicluster-scheduler.certificateSecretName" . }}
    serviceName: {{ include "multicluster-scheduler.webhookName" . }}
    webhookConfigurationName: {{ include "multicluster-scheduler.fullname" . }}
  {{- end }}
kubeletAPI:
  port: 10250
  {{- with .Values.controllerManager.certificateSignerName }}
  certificateSignerName: {{ . }}
  {{- end }}
placement:
  strategy: {{ .Values.placement.strategy }}
  timeout: {{ .Values.placement.timeout }}
{{- with .Values.capacity.excludedLabelsRegexp }}
capacity:
  excludedLabelsRegexp: {{ . | quote }}
{{- end }}
sourceController:
  enabled: {{ .Values.sourceController.enabled }}
  clusterRoleName: {{ include "multicluster-scheduler.fullname" . }}-source
  summaryViewerClusterRoleName: {{ include "multicluster-scheduler.fullname" . }}-cluster-summary-viewer
{{- with include "multicluster-scheduler.secretNamespaces" . }}
secretNamespaces: {{ . }}
{{- end }}
{{- end }}

{{- /* The namespaces whose Secrets the manager may read and delete, as JSON; empty where these are all. */}}
{{- define "multicluster-scheduler.secretNamespaces" -}}
{{- $namespaces := default list .Values.rbac.secretNamespaces }}
{{- if not (has "*" $namespaces) }}
{{- prepend $namespaces .Release.Namespace | uniq | toJson }}
{{- end }}
{{- end }}

{{- /* Metadata of one part of the manager's rights: call with a dict of root and part. */}}
{{- define "multicluster-scheduler.partOfManagerRole" -}}
name: {{ include "multicluster-scheduler.managerName" .root }}-{{ .part }}
labels:
  admiralty.io/aggregate-to-controller-manager: "true"
  {{- include "multicluster-scheduler.labels" .root | nindent 2 }}
{{- end }}

{{- /* Subjects of the bindings to the manager. */}}
{{- define "multicluster-scheduler.managerSubjects" -}}
- kind: ServiceAccount
  name: {{ include "multicluster-scheduler.managerName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
