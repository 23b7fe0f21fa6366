package page_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// folderEnv names the folder that screenshots are written to; without it there are none.
const folderEnv = "SCREENSHOTS"

// shot is one screenshot.
type shot struct {
	file, url     string
	width, height int64
	scheme        string
}

// busy is how long the server has had queries before its overview is shown: as long as its chart takes to look like one.
const busy = 40 * time.Second

// TestScreenshots makes the pictures of the documentation.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv(folderEnv)
	if folder == "" {
		t.Skip("no folder for screenshots is named in " + folderEnv)
	}
	d := start(t)
	d.load(t)
	report := filepath.Join(t.TempDir(), "report.html")
	bin, err := common.program()
	if err != nil {
		t.Fatal(err)
	}
	lab := exec.Command(bin, "ndots", "-server", d.dns, "-resolver", "all", "-delay", "8ms", "-html", report, "web-svc.service-lab", "api.example.com", "www.example.org")
	if out, err := lab.CombinedOutput(); err != nil {
		t.Fatalf("ndots: %v\n%s", err, out)
	}
	<-time.After(busy)
	const measured = "ndots?names=web-svc.service-lab+api.example.com&delay=5ms"
	for _, s := range []shot{
		{"console-overview.png", d.page, 1200, 1200, "light"},
		{"console-overview-dark.png", d.page, 1200, 1200, "dark"},
		{"console-overview-narrow.png", d.page, 390, 844, "light"},
		{"console-services.png", d.page + "services", 1200, 1000, "light"},
		{"console-services-narrow.png", d.page + "services?q=web", 390, 844, "dark"},
		{"console-explain.png", d.page + "explain?name=web-wrong-port.service-lab&from=default", 1200, 1150, "light"},
		{"console-explain-dark.png", d.page + "explain?name=web-no-endpoints&from=service-lab", 1200, 980, "dark"},
		{"console-ndots.png", d.page + measured, 1200, 1480, "light"},
		{"console-ndots-narrow.png", d.page + measured, 390, 844, "dark"},
		{"ndots-report.png", "file://" + report, 1120, 1100, "light"},
		{"ndots-report-dark.png", "file://" + report, 1120, 1100, "dark"},
	} {
		b := open(t, "")
		b.scheme(s.scheme)
		b.size(s.width, s.height, s.width < 500)
		b.run(chromedp.Navigate(s.url))
		if s.url == d.page {
			b.wait("the page is live", `document.getElementById("link").textContent === "live"`)
		}
		var png []byte
		b.run(chromedp.CaptureScreenshot(&png))
		if err := os.WriteFile(filepath.Join(folder, s.file), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
