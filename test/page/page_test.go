package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a tab of the browser, and what went wrong in it.
type tab struct {
	t        *testing.T
	ctx      context.Context
	origin   string
	mu       sync.Mutex
	troubles []string
}

// open opens a tab that fails the test when the page logs an error, breaks its own policy, or asks anybody else for anything.
func open(t *testing.T, origin string) *tab {
	t.Helper()
	browser, err := common.browser()
	if err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	ctx, closeTab := chromedp.NewContext(browser)
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	b := &tab{t: t, ctx: ctx, origin: origin}
	t.Cleanup(func() {
		cancel()
		closeTab()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.troubles {
			t.Errorf("in the browser: %s", s)
		}
	})
	chromedp.ListenTarget(ctx, b.listen)
	b.run(log.Enable(), network.Enable(), page.BringToFront())
	return b
}

// listen hears of what happens in the tab.
func (b *tab) listen(event any) {
	trouble := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		trouble = "exception: " + e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			trouble = fmt.Sprintf("console: %s", e.Type)
		}
	case *log.EventEntryAdded:
		trouble = fmt.Sprintf("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if b.origin != "" && !strings.HasPrefix(e.Request.URL, b.origin) {
			trouble = "request to " + e.Request.URL
		}
	}
	if trouble != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.troubles = append(b.troubles, trouble)
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// wait waits until an expression is true.
func (b *tab) wait(what, js string) {
	b.t.Helper()
	eventually(b.t, what, func() error {
		ok := false
		if err := chromedp.Run(b.ctx, chromedp.Evaluate(js, &ok)); err != nil {
			return err
		}
		if !ok {
			now := ""
			_ = chromedp.Run(b.ctx, chromedp.Evaluate(`location.href + "\n" + document.body.innerText`, &now))
			return fmt.Errorf("%s is false at %s", js, now)
		}
		return nil
	})
}

// contains waits until the element that a selector finds has texts. It is looked for anew each time, at once with its text: the page's script may put
// another in its place at any moment.
func (b *tab) contains(selector string, want ...string) {
	b.t.Helper()
	for _, w := range want {
		b.wait(fmt.Sprintf("%s says %q", selector, w), fmt.Sprintf(`!!document.querySelector(%q)?.textContent.includes(%q)`, selector, w))
	}
}

// size makes the window of a size; mobile pages are laid out as phones do.
func (b *tab) size(width, height int64, mobile bool) {
	b.t.Helper()
	b.run(emulation.SetDeviceMetricsOverride(width, height, 1, mobile))
}

// scheme sets what the user prefers, light or dark.
func (b *tab) scheme(value string) {
	b.t.Helper()
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}))
}

func TestOverview(t *testing.T) {
	d := start(t)
	d.load(t)
	b := open(t, d.page)
	b.run(chromedp.Navigate(d.page))
	b.contains("main", "cluster.local.", "manifests", "Upstream servers", "up", "kubernetes", "127.0.0.1")
	b.wait("numbers move without a reload", `document.getElementById("link").textContent === "live" &&
		Number(document.querySelector("[data-value=rate]").textContent.replace(/[^0-9.]/g, "")) > 5`)
	b.wait("latency is shown", `/[µm]s$/.test(document.querySelector("[data-value=p99]").textContent)`)
	b.wait("the directives that answer are shown", `!!document.querySelector("[data-value='directive.kubernetes.total']")`)
}

func TestServices(t *testing.T) {
	d := start(t)
	b := open(t, d.page)
	b.run(chromedp.Navigate(d.page+"services"), chromedp.SendKeys("#q", "web-", chromedp.ByQuery))
	names := `Array.from(document.querySelectorAll("#results tbody th"), e => e.textContent).join(" ")`
	// "web" finds the same as "web-" and may come before it where letters are typed slowly, so it takes the address to say that all is done.
	b.wait("the filter works while one types", names+` === "web-headless web-no-endpoints web-public web-svc web-wrong-port" && location.search.includes("q=web-")`)
	b.contains("#results", "no endpoints", "Headless", "5 of ")
	focus := false
	b.run(chromedp.Evaluate(`document.activeElement.id === "q"`, &focus))
	if !focus {
		t.Error("filtering takes the focus away")
	}
	b.run(chromedp.Evaluate(`(() => { const s = document.getElementById("state"); s.value = "no endpoints"; s.dispatchEvent(new Event("input", {bubbles: true})); })()`, nil))
	b.wait("the state is a filter too", names+` === "web-no-endpoints" && location.search.includes("state=no+endpoints")`)
	b.run(chromedp.Click("#results a", chromedp.ByQuery), chromedp.WaitVisible("#answer", chromedp.ByQuery))
	b.contains(".verdict", "broken")
}

func TestExplain(t *testing.T) {
	d := start(t)
	b := open(t, d.page)
	b.run(chromedp.Navigate(d.page+"explain"),
		chromedp.SendKeys("#name", "web-svc.service-lab"+kb.Enter, chromedp.ByQuery), chromedp.WaitVisible("#answer", chromedp.ByQuery))
	b.contains(".verdict", "works")
	b.contains("#answer", "web-svc.service-lab.default.svc.cluster.local.", "nxdomain", "found", "EndpointSlice", "ClusterIP")
	b.run(chromedp.Navigate(d.page+"explain?name=api.example.com"), chromedp.WaitVisible("#answer", chromedp.ByQuery))
	b.contains("#answer", "192.0.2.80", "forward", "outside the cluster")
}

func TestExperiment(t *testing.T) {
	d := start(t)
	b := open(t, d.page)
	b.run(chromedp.Navigate(d.page+"ndots"), chromedp.SendKeys("#names", "web-svc.service-lab api.example.com", chromedp.ByQuery),
		chromedp.SetValue("#delay", "5ms", chromedp.ByQuery), chromedp.Click("form button", chromedp.ByQuery), chromedp.WaitVisible("#answer", chromedp.ByQuery))
	b.contains("#answer", "ndots:2 is best", "trailing dots")
	bars := 0
	b.run(chromedp.Evaluate(`Array.from(document.querySelectorAll("details:last-of-type[open] .waterfall rect")).filter(r => r.getBoundingClientRect().width >= 1).length`, &bars))
	if bars != 12 {
		t.Errorf("%d bars in the waterfall of ndots:5, want 12: 8 questions for one name, 4 for the other", bars)
	}
}

// TestHostile puts markup where names belong: it is shown, and not obeyed.
func TestHostile(t *testing.T) {
	d := start(t)
	evil := `"><img src=x onerror=alert(1)><script>alert(2)</script>`
	for _, path := range []string{"services?q=", "ndots?from=", "explain?from="} {
		t.Run(path, func(t *testing.T) {
			b := open(t, d.page)
			b.run(chromedp.Navigate(d.page + path + url.QueryEscape(evil)))
			shown, made := "", 0
			b.run(chromedp.Value("input[value]:not([value=''])", &shown, chromedp.ByQuery), chromedp.Evaluate(`document.querySelectorAll("main img, main script").length`, &made))
			if shown != evil || made != 0 {
				t.Errorf("the field has %q, and %d elements were made of it", shown, made)
			}
		})
	}
}

func TestKeyboard(t *testing.T) {
	d := start(t)
	b := open(t, d.page)
	b.run(chromedp.Navigate(d.page + "services"))
	focused := `(document.activeElement.id || document.activeElement.textContent.trim())`
	for _, want := range []string{"Skip to content", "Overview", "Services", "Explain", "ndots", "q", "state", "Filter"} {
		got, outline := "", ""
		b.run(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(focused, &got), chromedp.Evaluate(`getComputedStyle(document.activeElement).outlineStyle`, &outline))
		if got != want || outline == "none" {
			t.Errorf("focus on %q with outline %s, want %q and one that is seen", got, outline, want)
		}
	}
	at := ""
	b.run(chromedp.Navigate(d.page+"explain"), chromedp.KeyEvent(kb.Tab+kb.Enter), chromedp.Evaluate(focused, &at))
	if at != "main" {
		t.Errorf("the skip link leads to %q", at)
	}
	b.run(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(focused, &at))
	if at != "name" {
		t.Errorf("behind the skip link comes %q", at)
	}
}

// pages are all pages, with something on them.
var pages = []string{"", "services", "explain?name=web-headless.service-lab", "explain?name=nothing.service-lab", "ndots?names=web-svc.service-lab+api.example.com"}

// TestNarrow: on a small phone nothing has to be scrolled sideways but what is meant to.
func TestNarrow(t *testing.T) {
	d := start(t)
	d.load(t)
	b := open(t, d.page)
	b.size(320, 640, true)
	for _, p := range pages {
		wide := ""
		b.run(chromedp.Navigate(d.page+p), chromedp.Evaluate(`(() => {
			if (document.documentElement.scrollWidth <= 320) return "";
			return document.documentElement.scrollWidth + ": " + Array.from(document.querySelectorAll("main *")).filter(e => !e.closest(".scroll") && e.getBoundingClientRect().right > 321).map(e => e.outerHTML.slice(0, 80)).join("\n");
		})()`, &wide))
		if wide != "" {
			t.Errorf("/%s is wider than the screen: %s", p, wide)
		}
	}
}

// contrasts finds text whose contrast to what is behind it is under 4.5 (WCAG 2.2, 1.4.3).
const contrasts = `(() => {
	const rgb = s => s.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
	const out = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; (n = walk.nextNode());) {
		if (!n.textContent.trim()) continue;
		const e = n.parentElement, a = light(rgb(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) out.add(e.tagName + "." + e.className + " " + ratio.toFixed(2) + " " + n.textContent.trim().slice(0, 30));
	}
	return Array.from(out).join("\n");
})()`

func TestLightAndDark(t *testing.T) {
	d := start(t)
	d.load(t)
	b := open(t, d.page)
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		for _, p := range pages {
			ground, bad := "", ""
			b.run(chromedp.Navigate(d.page+p), chromedp.Evaluate(`getComputedStyle(document.body).backgroundColor`, &ground), chromedp.Evaluate(contrasts, &bad))
			grounds[ground] = true
			if bad != "" {
				t.Errorf("/%s, %s: too little contrast:\n%s", p, scheme, bad)
			}
		}
	}
	if len(grounds) != 2 {
		t.Errorf("backgrounds are %v, want one for light and one for dark", grounds)
	}
}

// TestPolicy: the browser is told to take nothing from elsewhere and nothing inline, and obeys.
func TestPolicy(t *testing.T) {
	d := start(t)
	resp, err := http.Get(d.page)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	csp := resp.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	b := open(t, "")
	b.run(chromedp.Navigate(d.page))
	ran := true
	b.run(chromedp.Evaluate(`(() => { const s = document.createElement("script"); s.textContent = "window.ran = true"; document.head.append(s); return !!window.ran; })()`, &ran))
	if ran {
		t.Error("a script within the page ran")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = nil // the browser complained, as it should
}
