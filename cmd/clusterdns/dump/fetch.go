package dump

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"
)

// adminPort is the port of the directive console unless it says another.
const adminPort = "8053"

// adminAddress completes an address with the usual port.
func adminAddress(addr string) (string, error) {
	if strings.Contains(addr, "/") {
		return "", fmt.Errorf("-admin: %q is not an address; write it like 127.0.0.1:%s", addr, adminPort)
	}
	if ip, err := netip.ParseAddr(strings.Trim(addr, "[]")); err == nil {
		return net.JoinHostPort(ip.String(), adminPort), nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil && !strings.Contains(addr, ":") {
		host, port = addr, adminPort
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" {
		return "", fmt.Errorf("-admin: %q is not an address; write it like 127.0.0.1:%s", addr, adminPort)
	}
	return net.JoinHostPort(host, port), nil
}

const (
	// connectPatience is how long a server may take to take a connection and to begin its answer. It is on this machine or behind a port-forward, and has
	// the answer in memory.
	connectPatience = 10 * time.Second
	// maxComplaint bounds what is shown of an answer that is none.
	maxComplaint = 500
)

// fetch copies what a running server has in memory. How long the whole of it may take is for ctx to say.
func fetch(ctx context.Context, addr string, anonymize bool, to io.Writer) error {
	client := &http.Client{
		// No proxy: the address is this machine's or a Pod's. No redirection: what it leads to is not the server that was named.
		Transport:     &http.Transport{ResponseHeaderTimeout: connectPatience, DialContext: (&net.Dialer{Timeout: connectPatience}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	u := url.URL{Scheme: "http", Host: addr, Path: "/dump", RawQuery: "anonymize=" + strconv.FormatBool(anonymize)}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause // without the URL, which nobody typed
		}
		return fmt.Errorf("%s: %w: is the directive console of the server there?", addr, err)
	}
	defer resp.Body.Close()
	if err := complaint(addr, resp); err != nil {
		return err
	}
	if err := beautify(to, resp.Body); err != nil {
		return fmt.Errorf("%s: the dump is not whole: %w", addr, err)
	}
	return nil
}

// maxLine bounds a line of a dump: an EndpointSlice of 1000 endpoints has some 150 kB.
const maxLine = 16 << 20

// beautify writes what a server sends, lines of JSON between comments and marks of documents, as other dumps are.
func beautify(to io.Writer, from io.Reader) error {
	lines, out := bufio.NewScanner(from), bufio.NewWriter(to)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		text := lines.Bytes()
		if len(text) > 0 && text[0] == '{' {
			var err error
			if text, err = yaml.JSONToYAML(text); err != nil {
				return errors.Join(err, out.Flush())
			}
			text = bytes.TrimSuffix(text, []byte("\n"))
		}
		if _, err := fmt.Fprintf(out, "%s\n", text); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), out.Flush())
}

// noSuchPage is what servers of Go's library say that have other pages than this one: another directive's, for instance.
const noSuchPage = "404 page not found"

// complaint is what is wrong with an answer that is not a dump.
func complaint(addr string, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == mediaType {
		return nil
	}
	text := "this is no console of clusterdns"
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") && resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxComplaint))
		if said := strings.TrimSpace(string(b)); said != noSuchPage {
			text = said
		}
	}
	return fmt.Errorf("%s: %s: %s", addr, resp.Status, strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text))
}
