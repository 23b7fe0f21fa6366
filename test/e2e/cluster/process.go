package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// patience bounds every wait for something that a healthy cluster does within a second or two; this machine may be busy with other things.
	patience = 5 * time.Minute
	// removePatience bounds the wait for the kernel to let go of an empty control group.
	removePatience = 5 * time.Second
	// pace is how often a wait looks again.
	pace = 50 * time.Millisecond
)

// controlGroup is where the node's pods are accounted, apart from those of any other kubelet on the machine.
const controlGroup = "clusterdns-e2e"

// retry calls f until it gives no error, or the time is over; then it gives the last one.
func retry(limit time.Duration, f func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(pace)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return fmt.Errorf("not within %s: %w", limit, err)
		}
	}
}

// process is a part of the cluster: a program that runs until it is stopped, with its output in a file.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start runs a program of the node in the background.
func (c *Cluster) start(name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(c.Logs, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(filepath.Join(c.Bin, name), args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.run, log, log
	p.cmd.Env = append(os.Environ(), "PATH="+c.Bin+":"+os.Getenv("PATH"))
	ownSession(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	c.processes[name] = p
	return p, nil
}

// stop ends a process and waits for its end.
func (p *process) stop(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s does not stop", p.name)
	}
}

// until waits for a condition as long as a process lives.
func (p *process) until(what string, f func() error) error {
	err := retry(patience, func() error {
		select {
		case <-p.done:
			return nil
		default:
			return f()
		}
	})
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %s", p.name, p.cmd.ProcessState)
	default:
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", p.name, what, err)
	}
	return nil
}

// healthy asks a URL for 200.
func healthy(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
