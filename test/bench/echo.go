//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/clusterdns/clusterdns/server"
)

// internal are the servers that this program is itself, when it starts itself again, and the reader of a log. It returns only with what ended it.
func internal(what, addr string) error {
	if what == "internal-reader" {
		return readLines()
	}
	lc := net.ListenConfig{Control: server.SharePort}
	conns := make([]*net.UDPConn, runtime.GOMAXPROCS(0)) // one for each core
	for i := range conns {
		conn, err := lc.ListenPacket(context.Background(), "udp", addr)
		if err != nil {
			return err
		}
		conns[i] = conn.(*net.UDPConn)
		_ = conns[i].SetReadBuffer(4 << 20)
	}
	switch what {
	case "internal-echo":
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		go streams(ln)
		back := func(msg []byte, n int) int {
			msg[2] |= 0x80
			return n
		}
		for _, c := range conns[1:] {
			go func() { _ = datagrams(c, back) }() // it ends with the process
		}
		return datagrams(conns[0], back)
	case "internal-upstream":
		return datagrams(conns[0], answer)
	}
	return fmt.Errorf("unknown command %s", what)
}

// lostLines is how the log says that lines could not be written.
const lostLines = "plugin/log: "

// readLines reads a log from standard input to its end, and then prints how many lines there were and how many are said to be lost.
func readLines() error {
	lines, lost := 0, 0
	buf, rest := make([]byte, 64<<10), 0
	for {
		n, err := os.Stdin.Read(buf[rest:])
		text := buf[:rest+n]
		end := bytes.LastIndexByte(text, '\n') + 1
		lines += bytes.Count(text[:end], []byte{'\n'})
		if i := bytes.Index(text[:end], []byte(lostLines)); i >= 0 {
			said := 0
			_, _ = fmt.Sscan(string(text[i+len(lostLines):end]), &said)
			lost += said
		}
		rest = copy(buf, text[end:])
		if err != nil {
			_, err = fmt.Println(lines, lost)
			return err
		}
	}
}

// streams echoes what comes over TCP: all messages that one read brings go back in one write.
func streams(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			buf, have := make([]byte, 64<<10+2), 0
			for {
				n, err := conn.Read(buf[have:])
				if err != nil {
					return
				}
				have += n
				end := 0
				for end+4 < have {
					next := end + 2 + int(binary.BigEndian.Uint16(buf[end:]))
					if next > have {
						break
					}
					buf[end+4] |= 0x80
					end = next
				}
				if _, err := conn.Write(buf[:end]); err != nil {
					return
				}
				have = copy(buf, buf[end:have])
			}
		}()
	}
}

// answer makes a query with or without OPT into a reply with one A record of 300 s.
func answer(msg []byte, n int) int {
	end := 12
	for end < n && msg[end] != 0 {
		end += int(msg[end]) + 1
	}
	end += 5
	if end > n {
		return 0
	}
	msg[2], msg[3] = 0x81|msg[2]&1, 0x80
	msg[7], msg[9], msg[11] = 1, 0, 0
	return end + copy(msg[end:], []byte{0xC0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1})
}

// batch is how many datagrams one system call moves.
const batch = 32

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// datagrams receives and sends in batches as fast as this system can: the cost below which no server gets.
func datagrams(conn *net.UDPConn, reply func(msg []byte, n int) int) error {
	rc, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var (
		hdrs  [batch]mmsghdr
		vecs  [batch]unix.Iovec
		bufs  [batch][4096]byte
		names [batch][unix.SizeofSockaddrInet6]byte
		got   int
	)
	for i := range hdrs {
		vecs[i].Base = &bufs[i][0]
		hdrs[i].hdr.Iov, hdrs[i].hdr.Name = &vecs[i], &names[i][0]
		hdrs[i].hdr.SetIovlen(1)
	}
	receive := func(fd uintptr) bool {
		for i := range hdrs {
			hdrs[i].hdr.Namelen = unix.SizeofSockaddrInet6
			vecs[i].SetLen(len(bufs[i]))
		}
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&hdrs)), batch, unix.MSG_DONTWAIT, 0, 0)
		got = int(n)
		return errno != unix.EAGAIN
	}
	send := func(fd uintptr) bool {
		_, _, _ = unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&hdrs)), uintptr(got), unix.MSG_DONTWAIT, 0, 0)
		return true
	}
	for {
		if err := rc.Read(receive); err != nil {
			return err
		}
		for i := range got {
			vecs[i].SetLen(reply(bufs[i][:], int(hdrs[i].n)))
		}
		if err := rc.Write(send); err != nil {
			return err
		}
	}
}
