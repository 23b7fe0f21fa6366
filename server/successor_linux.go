package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// Succeeded says whether another process listens on every address of this server too, which takes its Apply. It is false before there are
// any, and outside of Linux.
func (s *Server) Succeeded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ep := range s.bound {
		if listening(ep.addr) < 2 { // this server has one, bound after those for UDP
			return false
		}
	}
	return len(s.bound) > 0
}

// listening counts the sockets that listen for TCP on an address in this network namespace, whoever has them (proc(5), /proc/net/tcp).
func listening(ap netip.AddrPort) (n int) {
	path := "/proc/self/net/tcp"
	if ap.Addr().Is6() {
		path += "6"
	}
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // the heading
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != stateListen {
			break // those that listen come first
		}
		if fields[1] == inProc(ap) {
			n++
		}
	}
	return n
}

// stateListen is TCP_LISTEN of linux/tcp_states.h.
const stateListen = "0A"

// inProc is how the kernel writes an address: words in its own order of bytes.
func inProc(ap netip.AddrPort) string {
	var b strings.Builder
	for words := ap.Addr().AsSlice(); len(words) > 0; words = words[4:] {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(words))
	}
	fmt.Fprintf(&b, ":%04X", ap.Port())
	return b.String()
}
