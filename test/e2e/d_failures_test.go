package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// TestFailures walks through the ways in which a Service does not work, which look alike from a browser and not from DNS.
func TestFailures(t *testing.T) {
	install(t)
	t.Run("no endpoints", func(t *testing.T) { refused(t, "web-no-endpoints") })
	t.Run("wrong port", func(t *testing.T) { refused(t, "web-wrong-port") })
	t.Run("why", func(t *testing.T) {
		if out := endpoints(t, "web-no-endpoints"); out != "" {
			t.Errorf("web-no-endpoints has endpoints %q", out)
		}
		if out := endpoints(t, "web-wrong-port"); out == "" {
			t.Error("web-wrong-port has no endpoints")
		}
	})
	t.Run("not ready", func(t *testing.T) {
		pods := strings.Fields(kubectl(t, "-n", "service-lab", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
		ip := podIP(t, pods[0])
		has := func(want bool) func() error {
			return func() error {
				got, err := data("web-headless"+lab, dns.TypeA)
				if err == nil && slices.Contains(got, ip) != want {
					err = fmt.Errorf("%v", got)
				}
				return err
			}
		}
		wait(t, "it is there", has(true))
		kubectl(t, "-n", "service-lab", "exec", pods[0], "--", "/lab", "ready", "off")
		t.Logf("a pod that is not ready leaves: %s, probe included", wait(t, "leaves", has(false)))
		kubectl(t, "-n", "service-lab", "exec", pods[0], "--", "/lab", "ready", "on")
		t.Logf("it returns: %s, probe included", wait(t, "returns", has(true)))
	})
}

// refused: the name resolves, and connecting is refused.
func refused(t *testing.T, service string) {
	t.Helper()
	ip := kubectl(t, "-n", "service-lab", "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")
	answers(t, service+" resolves", service+lab, dns.TypeA, ip)
	wait(t, service+" is refused", func() error {
		out, err := execute("/lab", "fetch", "http://"+service)
		if err == nil {
			return fmt.Errorf("it answered %q", out)
		}
		if !strings.Contains(err.Error(), "refused") {
			return errors.New("not refused, but " + err.Error())
		}
		return nil
	})
}

func endpoints(t *testing.T, service string) string {
	t.Helper()
	return kubectl(t, "-n", "service-lab", "get", "endpointslices", "-l", "kubernetes.io/service-name="+service, "-o", "jsonpath={.items[*].endpoints[*].addresses}")
}
