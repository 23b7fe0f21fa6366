package server_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// malformed is one file of testdata/malformed: a message in hexadecimal, and what is to come of it: an rcode, or silence.
type malformed struct {
	name, reply string
	msg         []byte
}

func readMalformed(t *testing.T) (all []malformed) {
	t.Helper()
	files, err := filepath.Glob("testdata/malformed/*.txt")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		m := malformed{name: strings.TrimSuffix(filepath.Base(f), ".txt")}
		var digits strings.Builder
		for line := range strings.Lines(string(b)) {
			line = strings.TrimSpace(line)
			if r, ok := strings.CutPrefix(line, "# reply: "); ok {
				m.reply = r
			}
			if !strings.HasPrefix(line, "#") {
				digits.WriteString(line)
			}
		}
		if m.msg, err = hex.DecodeString(digits.String()); err != nil || m.reply == "" {
			t.Fatalf("%s: %v, reply %q", f, err, m.reply)
		}
		all = append(all, m)
	}
	return all
}

// answerAll answers every name and type.
func answerAll(r *server.Reply, _ *server.Query) server.Verdict {
	r.SetAA()
	return server.Done
}

// probe is the good query that follows a bad one: its reply shows that the server still serves, and that none came before it.
func probe(t *testing.T) []byte {
	m := servertest.Query("alive.", dns.TypeA, 0)
	m.Id = 0x5B5B
	return servertest.Pack(t, m)
}

var errSilence = errors.New("no reply")

// way sends a message by one transport and gives the reply, or errSilence.
type way struct {
	name string
	send func(t *testing.T, msg []byte) ([]byte, error)
}

// overDatagrams asks on a socket of its own, whose packets one worker of the server takes in order: if the reply to the probe comes first, there
// is none to the message.
func overDatagrams(addr string) way {
	return way{"udp", func(t *testing.T, msg []byte) ([]byte, error) {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		for _, m := range [][]byte{msg, probe(t)} {
			if _, err := conn.Write(m); err != nil {
				return nil, err
			}
		}
		buf := make([]byte, wire.MaxMessage)
		return replyBeforeProbe(t, func() ([]byte, error) {
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			n, err := conn.Read(buf)
			return bytes.Clone(buf[:n]), err
		})
	}}
}

// overStream asks on a connection of its own, and the probe on the same one: a malformed message does not end it, unless it is too short
// for a header.
func overStream(name string, dial func() (net.Conn, error)) way {
	return way{name, func(t *testing.T, msg []byte) ([]byte, error) {
		conn, err := dial()
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		var out []byte
		for _, m := range [][]byte{msg, probe(t)} {
			out = append(binary.BigEndian.AppendUint16(out, uint16(len(m))), m...)
		}
		if _, err := conn.Write(out); err != nil {
			return nil, err
		}
		if len(msg) < wire.HeaderLen {
			return nil, closed(conn)
		}
		return replyBeforeProbe(t, func() ([]byte, error) {
			var l [2]byte
			if _, err := io.ReadFull(conn, l[:]); err != nil {
				return nil, err
			}
			b := make([]byte, binary.BigEndian.Uint16(l[:]))
			_, err := io.ReadFull(conn, b)
			return b, err
		})
	}}
}

// closed waits for the end of a connection, which is silence if nothing comes before it.
func closed(conn net.Conn) error {
	n, err := conn.Read(make([]byte, 1))
	var late net.Error
	if n > 0 || errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("the connection is still open: %d bytes, %w", n, err)
	}
	return errSilence
}

func replyBeforeProbe(t *testing.T, read func() ([]byte, error)) ([]byte, error) {
	t.Helper()
	first, err := read()
	if err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint16(first) == 0x5B5B {
		return nil, errSilence
	}
	second, err := read()
	if err != nil || binary.BigEndian.Uint16(second) != 0x5B5B || second[3]&0xF != 0 {
		t.Errorf("the query behind it got %x, %v", second, err)
	}
	return first, nil
}

// overHTTPS posts the message. Silence is status 400 there.
func overHTTPS(client *http.Client, addr string) way {
	return way{"https", func(t *testing.T, msg []byte) ([]byte, error) {
		res, err := client.Post("https://"+addr+"/dns-query", "application/dns-message", bytes.NewReader(msg))
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusBadRequest {
			return nil, errSilence
		}
		return io.ReadAll(res.Body)
	}}
}

// ways are all the transports, each in front of the same block.
func ways(t *testing.T) []way {
	t.Helper()
	cert, roots := servertest.Certificate(t)
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	s := server.New(server.DefaultLimits(), server.Hooks{Panic: func(v any, stack []byte) { t.Errorf("panic: %v\n%s", v, stack) }})
	b := []*server.Block{servertest.Block(".", stage(handler(answerAll)))}
	if err := s.Apply([]server.Listener{
		{Host: "127.0.0.1", Port: "0", Blocks: b},
		{Transport: server.TLS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
		{Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
	}); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = s.Shutdown(t.Context()) // it has ended: what is still open is closed at once
	})
	plain := s.Addrs()["127.0.0.1:0"].String()
	secure := s.Addrs()["tls://127.0.0.1:0"].String()
	return []way{
		overDatagrams(plain),
		overStream("tcp", func() (net.Conn, error) { return net.Dial("tcp", plain) }),
		overStream("tls", func() (net.Conn, error) { return tls.Dial("tcp", secure, &tls.Config{RootCAs: roots}) }),
		overHTTPS(client, s.Addrs()["https://127.0.0.1:0"].String()),
	}
}

// TestGate sends every message of testdata/malformed by every transport. There is one gate: what it says does not depend on the way.
func TestGate(t *testing.T) {
	t.Parallel()
	all := ways(t)
	for _, m := range readMalformed(t) {
		for _, w := range all {
			reply, err := w.send(t, m.msg)
			switch {
			case errors.Is(err, errSilence) && m.reply == "silence":
			case err != nil:
				t.Errorf("%s over %s: %v, want %s", m.name, w.name, err, m.reply)
			default:
				judge(t, m, w.name, reply)
			}
		}
	}
}

// judge checks that a reply is the right one, belongs to its query, can be read, and does not amplify.
func judge(t *testing.T, m malformed, by string, reply []byte) {
	t.Helper()
	var got dns.Msg
	if err := got.Unpack(reply); err != nil {
		t.Errorf("%s over %s: reply %x: %v", m.name, by, reply, err)
		return
	}
	rcode := got.Rcode
	if rcode == dns.RcodeBadVers {
		rcode = int(wire.RCodeBadVers)
	}
	if text := wire.RCode(rcode).String(); text != m.reply {
		t.Errorf("%s over %s: %s, want %s", m.name, by, text, m.reply)
	}
	if got.Id != binary.BigEndian.Uint16(m.msg) || !got.Response || got.Opcode != int(m.msg[2]>>3&0xF) {
		t.Errorf("%s over %s: the reply %v does not belong to it", m.name, by, got.MsgHdr)
	}
	if len(reply) > len(m.msg)+11 { // 11 for OPT
		t.Errorf("%s over %s: %d bytes in, %d bytes out", m.name, by, len(m.msg), len(reply))
	}
	if n := len(got.Answer) + len(got.Ns); n > 0 {
		t.Errorf("%s over %s: %d records in the reply", m.name, by, n)
	}
}
