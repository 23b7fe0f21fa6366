package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"path"
)

// files are the templates, the style sheet and the script: all that the page consists of.
//
//go:embed page
var files embed.FS

// page is what every template is given.
type page struct {
	Title   string
	Here    string // as Link.To
	Body    any
	Links   []link
	Version string
}

// link is one of the navigation.
type link struct{ To, Title string }

// parsePages reads the templates. They are part of the program, so they are right.
func parsePages() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"short":   short,
		"class":   class,
		"percent": func(f float64) float64 { return float64(int(f*100)) / 100 },
	}).ParseFS(files, "page/*.html"))
}

// show writes a page whole or not at all.
func (c *Console) show(w http.ResponseWriter, status int, name string, p page) {
	p.Version = c.deps.Version
	p.Links = []link{{"./", "Overview"}, {"services", "Services"}, {"explain", "Explain"}, {"ndots", "ndots"}}
	var b bytes.Buffer
	if err := c.pages.ExecuteTemplate(&b, name, p); err != nil {
		c.deps.Log.Error("the page cannot be made", "page", name, "error", err)
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // whoever does not read it does not need it
}

// types are said here and not left to the machine's own table: browsers take a file for nothing else.
var types = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// file serves one of the files as it is.
func file(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		b, err := files.ReadFile("page/" + name)
		if err != nil {
			http.Error(w, "no such file", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", types[path.Ext(name)])
		_, _ = w.Write(b)
	}
}
