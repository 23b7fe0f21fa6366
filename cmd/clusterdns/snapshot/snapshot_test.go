package snapshot_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/snapshot"
	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func flags(t *testing.T, args ...string) *snapshot.Flags {
	t.Helper()
	var f snapshot.Flags
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	f.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	file = filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestUsualKubeconfig: without flags, the first file of $KUBECONFIG that exists counts, as with kubectl, and without one it is said what to do.
func TestUsualKubeconfig(t *testing.T) {
	s := kubetest.Start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nosuch")+string(filepath.ListSeparator)+s.Kubeconfig("", kubetest.Token))
	snap, err := flags(t).Read(t.Context(), "")
	if err != nil || strings.Join(snap.Inventories()[0].NamespaceNames(), " ") != "shop" {
		t.Errorf("%+v, %v", snap, err)
	}
	t.Setenv("KUBECONFIG", "no/such:no/other")
	if _, err := flags(t).Read(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "looked for: no/such, no/other") {
		t.Errorf("no kubeconfig where $KUBECONFIG says: %v", err)
	}
	t.Setenv("KUBECONFIG", "")
	if _, err := flags(t).Read(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "-manifests") {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// TestCorefile: every cluster of a Corefile is read, each once, and one without any is an error.
func TestCorefile(t *testing.T) {
	t.Parallel()
	one := write(t, "my cluster \"one\".yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n")
	two := write(t, "two.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: two}\n")
	quoted := `"` + strings.ReplaceAll(one, `"`, `\"`) + `"`
	conf := write(t, "Corefile", "one.local:53 two.local:53 {\n kubernetes one.local two.local in-addr.arpa {\n  manifests "+quoted+"\n }\n}\nthree.local:53 {\n kubernetes {\n  manifests "+two+"\n }\n}\n")
	snap, err := flags(t, "-conf", conf).Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(snap.Close)
	if got := strings.Join(snap.Zones(), " "); len(snap.Inventories()) != 2 || got != "one.local. two.local. three.local." {
		t.Errorf("%d clusters, zones %s", len(snap.Inventories()), got)
	}
	byFlag, err := flags(t, "-manifests", one, "-manifests", two).Read(t.Context(), "my.zone")
	if err != nil || strings.Join(byFlag.Inventories()[0].NamespaceNames(), " ") != "one two" || byFlag.Zones()[0] != "my.zone." {
		t.Errorf("%+v, %v", byFlag, err)
	}
	deployment := write(t, "deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n")
	for _, path := range []string{t.TempDir(), deployment} {
		if _, err := flags(t, "-manifests", path).Read(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no object of a cluster in "+path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := flags(t, "-conf", write(t, "Corefile", ".:53 {\n whoami\n}\n")).Read(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no directive kubernetes") {
		t.Errorf("no cluster: %v", err)
	}
	if _, err := flags(t, "-conf", write(t, "Corefile", ".:53 {\n nosuch\n}\n")).Read(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "Corefile:2") {
		t.Errorf("a bad Corefile: %v", err)
	}
}

func TestComplain(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	snapshot.Complain(&b, "x", errors.Join(errors.New("manifests: one"), errors.New("one"), errors.New("two")))
	if b.String() != "clusterdns x: manifests: one\nclusterdns x: two\n" {
		t.Error(b.String())
	}
}
