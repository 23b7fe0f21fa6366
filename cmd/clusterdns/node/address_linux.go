package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopback is the interface that every network namespace has, and that leads nowhere.
const loopback = "lo"

// add gives the loopback interface an address, which may be there already.
func add(a netip.Addr) error {
	if err := change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, a); err != nil {
		return fmt.Errorf("adding %s: %w", a, err)
	}
	return nil
}

// remove takes an address from the loopback interface, where it need not be.
func remove(a netip.Addr) error {
	if err := change(unix.RTM_DELADDR, 0, a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("removing %s: %w", a, err)
	}
	return nil
}

// change makes a request about an address, and waits for the kernel to acknowledge it (netlink(7), rtnetlink(7)).
func change(typ, flags uint16, a netip.Addr) error {
	lo, err := net.InterfaceByName(loopback)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, request(typ, flags, lo.Index, a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	buf := make([]byte, unix.Getpagesize())
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	replies, err := syscall.ParseNetlinkMessage(buf[:n])
	if err != nil || len(replies) == 0 || replies[0].Header.Type != unix.NLMSG_ERROR || len(replies[0].Data) < 4 {
		return errors.New("netlink: a reply that is no acknowledgement")
	}
	switch errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(replies[0].Data))); errno { //nolint:gosec // the kernel counts down from 0
	case 0:
		return nil
	case unix.EPERM:
		return fmt.Errorf("%w (it needs the capability NET_ADMIN)", errno)
	default:
		return errno
	}
}

// request is a netlink message about an address of an interface without a network around it. Its scope is the host's, so that the kernel
// takes it for the source of nothing that leaves the node.
func request(typ, flags uint16, index int, a netip.Addr) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+unix.SizeofIfAddrmsg)
	binary.NativeEndian.PutUint16(b[4:], typ)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	msg := b[unix.SizeofNlMsghdr:]
	msg[0], msg[1], msg[3] = unix.AF_INET, byte(a.BitLen()), unix.RT_SCOPE_HOST
	if a.Is6() {
		msg[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(msg[4:], uint32(index)) //nolint:gosec // the kernel counts in 32 bits
	for _, attr := range []uint16{unix.IFA_LOCAL, unix.IFA_ADDRESS} {
		b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+a.BitLen()/8)) //nolint:gosec // 8 or 20
		b = binary.NativeEndian.AppendUint16(b, attr)
		b = append(b, a.AsSlice()...)
	}
	binary.NativeEndian.PutUint32(b, uint32(len(b))) //nolint:gosec // some dozens of bytes
	return b
}
