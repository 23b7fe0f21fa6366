package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fields are those of a mapping that are read, by their names in manifests; nil is everything in it. What is not among them may hold
// whatever it likes: a dump of a cluster is not refused for a field that no record is made of.
type fields map[string]fields

func only(names ...string) fields {
	f := fields{}
	for _, n := range names {
		f[n] = nil
	}
	return f
}

// with adds a field with fields of its own.
func (f fields) with(name string, sub fields) fields {
	f[name] = sub
	return f
}

func metadataFields() fields {
	return only("name", "namespace", "labels", "deletionTimestamp").
		with("annotations", only(corev1.EndpointsLastChangeTriggerTime, leaderAnnotation))
}

func objectFields() fields { return fields{}.with("metadata", metadataFields()) }

func serviceFields() fields {
	return objectFields().
		with("spec", only("type", "clusterIP", "clusterIPs", "externalIPs", "externalName", "selector", "publishNotReadyAddresses").
			with("ports", only("name", "port", "protocol", "targetPort"))).
		with("status", fields{}.with("loadBalancer", fields{}.with("ingress", only("ip", "hostname"))))
}

func sliceFields() fields {
	return objectFields().with("addressType", nil).
		with("ports", only("name", "port", "protocol")).
		with("endpoints", only("addresses", "conditions", "hostname", "zone", "nodeName").with("targetRef", only("kind", "name")))
}

func endpointsFields() fields {
	address := only("ip", "hostname", "nodeName").with("targetRef", only("kind", "name"))
	return objectFields().with("subsets", fields{}.with("addresses", address).with("notReadyAddresses", address).
		with("ports", only("name", "port", "protocol")))
}

// podFields are those of a Pod; full are what only explanations need as well.
func podFields(full bool) fields {
	status := only("phase", "podIP").with("podIPs", only("ip"))
	f := objectFields().with("status", status)
	if full {
		ports := only("name", "containerPort", "protocol")
		status.with("conditions", only("type", "status"))
		f.with("spec", only("nodeName", "hostNetwork", "dnsPolicy").
			with("dnsConfig", only("searches").with("options", only("name", "value"))).
			with("containers", only("name").with("ports", ports)).
			with("initContainers", only("name", "restartPolicy").with("ports", ports)))
	}
	return f
}

// fieldReader puts JSON into Go values, and collects what is wrong by the paths that Kubernetes gives fields: spec.ports[0].port.
type fieldReader struct {
	faults  []string // up to maxErrors
	unknown []string // fields that the Go type does not have
	names   map[reflect.Type]map[string]int
}

func (r *fieldReader) fault(path, format string, args ...any) {
	if len(r.faults) < maxErrors {
		if path != "" {
			path += ": "
		}
		r.faults = append(r.faults, path+fmt.Sprintf(format, args...))
	}
}

// read puts raw into v, of a mapping only those fields that are wanted.
func (r *fieldReader) read(raw json.RawMessage, v reflect.Value, want fields, path string) {
	if string(bytes.TrimSpace(raw)) == "null" {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if _, own := v.Addr().Interface().(json.Unmarshaler); own {
		r.leaf(raw, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.readStruct(raw, v, want, path)
	case reflect.Map:
		r.readMap(raw, v, want, path)
	case reflect.Slice:
		r.readSlice(raw, v, want, path)
	default:
		r.leaf(raw, v, path)
	}
}

func (r *fieldReader) leaf(raw json.RawMessage, v reflect.Value, path string) {
	if json.Unmarshal(raw, v.Addr().Interface()) == nil {
		return
	}
	v.SetZero()
	hint := ""
	switch raw[0] {
	case '"', '{', '[':
	default:
		if v.Kind() == reflect.String {
			hint = ": put quotes around it"
		}
	}
	r.fault(path, "%s is expected, not %s%s", expected(v), brief(raw), hint)
}

// expected says what a value of v's type is in manifests.
func expected(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	case reflect.Map:
		return "a mapping"
	}
	switch v.Type().Name() {
	case "Time":
		return "a time"
	case "IntOrString":
		return "a number or text"
	}
	return "a mapping"
}

// maxBrief is how much of a value a message shows: enough to know it again.
const maxBrief = 40

func brief(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) > maxBrief {
		return string(bytes.ToValidUTF8(raw[:maxBrief], nil)) + "…"
	}
	return string(raw)
}

func (r *fieldReader) readStruct(raw json.RawMessage, v reflect.Value, want fields, path string) {
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		r.fault(path, "%s is expected, not %s", expected(v), brief(raw))
		return
	}
	names := r.namesOf(v.Type())
	for _, key := range sortedKeys(parts) {
		i, known := names[key]
		sub, wanted := want[key]
		switch {
		case !known:
			r.unknown = append(r.unknown, join(path, key))
		case i >= 0 && (wanted || want == nil):
			r.read(parts[key], v.Field(i), sub, join(path, key))
		}
	}
}

// namesOf are the fields of a struct by their names in JSON; those of the kind, which has been read before, are -1.
func (r *fieldReader) namesOf(t reflect.Type) map[string]int {
	if names := r.names[t]; names != nil {
		return names
	}
	names := map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case name == "" && t.Field(i).Anonymous:
			names["kind"], names["apiVersion"] = -1, -1
		case name != "" && name != "-":
			names[name] = i
		}
	}
	if r.names == nil {
		r.names = map[reflect.Type]map[string]int{}
	}
	r.names[t] = names
	return names
}

func (r *fieldReader) readMap(raw json.RawMessage, v reflect.Value, want fields, path string) {
	var parts map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		r.fault(path, "%s is expected, not %s", expected(v), brief(raw))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, key := range sortedKeys(parts) {
		if _, wanted := want[key]; want != nil && !wanted {
			continue
		}
		e := reflect.New(v.Type().Elem()).Elem()
		r.read(parts[key], e, nil, fmt.Sprintf("%s[%s]", path, key))
		v.SetMapIndex(reflect.ValueOf(key), e)
	}
}

func (r *fieldReader) readSlice(raw json.RawMessage, v reflect.Value, want fields, path string) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		r.fault(path, "%s is expected, not %s", expected(v), brief(raw))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(parts), len(parts)))
	for i, p := range parts {
		r.read(p, v.Index(i), want, fmt.Sprintf("%s[%d]", path, i))
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
