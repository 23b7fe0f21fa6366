package server_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// variety answers with what HTTP has to say different things of: one TTL or several, a negative answer with its SOA record, and failures.
func variety(r *server.Reply, q *server.Query) server.Verdict {
	r.SetAA()
	switch q.Type {
	case wire.TypeA:
		r.A(server.Answer, server.Owner, 300, [4]byte{192, 0, 2, 1})
		r.A(server.Answer, server.Owner, uint32(q.Name.Len()), [4]byte{192, 0, 2, 2})
	case wire.TypeTXT:
		return r.Fail(nil)
	default:
		r.SetRCode(wire.RCodeNXDomain)
		name := wire.MustCanonical("example.org.")
		r.SOA(server.Authority, []byte(name), 600, &server.SOA{MName: []byte(name), RName: []byte(name), Negative: 7})
	}
	return server.Done
}

// model is what RFC 8484 4.1 and 6 make of a request: the message, or the status that refuses it.
func model(get bool, query, contentType string, body []byte) (msg []byte, status int) {
	if get {
		values, _ := url.ParseQuery(query) // what cannot be read of it is left out
		msg, err := base64.RawURLEncoding.DecodeString(values.Get("dns"))
		if err != nil || len(msg) == 0 && values.Get("dns") == "" {
			return nil, http.StatusBadRequest
		}
		return msg, 0
	}
	switch {
	case contentType != "application/dns-message":
		return nil, http.StatusUnsupportedMediaType
	case len(body) > wire.MaxMessage:
		return nil, http.StatusRequestEntityTooLarge
	}
	return body, 0
}

// freshness is how long a reply may be kept (RFC 8484 5.1), by miekg/dns.
func freshness(m *dns.Msg) (age uint32) {
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0
	}
	first := true
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			ttl := rr.Header().Ttl
			if soa, ok := rr.(*dns.SOA); ok {
				ttl = min(ttl, soa.Minttl)
			}
			if first || ttl < age {
				age, first = ttl, false
			}
		}
	}
	return age
}

// FuzzHTTPS sends any request by GET and by POST. The status is that of the model; a reply is the one that the same message gets in process,
// and may be kept for as long as miekg/dns reads in it.
func FuzzHTTPS(f *testing.F) {
	for _, m := range []*dns.Msg{
		servertest.Query("www.example.org.", dns.TypeA, 0), servertest.Query("www.example.org.", dns.TypeAAAA, 1232), servertest.Query(".", dns.TypeTXT, 65535),
		new(dns.Msg).SetReply(servertest.Query("x.", dns.TypeA, 0)), new(dns.Msg).SetUpdate("example.org."), new(dns.Msg).SetNotify("example.org."),
	} {
		b := servertest.Pack(f, m)
		text := base64.RawURLEncoding.EncodeToString(b)
		f.Add(true, "dns="+text, "", []byte(nil))
		f.Add(true, "a=b;c&dns="+text+"&dns=AAAA", "text/plain", b)
		f.Add(true, "dns="+base64.StdEncoding.EncodeToString(b), "", []byte(nil))
		f.Add(true, "%64ns="+text[:len(text)-1]+"%41", "", []byte(nil))
		f.Add(false, "dns="+text, "application/dns-message", b)
		f.Add(false, "", "application/dns-message; charset=utf-8", b)
		f.Add(false, "", "application/dns-message", b[:7])
	}
	blocks := []*server.Block{servertest.Block(".", stage(handler(variety)))}
	direct, web := servertest.Direct(blocks...), server.HTTPHandler(blocks)
	f.Fuzz(func(t *testing.T, get bool, query, contentType string, body []byte) {
		req := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/dns-query", RawQuery: query}, Header: http.Header{"Content-Type": {contentType}},
			Body: io.NopCloser(bytes.NewReader(body)), RemoteAddr: servertest.Client.String()}
		if get {
			req.Method = http.MethodGet
		}
		res := httptest.NewRecorder()
		web.ServeHTTP(res, req)
		judgeHTTPS(t, direct, req, res, body)
	})
}

func judgeHTTPS(t *testing.T, direct *server.Direct, req *http.Request, res *httptest.ResponseRecorder, body []byte) {
	t.Helper()
	msg, status := model(req.Method == http.MethodGet, req.URL.RawQuery, req.Header.Get("Content-Type"), body)
	want, ok := []byte(nil), false
	if status == 0 {
		want, ok = direct.Answer(msg, servertest.Client, server.HTTPS)
		if status = http.StatusOK; !ok {
			status = http.StatusBadRequest
		}
	}
	if res.Code != status {
		t.Fatalf("%d, want %d: %s", res.Code, status, res.Body)
	}
	if !ok {
		return
	}
	got := res.Body.Bytes()
	var m dns.Msg
	if err := m.Unpack(got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("reply %x, %v, want %x", got, err, want)
	}
	if cc, age := res.Header().Get("Cache-Control"), fmt.Sprintf("max-age=%d", freshness(&m)); cc != age {
		t.Errorf("%s, want %s, for\n%v", cc, age, &m)
	}
}
