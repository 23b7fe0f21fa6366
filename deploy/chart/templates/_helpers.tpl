{{- define "clusterdns.name" -}}
{{- default .Release.Name .Values.deployment.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "clusterdns.serviceName" -}}
{{- default (include "clusterdns.name" .) .Values.service.name -}}
{{- end -}}

{{- define "clusterdns.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "clusterdns.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "clusterdns.clusterRoleName" -}}
{{- default (printf "system:%s" (include "clusterdns.name" .)) .Values.clusterRole.nameOverride -}}
{{- end -}}

{{- define "clusterdns.k8sapp" -}}
{{- default (include "clusterdns.name" .) .Values.k8sAppLabelOverride -}}
{{- end -}}

{{/* What selects the pods; it cannot change in the life of a release. */}}
{{- define "clusterdns.selector" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/name: clusterdns
k8s-app: {{ include "clusterdns.k8sapp" . }}
{{- end -}}

{{- define "clusterdns.labels" -}}
{{ include "clusterdns.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: "{{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}"
{{- if .Values.isClusterService }}
kubernetes.io/cluster-service: "true"
kubernetes.io/name: CoreDNS
{{- end }}
{{- with .Values.customLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The Corefile. */}}
{{- define "clusterdns.corefile" -}}
{{- range $name, $conf := .Values.extraConfig }}
{{ $name }}{{ with $conf.parameters }} {{ . }}{{ end }}
{{- end }}
{{- range .Values.servers }}
{{- $server := . }}
{{ range $i, $zone := default (list (dict "zone" ".")) .zones }}{{ if $i }} {{ end }}{{ $zone.scheme | default "" }}{{ $zone.zone | default "." }}{{ with $server.port }}:{{ . }}{{ end }}{{ end }} {
{{- range .plugins }}
    {{ .name }}{{ if hasKey . "parameters" }} {{ .parameters }}{{ end }}{{ with .configBlock }} {
{{ . | indent 8 }}
    }{{ end }}
{{- end }}
}
{{- end }}
{{- end -}}

{{/* "yes" if a directive needs to read Pods. */}}
{{- define "clusterdns.readsPods" -}}
{{- if regexMatch "(?m)^\\s*(pods\\s+verified|endpoint_pod_names\\s+verified|autopath\\s+(\\S+\\s+)*@kubernetes|metadata\\b)" (include "clusterdns.corefile" .) }}yes{{ end -}}
{{- end -}}

{{/* Ports of the servers as a list of dicts: port, protocol, name, servicePort, hostPort, nodePort. A port is served over UDP, and over TCP too where
a zone says use_tcp; zones with tls:// and https:// over TCP alone. */}}
{{- define "clusterdns.ports" -}}
{{- $out := dict -}}
{{- range .Values.servers -}}
{{- $server := . -}}
{{- $port := .port | default 53 | toString -}}
{{- range default (list (dict "zone" ".")) .zones -}}
{{- $scheme := .scheme | default "dns://" -}}
{{- $protocols := list -}}
{{- if eq $scheme "dns://" -}}
{{- $protocols = append $protocols "UDP" -}}
{{- if .use_tcp }}{{- $protocols = append $protocols "TCP" -}}{{- end -}}
{{- else -}}
{{- $protocols = append $protocols "TCP" -}}
{{- end -}}
{{- range $protocols -}}
{{- $entry := dict "port" (int $port) "protocol" . "name" (printf "%s-%s" (lower .) $port) "servicePort" (int ($server.servicePort | default $port)) -}}
{{- with $server.hostPort }}{{- $_ := set $entry "hostPort" (int .) -}}{{- end -}}
{{- with $server.nodePort }}{{- $_ := set $entry "nodePort" (int .) -}}{{- end -}}
{{- $_ := set $out (printf "%s-%s" $port .) $entry -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $sorted := list -}}
{{- range keys $out | sortAlpha -}}
{{- $sorted = append $sorted (get $out .) -}}
{{- end -}}
{{- toYaml $sorted -}}
{{- end -}}

{{/* Values of the CoreDNS chart that mean nothing here must not be passed over in silence. */}}
{{- define "clusterdns.check" -}}
{{- if .Values.autoscaler.enabled -}}
{{- fail "autoscaler: the cluster-proportional autoscaler is not part of this chart; use hpa, see deploy/autoscale" -}}
{{- end -}}
{{- if .Values.rbac.pspEnable -}}
{{- fail "rbac.pspEnable: Kubernetes has no PodSecurityPolicy any more; the pods meet the restricted Pod Security Standard but for NET_BIND_SERVICE, which it allows" -}}
{{- end -}}
{{- if and (eq (toString .Values.rollingUpdate.maxSurge) "0") (eq (toString .Values.rollingUpdate.maxUnavailable) "0") -}}
{{- fail "rollingUpdate: maxSurge and maxUnavailable cannot both be 0, and maxUnavailable is where it is not set" -}}
{{- end -}}
{{- if .Values.autoscaling -}}
{{- fail "autoscaling: write hpa instead" -}}
{{- end -}}
{{- if or .Values.nameOverride .Values.fullnameOverride -}}
{{- fail "nameOverride, fullnameOverride: write deployment.name and service.name instead" -}}
{{- end -}}
{{- range .Values.servers -}}
{{- range .zones -}}
{{- if not (has (.scheme | default "dns://") (list "dns://" "tls://" "https://")) -}}
{{- fail (printf "servers: the scheme %s is not served; write dns://, tls:// or https:// instead" .scheme) -}}
{{- end -}}
{{- end -}}
{{- range keys (omit . "zones" "port" "servicePort" "nodePort" "hostPort" "plugins") | sortAlpha -}}
{{- fail (printf "servers: %s is not known; known are zones, port, servicePort, nodePort, hostPort and plugins" .) -}}
{{- end -}}
{{- end -}}
{{- $known := list "global" "image" "replicaCount" "resources" "rollingUpdate" "terminationGracePeriodSeconds" "preStopSleep" "podAnnotations" "serviceType" "prometheus"
    "service" "serviceAccount" "rbac" "clusterRole" "isClusterService" "priorityClassName" "podSecurityContext" "securityContext" "servers" "extraConfig"
    "livenessProbe" "readinessProbe" "affinity" "topologySpreadConstraints" "nodeSelector" "tolerations" "podDisruptionBudget" "zoneFiles" "initContainers"
    "extraContainers" "extraVolumes" "extraVolumeMounts" "extraSecrets" "env" "k8sAppLabelOverride" "customLabels" "customAnnotations" "hpa" "autoscaler"
    "deployment" -}}
{{- /* Left out are what is judged above, and what a chart that has this one as a dependency may say of it as its condition. */ -}}
{{- range keys (omit .Values "autoscaling" "nameOverride" "fullnameOverride" "enabled") | sortAlpha -}}
{{- if not (has . $known) -}}
{{- fail (printf "%s is not known; known are %s" . ($known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
