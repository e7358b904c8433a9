{{- define "reelay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "reelay.selector" . }}
{{- end }}

{{- define "reelay.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reelay.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* What no process of Reelay needs is closed to it. */}}
{{- define "reelay.podSecurity" -}}
# The variables REELAY_API_PORT and the like of Kubernetes are no settings of Reelay.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "reelay.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The settings of docs/operators/configuration.md that may be in the values. A test compares them. */}}
{{- define "reelay.known" -}}
REELAY_ALERTS REELAY_CDN REELAY_CDN_KEY_FILE REELAY_CDN_KEY_NAME REELAY_CHECKPOINT_STORE REELAY_CLUSTER REELAY_CONSOLE_NAME
REELAY_DATABASE_CONNECTIONS REELAY_FORECAST REELAY_GCE_ENDPOINT REELAY_GCE_IDENTITY_ACCOUNTS REELAY_GCE_IDENTITY_AUDIENCE
REELAY_GCE_IDENTITY_KEYS_URL REELAY_GCE_IDENTITY_PROJECTS REELAY_INTROSPECTION REELAY_KUBERNETES_CA_FILE
REELAY_KUBERNETES_NAMESPACE REELAY_KUBERNETES_TOKEN_FILE REELAY_KUBERNETES_URL REELAY_MODELS REELAY_MODERATION_ON_FAILURE
REELAY_MODERATION_SECRET REELAY_MODERATION_TIMEOUT REELAY_MODERATION_URL REELAY_OIDC_ACCOUNT REELAY_OIDC_CLIENT_ID
REELAY_OIDC_CLIENT_SECRET REELAY_OIDC_DOMAINS REELAY_OIDC_GROUPS_CLAIM REELAY_OIDC_ISSUER REELAY_OIDC_ROLES REELAY_OIDC_SCOPES
REELAY_ORIGINS REELAY_OUTBOUND_EXCEPT REELAY_OUTBOUND_LOOPBACK REELAY_PRICES REELAY_PROVIDERS REELAY_PROVIDER_LIMITS REELAY_REGION
REELAY_REGION_PEERS REELAY_RESERVE_PERCENT REELAY_RETENTION_EVENTS_DAYS REELAY_RETENTION_FILMS_DAYS REELAY_RETENTION_JOBS_DAYS
REELAY_SPOT_PERCENT REELAY_TLS_CERT REELAY_TLS_KEY REELAY_USER_QUEUE_PERCENT REELAY_VIDEO_MODELS
{{- end }}

{{/* What the values must not say, and where it belongs. */}}
{{- define "reelay.settings" -}}
{{- $files := dict "DATABASE_URL" "database-url" "REDIS_URL" "redis-url" "REELAY_S3_ACCESS_KEY" "s3-access-key" "REELAY_S3_SECRET_KEY" "s3-secret-key" }}
{{- $values := dict "REELAY_STORE" "store" "GCS_BUCKET" "store" "REELAY_PUBLIC_URL" "publicURL" "REELAY_HOSTS" "hosts" "REELAY_METRICS_OPEN" "metrics.open"
  "REELAY_SECRETS_FILE" "secret.name" "REELAY_AGENT_KEY_FILE" "secret.workerKey" }}
{{- $own := list "REELAY_LISTEN" "REELAY_LOG" "REELAY_METRICS_LISTEN" "REELAY_STOP_DELAY_SECONDS" "REELAY_NAME" }}
{{- $known := splitList " " (include "reelay.known" . | replace "\n" " ") }}
{{- range $name, $value := .Values.settings }}
{{- $plain := trimSuffix "_FILE" $name }}
{{- if hasKey $files $plain }}
{{- fail (printf "settings.%s: it belongs in the secret, as the key %s" $name (get $files $plain)) }}
{{- else if has $name (list "REELAY_OIDC_CLIENT_SECRET" "REELAY_MODERATION_SECRET") }}
{{- fail (printf "settings.%s: put it into the secret under a key of your choice, and set %s_FILE to /run/secrets/reelay/KEY" $name $name) }}
{{- else if hasKey $values $name }}
{{- fail (printf "settings.%s: set the value %s instead" $name (get $values $name)) }}
{{- else if has $name $own }}
{{- fail (printf "settings.%s: the chart sets it itself" $name) }}
{{- else if and (hasPrefix "REELAY_" $name) (not (has $name $known)) (not (has $plain $known)) }}
{{- fail (printf "settings.%s: there is no such setting. See docs/operators/configuration.md" $name) }}
{{- end }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* The settings of api and control. */}}
{{- define "reelay.environment" -}}
- {name: DATABASE_URL_FILE, value: /run/secrets/reelay/database-url}
- {name: REDIS_URL_FILE, value: /run/secrets/reelay/redis-url}
- {name: REELAY_SECRETS_FILE, value: /run/secrets/reelay/secrets.json}
{{- if .Values.secret.s3Keys }}
- {name: REELAY_S3_ACCESS_KEY_FILE, value: /run/secrets/reelay/s3-access-key}
- {name: REELAY_S3_SECRET_KEY_FILE, value: /run/secrets/reelay/s3-secret-key}
{{- end }}
- {name: REELAY_STORE, value: {{ required "store is required: the bucket for videos, such as s3://BUCKET or gs://BUCKET" .Values.store | quote }}}
- {name: REELAY_PUBLIC_URL, value: {{ required "publicURL is required: the URL at which clients reach the API" .Values.publicURL | quote }}}
- {name: REELAY_LOG, value: json}
{{- if .Values.metrics.open }}
- {name: REELAY_METRICS_OPEN, value: "true"}
{{- end }}
{{- include "reelay.settings" . }}
{{- end }}

{{- define "reelay.secretMount" -}}
- {name: secret, mountPath: /run/secrets/reelay, readOnly: true}
{{- end }}

{{/* The folder is mounted, and not its files one by one: so a new version of the secret is seen. The file of keys belongs to
root, and the group may read it. */}}
{{- define "reelay.secretVolume" -}}
- name: secret
  secret: {secretName: {{ .Values.secret.name }}, defaultMode: 0440}
{{- end }}

{{/* The hosts of the public URL and of the service, by which agents in the cluster may call the API. */}}
{{- define "reelay.hosts" -}}
{{ .Release.Name }}-api,{{ .Release.Name }}-api.{{ .Release.Namespace }},{{ .Release.Name }}-api.{{ .Release.Namespace }}.svc,{{ .Release.Name }}-api.{{ .Release.Namespace }}.svc.cluster.local{{ range .Values.hosts }},{{ . }}{{ end }}
{{- end }}

{{/* Where agents call the API. Those of two regions call the public name, which leads to the primary. */}}
{{- define "reelay.endpoint" -}}
{{- if .Values.agentEndpoint }}{{ .Values.agentEndpoint }}{{ else if (index .Values.settings "REELAY_REGION") }}{{ .Values.publicURL }}{{ else -}}
http://{{ .Release.Name }}-api.{{ .Release.Namespace }}.svc{{ if ne (int .Values.service.port) 80 }}:{{ .Values.service.port }}{{ end }}{{ end }}
{{- end }}

{{/* Copies stand on different nodes, as far as there are any. */}}
{{- define "reelay.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {app.kubernetes.io/name: {{ .root.Chart.Name }}, app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .component }}}
{{- end }}
