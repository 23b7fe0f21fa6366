package kubernetes

import (
	"context"
	"errors"
)

// maxDetailedPods is the most Pods of a namespace that are looked at for one explanation: about 10 MB from the API server.
const maxDetailedPods = 2000

// errTooMany ends a list of more Pods than that.
var errTooMany = errors.New("more Pods than are looked at")

// Detailed is an Inspector of the live state that also says what the index does not keep: selectors, target ports and Pods. It reads those when it is
// asked for them, from the files or the API server that the options name, until ctx ends. What cannot be read is not known; endpoints and
// all that is answered are the index's own in any case. It is meant for one explanation.
func (k *Kubernetes) Detailed(ctx context.Context) Inspector {
	d := &detailed{Index: k.Index, ctx: ctx, opts: k.opts}
	if len(k.opts.Manifests) > 0 {
		if v, err := ReadInventory(ctx, k.opts, nil); err == nil {
			d.files = v
		}
	}
	return d
}

type detailed struct {
	*Index
	ctx   context.Context // as long as the one explanation
	opts  Options
	files *Inventory // nil where an API server is read, or the files could not be
}

// Service implements Inspector.
func (d *detailed) Service(namespace, name string) (ServiceInfo, bool) {
	out, ok := d.Index.Service(namespace, name)
	if !ok {
		return out, false
	}
	full, ok := d.service(out.Namespace, out.Name)
	if ok && len(full.Ports) == len(out.Ports) { // otherwise it is about to change
		out.Labels, out.Labelled, out.Targets = full.Labels, full.Labelled, full.Targets
	}
	return out, true
}

func (d *detailed) service(namespace, name string) (out ServiceInfo, ok bool) {
	switch {
	case d.files != nil:
		return d.files.Service(namespace, name)
	case len(d.opts.Manifests) > 0:
		return out, false
	}
	err := d.list(KindService, namespace, "metadata.name="+name, func(o Object, from any) error {
		if s, is := o.(*Service); is {
			out, ok = *serviceInfo(s, from), true
		}
		return nil
	})
	return out, ok && err == nil
}

// PodsOf implements Inspector.
func (d *detailed) PodsOf(namespace string) (pods []PodInfo, known bool) {
	switch {
	case d.files != nil:
		return d.files.PodsOf(namespace)
	case len(d.opts.Manifests) > 0:
		return nil, false
	}
	err := d.list(KindPod, namespace, PodFieldSelector, func(o Object, from any) error {
		if len(pods) == maxDetailedPods {
			return errTooMany
		}
		if p, is := o.(*Pod); is {
			pods = append(pods, *podInfo(p, from))
		}
		return nil
	})
	if err != nil {
		return nil, false
	}
	return pods, true
}

// list reads the objects of a kind in a namespace from the API server. Lists are what a DNS server is allowed; to get single objects it need not be.
func (d *detailed) list(k Kind, namespace, fields string, do func(o Object, from any) error) error {
	conn, err := connect(&d.opts, defaultPace())
	if err != nil {
		return err
	}
	defer conn.close()
	f := newFeed(k, &d.opts, conn, nil, nil, nil)
	f.namespace, f.fields = namespace, fields
	return f.each(d.ctx, func(o any) error {
		r, err := reduce(o)
		if err == nil {
			err = do(r, o)
		}
		return err
	})
}
