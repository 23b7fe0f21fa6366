package security_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/server"
)

// TestDocs holds the page about security to what is so: the limits, the vulnerabilities, and the tests that it names.
func TestDocs(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	page, l := string(b), server.DefaultLimits()
	for _, want := range []string{
		fmt.Sprintf("| query * | %d bytes |", l.QuerySize),
		fmt.Sprintf("| queries that wait at once * | %d |", l.Parked),
		fmt.Sprintf("| queries of one client that wait at once * | %d |", l.ParkedPerClient),
		fmt.Sprintf("| TCP connections of a listener * | %d |", l.TCPConns),
		fmt.Sprintf("| TCP connections of one client * | %d |", l.TCPPerClient),
		fmt.Sprintf("| queries of one TCP or TLS connection that wait at once * | %d |", l.TCPQueries),
		fmt.Sprintf("| a whole query by TCP *, and between two | %d s |", int(l.TCPIdle.Seconds())),
		fmt.Sprintf("| names followed for a question * | %d |", server.MaxFollows),
		"CVE-2019-19794", "CVE-2023-28452", "CVE-2025-47950", "CVE-2026-26017", "CVE-2026-26018", "CVE-2026-35579", "CVE-2026-86003",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for test, folder := range map[string]string{"TestRandomPortsAndIDs": "forward", "FuzzUpstreamReply": "forward", "TestNoWayRound": "plugin/acl"} {
		if !strings.Contains(page, test) || !defined(t, "../../"+folder, test) {
			t.Errorf("%s is not both on the page and in %s", test, folder)
		}
	}
}

func defined(t *testing.T, folder, test string) bool {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		b, err := os.ReadFile(folder + "/" + f.Name())
		if err == nil && strings.Contains(string(b), "func "+test+"(") {
			return true
		}
	}
	return false
}
