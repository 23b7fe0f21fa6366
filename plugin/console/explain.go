package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// Explanation is what GET /explain?o=json says of a name, as far as the page shows it.
type Explanation struct {
	Name       string
	From       string
	NDots      int
	Search     []string
	Candidates []struct {
		Name    string
		Outcome string
		Answers []struct {
			Type, RCode, By, Error string
			Records, Reasons       []string
		}
	}
	Service *struct {
		Namespace, Name, Type, ExternalName, Selector string
		Addresses                                     []string
		PublishNotReadyAddresses                      bool
		Ports                                         []ExplainedPort
		EndpointSlices                                []struct {
			Name      string
			Endpoints []struct {
				Address, Hostname, Pod, Node, Why string
				Ready, Published                  bool
			}
		}
	}
	Verdict struct {
		Kind, Summary string
		Notes         []string
	}
	Next []string
}

// ExplainedPort is a port of a Service in an Explanation.
type ExplainedPort struct {
	Name       string
	Port       int
	Protocol   string
	TargetPort string
	Problem    string
}

// question is the page of the explain box.
type question struct {
	Name, From, NDots string
	Error             string
	Answer            *Explanation
	Available         bool
}

// explain answers programs as the subcommand does, and browsers with a page. A browser says that it takes HTML.
func (c *Console) explain(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	forPeople := q.Get("o") == "html" || q.Get("o") == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
	p := &question{Name: q.Get("name"), From: q.Get("from"), NDots: q.Get("ndots"), Available: c.deps.Explain != nil}
	status, release := http.StatusOK, func() {}
	if p.Name != "" || !forPeople {
		status, release = c.admit(p)
	}
	defer release()
	switch {
	case forPeople && p.Name != "" && p.Error == "":
		status = p.ask(c.deps.Explain, r)
	case !forPeople && p.Error != "":
		http.Error(w, p.Error, status)
		return
	case !forPeople:
		c.deps.Explain.ServeHTTP(w, r)
		return
	}
	c.show(w, status, "explain", page{Title: "Explain", Here: "explain", Body: p})
}

// admit says whether a name can be explained at this moment; release is called when it has been.
func (c *Console) admit(p *question) (status int, release func()) {
	if !p.Available {
		p.Error = "names cannot be explained here"
		return http.StatusNotFound, func() {}
	}
	select {
	case c.asking <- struct{}{}:
		return http.StatusOK, func() { <-c.asking }
	default:
		p.Error = "other names are being explained; try again"
		return http.StatusTooManyRequests, func() {}
	}
}

// ask has the name explained as a program would.
func (p *question) ask(h http.Handler, r *http.Request) (status int) {
	inner := r.Clone(r.Context())
	q := inner.URL.Query()
	if p.NDots == "" {
		q.Del("ndots")
	}
	q.Set("o", "json")
	inner.Method, inner.URL.RawQuery = http.MethodGet, q.Encode()
	answer := &captured{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(answer, inner)
	if answer.status != http.StatusOK {
		p.Error = strings.TrimSpace(answer.body.String())
		return answer.status
	}
	p.Answer = new(Explanation)
	if err := json.Unmarshal(answer.body.Bytes(), p.Answer); err != nil {
		p.Answer, p.Error = nil, err.Error()
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// captured is a response that is kept.
type captured struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *captured) Header() http.Header         { return c.header }
func (c *captured) Write(b []byte) (int, error) { return c.body.Write(b) }
func (c *captured) WriteHeader(status int)      { c.status = status }
