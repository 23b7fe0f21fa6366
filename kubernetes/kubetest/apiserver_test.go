package kubetest_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
)

// TestWatchersShareNothing lets several clients watch one server, from a streamed list on, while an object changes. Each sees the
// last change, and the race detector sees no write to what they share.
func TestWatchersShareNothing(t *testing.T) {
	t.Parallel()
	const watchers, changes = 4, 50
	service := func(n int) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "lab", Labels: map[string]string{"n": strconv.Itoa(n)}}}
	}
	api := kubetest.Start(t, service(0))
	certificate, err := x509.ParseCertificate(api.TLS().Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	var ended sync.WaitGroup
	for range watchers {
		ask, err := http.NewRequest(http.MethodGet, api.URL+"/api/v1/services?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", nil)
		if err != nil {
			t.Fatal(err)
		}
		ask.Header.Set("Authorization", "Bearer "+kubetest.Token)
		r, err := client.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		ended.Go(func() {
			last := strconv.Itoa(changes)
			events := json.NewDecoder(r.Body)
			for {
				var e struct{ Object corev1.Service }
				if err := events.Decode(&e); err != nil {
					t.Errorf("the watch ended before the last change: %v", err)
					return
				}
				if e.Object.Labels["n"] == last {
					return
				}
			}
		})
	}
	for n := range changes {
		api.Put(service(n + 1))
	}
	ended.Wait()
}
