package conformance

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterdns/clusterdns/test/internal/kubeapi"
)

// kubeconfigVar names the variable of the environment that holds the kubeconfig of an API server. If it is set, the cluster is read from
// there, after it was filled from testdata/cluster.yaml; otherwise from that file itself.
//
// The API server must run without controllers (the ones for EndpointSlices would replace the recorded ones, the node's would give the
// Pods up), and with Service ranges 10.96.0.0/12 and fd00:10:96::/112. The kubeconfig must have a token.
const kubeconfigVar = "CLUSTERDNS_KUBECONFIG"

// source is the option that says where the cluster is read from.
func source(t *testing.T) string {
	t.Helper()
	file := os.Getenv(kubeconfigVar)
	if file == "" {
		return "manifests ../cluster.yaml"
	}
	if err := fillOnce(); err != nil {
		t.Fatal(err)
	}
	return "kubeconfig " + file
}

// fillOnce fills the API server of a kubeconfig once, for all variants.
var fillOnce = sync.OnceValue(func() error { return fill(os.Getenv(kubeconfigVar)) })

// object is what has to be known of any object.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

func (o *object) collection() string {
	plural := strings.ToLower(o.Kind) + "s"
	group := "/api/v1"
	if o.Kind == "EndpointSlice" {
		group = "/apis/discovery.k8s.io/v1"
	}
	if o.Metadata.Namespace != "" {
		return group + "/namespaces/" + o.Metadata.Namespace + "/" + plural
	}
	return group + "/" + plural
}

// fill makes the API server hold what cluster.yaml holds, and no other Services and EndpointSlices.
func fill(file string) error {
	a, err := kubeapi.New(file)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	var docs []string
	for _, doc := range strings.Split("\n"+string(text), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return err
		}
		if o.Kind != "" {
			keep[o.collection()+"/"+o.Metadata.Name] = true
			docs = append(docs, doc)
		}
	}
	if err := discard(a, "/api/v1/services", "Service", keep); err != nil {
		return err
	}
	if err := discard(a, "/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice", keep); err != nil {
		return err
	}
	for _, doc := range docs {
		if err := put(a, doc); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes the objects of a kind that are not to be kept.
func discard(a *kubeapi.Client, path, kind string, keep map[string]bool) error {
	var list struct {
		Items []object `json:"items"`
	}
	if _, err := a.Call(http.MethodGet, path, "json", nil, &list, http.StatusConflict, http.StatusNotFound); err != nil {
		return err
	}
	for _, o := range list.Items {
		o.Kind = kind
		if at := o.collection() + "/" + o.Metadata.Name; !keep[at] {
			if _, err := a.Call(http.MethodDelete, at, "json", nil, nil, http.StatusConflict, http.StatusNotFound); err != nil {
				return err
			}
		}
	}
	return nil
}

// put creates or changes an object, its status included.
func put(a *kubeapi.Client, doc string) error {
	var o object
	var all map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(doc), &o), yaml.Unmarshal([]byte(doc), &all)); err != nil {
		return err
	}
	meta := all["metadata"].(map[string]any)
	ending := meta["deletionTimestamp"] != nil
	if ending {
		meta["finalizers"] = []string{"clusterdns.example/keep"} // so that it stays, as one that is ending
	}
	for _, f := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "creationTimestamp", "uid", "resourceVersion", "generateName"} {
		delete(meta, f) // the API server's own to set
	}
	at := o.collection() + "/" + o.Metadata.Name
	change := all
	if o.Kind == "Pod" { // whose spec is for good
		change = map[string]any{"metadata": meta}
	}
	code, err := a.Call(http.MethodPatch, at, "merge-patch+json", change, nil, http.StatusConflict, http.StatusNotFound)
	if err == nil && code == http.StatusNotFound {
		_, err = a.Call(http.MethodPost, o.collection(), "json", all, nil, http.StatusConflict, http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	switch o.Kind {
	case "Namespace": // Pods need one
		account := map[string]any{"metadata": map[string]any{"name": "default"}}
		_, err = a.Call(http.MethodPost, "/api/v1/namespaces/"+o.Metadata.Name+"/serviceaccounts", "json", account, nil, http.StatusConflict, http.StatusNotFound)
	case "Pod", "Service":
		_, err = a.Call(http.MethodPatch, at+"/status", "merge-patch+json", map[string]any{"status": all["status"]}, nil, http.StatusConflict, http.StatusNotFound)
	}
	if err == nil && ending {
		_, err = a.Call(http.MethodDelete, at, "json", nil, nil, http.StatusConflict, http.StatusNotFound)
	}
	return err
}
