//go:build linux

// Command lab is what the end-to-end tests run in pods: a web server whose readiness can be switched, and clients with Go's resolver.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// patience is how long a client waits: longer than any resolver's own time-outs should take.
const patience = 15 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "lab serve ADDRESS | ready on|off | fetch URL | lookup [-tcp] NAME… | pause")
		os.Exit(2)
	}
	if err := command(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(name string, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch {
	case name == "pause":
		return pause()
	case name == "serve" && len(args) == 1:
		return serve(args[0])
	case name == "ready" && len(args) == 1:
		return fetch(ctx, http.MethodPost, "http://127.0.0.1:8080/ready?state="+args[0])
	case name == "fetch" && len(args) == 1:
		return fetch(ctx, http.MethodGet, args[0])
	case name == "lookup":
		return lookup(ctx, args)
	}
	return fmt.Errorf("unknown: %s %v", name, args)
}

// pause holds a pod's namespaces: it waits, and reaps what ends in them.
func pause() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return nil
		case <-children:
			for {
				if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != nil || pid <= 0 {
					break
				}
			}
		}
	}
}

// serve answers with the pod's name; /ready fails while readiness is switched off.
func serve(addr string) error {
	var unready atomic.Bool
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprintln(w, name)
	})
	http.HandleFunc("/ready", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			unready.Store(r.FormValue("state") == "off")
			return
		}
		if unready.Load() {
			http.Error(w, "switched off", http.StatusServiceUnavailable)
		}
	})
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		os.Exit(0)
	}()
	return http.ListenAndServe(addr, nil)
}

func fetch(ctx context.Context, method, url string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(os.Stdout, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// lookup prints the addresses of names as Go's resolver finds them, with -tcp over TCP from the start.
func lookup(ctx context.Context, args []string) error {
	r := &net.Resolver{PreferGo: true}
	if len(args) > 0 && args[0] == "-tcp" {
		args = args[1:]
		r.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	for _, name := range args {
		addrs, err := r.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			fmt.Println(a)
		}
	}
	return nil
}
