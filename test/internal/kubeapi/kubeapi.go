// Package kubeapi speaks to a Kubernetes API server, for tests and tools that fill one.
package kubeapi

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"sigs.k8s.io/yaml"
)

// patience bounds one request, on a loaded machine and with an API server that has just been started.
const patience = time.Minute

// Client speaks to one API server. It may be used concurrently.
type Client struct {
	server, token string
	http          *http.Client
}

// New reads a kubeconfig of one cluster and one user with a token. The server's certificate is not looked at.
func New(kubeconfig string) (*Client, error) {
	var k struct {
		Clusters []struct {
			Cluster struct{ Server string } `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct{ Token string } `json:"user"`
		} `json:"users"`
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("%s: %w", kubeconfig, err)
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 {
		return nil, fmt.Errorf("%s: want one cluster and one user", kubeconfig)
	}
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	return &Client{k.Clusters[0].Cluster.Server, k.Users[0].User.Token, &http.Client{Transport: t, Timeout: patience}}, nil
}

// Call makes a request with in as JSON of a kind, such as "json" or "merge-patch+json", and reads the reply into out unless that is nil. It gives the
// reply's status; one of 300 or more that is not among the expected ones is an error.
func (c *Client) Call(method, path, kind string, in, out any, expected ...int) (status int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequest(method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/"+kind)
	reply, err := c.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	switch {
	case err != nil:
		return 0, err
	case reply.StatusCode >= 300 && !slices.Contains(expected, reply.StatusCode):
		return reply.StatusCode, fmt.Errorf("%s %s: %s: %s", method, path, reply.Status, text)
	case out != nil:
		err = json.Unmarshal(text, out)
	}
	return reply.StatusCode, err
}
