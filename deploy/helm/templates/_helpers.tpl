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

{{/* The settings of api, control and migrate. */}}
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
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
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

{{- define "reelay.endpoint" -}}
http://{{ .Release.Name }}-api.{{ .Release.Namespace }}.svc{{ if ne (int .Values.service.port) 80 }}:{{ .Values.service.port }}{{ end }}
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
