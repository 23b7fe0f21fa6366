package config

import "strings"

// spell gives settings the names that the Corefile has for them, where the fields' differ, and leaves out what no Corefile can say.
func spell(directive string, all []Setting) []Setting {
	names := spellings()[directive]
	var out []Setting
	for _, s := range all {
		name, other := names[s.Name]
		switch opposite, no := strings.CutPrefix(name, "!"); {
		case other && name == "":
			continue
		case no:
			s.Name = opposite
			s.Value = map[string]string{"true": "false", "false": "true"}[s.Value]
		case other:
			s.Name = name
		}
		if s.Value == `""` || s.From == "" && s.Value == "-1" { // nothing, and a number that follows from others
			s.Value = "-"
		}
		out = append(out, s)
	}
	return out
}

// spellings are by directive and field what a Corefile says: "" for what it cannot, and with "!" in front for the opposite.
func spellings() map[string]map[string]string {
	return map[string]map[string]string{
		"auto": {"dir": "directory", "pattern": "directory REGEXP", "origin": "directory ORIGIN"},
		"bind": {"hosts": "addresses"},
		"cache": {"stale": "serve_stale", "serv_fail": "servfail", "no_success": "disable success", "no_denial": "disable denial",
			"keep_ttl": "keepttl"},
		"erratic":      {"duration": "delay DURATION"},
		"file":         {"by_mtime": "reload_by_mtime"},
		"forward":      {"tls_server_name": "tls_servername", "fail_fast": "failfast_all_unhealthy_upstreams", "next_on_no_data": "next_on_nodata"},
		"hosts":        {"unsupported": "fallthrough_unsupported", "inline": "lines"},
		"k8s_external": {"primary": ""},
		"kubernetes": {"kubeconfig_file": "kubeconfig", "context": "kubeconfig CONTEXT", "tls_cert": "tls CERT", "tls_key": "tls KEY", "tlsca": "tls CACERT", "qps": "apiserver_qps",
			"burst": "apiserver_burst", "max_inflight": "apiserver_max_inflight", "ignore_empty": "ignore empty_service", "endpoints": "!noendpoints"},
		"log":         {"classes": "class", "labels": "json LABELS"},
		"multisocket": {"sockets": "number"},
		"pprof":       {"block_rate": "block"},
		"root":        {"dir": "path"},
		"secondary":   {"from": "transfer from", "members": "catalog ZONES"},
		"template":    {"has_error": "", "error_code": "ederror CODE", "errorcode": "ederror CODE", "error_text": "ederror TEXT"},
		"view":        {"exprs": "expr"},
	}
}
