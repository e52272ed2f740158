package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// agreeWithin is the time in which both sides must come to look the same.
const agreeWithin = 20 * time.Second

// lab holds the clusters and the namespaces of a run.
type lab struct {
	source, target *cluster
	prefix         string
	// containerd2 says that the nodes of both have containerd 2, and devices.
	containerd2 bool
	say         func(format string, args ...any)

	mu         sync.Mutex // guards namespaces
	namespaces []string
}

// setUp opens the clusters, keeps elected pods out of c1, and makes the objects of the clusters that manifests name.
func setUp(ctx context.Context, say func(string, ...any)) (*lab, error) {
	l := &lab{prefix: "cf-" + rand.String(4), say: say}
	var err error
	if l.source, err = open(source); err != nil {
		return nil, err
	}
	if l.target, err = open(target); err != nil {
		return nil, err
	}
	if _, err := kubectl(ctx, nil, "--context", source, "cordon", virtualPrefix+source); err != nil {
		return nil, err
	}
	for _, c := range []*cluster{l.source, l.target} {
		for _, object := range classes() {
			if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, fmt.Errorf("creating %s in %s: %w", object.GetName(), c.name, err)
			}
		}
	}
	if err := l.installDevices(ctx); err != nil {
		return nil, errors.Join(err, l.tearDown(context.WithoutCancel(ctx)))
	}
	return l, nil
}

// classes are the objects of clusters that manifests name.
func classes() []client.Object {
	return []client.Object{
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "conformance"}, Value: 1000},
		&schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: "conformance-never"}, Value: 1001,
			PreemptionPolicy: new(corev1.PreemptNever),
		},
		&nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: "conformance"}, Handler: "runc",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
		},
	}
}

// tearDown lets elected pods into c1 again, deletes everything, and waits until the namespaces are gone.
func (l *lab) tearDown(ctx context.Context) error {
	_, err := kubectl(ctx, nil, "--context", source, "uncordon", virtualPrefix+source)
	errs := []error{err}
	for _, c := range []*cluster{l.source, l.target} {
		for _, object := range classes() {
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, object)))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.namespaces {
		errs = append(errs, l.deleteNamespace(ctx, name))
	}
	for _, name := range l.namespaces {
		errs = append(errs, until(ctx, patience, func(ctx context.Context) error {
			for _, c := range []*cluster{l.source, l.target} {
				err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
				if err == nil {
					return fmt.Errorf("%s still has namespace %s", c.name, name)
				}
				if !apierrors.IsNotFound(err) {
					return err
				}
			}
			return nil
		}))
	}
	errs = append(errs, l.removeDevices(ctx)) // Kubelets need the driver to end pods that have devices.
	return errors.Join(errs...)
}

func (l *lab) deleteNamespace(ctx context.Context, name string) error {
	var errs []error
	for _, c := range []*cluster{l.source, l.target} {
		err := c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting namespace %s of %s: %w", name, c.name, err))
		}
	}
	return errors.Join(errs...)
}

// sides makes the namespaces of a case: one for plain pods, and one for elected ones, which the target has, too.
func (l *lab) sides(ctx context.Context, name string) (plain, elected *side, err error) {
	base := l.prefix + "-" + name
	plain = l.side(base+"-p", false)
	elected = l.side(base+"-e", true)
	l.mu.Lock()
	l.namespaces = append(l.namespaces, plain.namespace, elected.namespace)
	l.mu.Unlock()
	enabled := map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}
	for _, n := range []struct {
		c      *cluster
		name   string
		labels map[string]string
	}{
		{l.source, plain.namespace, nil},
		{l.source, elected.namespace, enabled},
		{l.target, elected.namespace, nil},
	} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: n.labels}}
		if err := n.c.Create(ctx, namespace); err != nil {
			return nil, nil, fmt.Errorf("creating namespace %s in %s: %w", n.name, n.c.name, err)
		}
		if err := until(ctx, patience, func(ctx context.Context) error {
			return errors.Join(
				n.c.Get(ctx, client.ObjectKey{Namespace: n.name, Name: "default"}, &corev1.ServiceAccount{}),
				n.c.Get(ctx, client.ObjectKey{Namespace: n.name, Name: "kube-root-ca.crt"}, &corev1.ConfigMap{}),
			)
		}); err != nil {
			return nil, nil, fmt.Errorf("waiting for what Kubernetes adds to namespace %s: %w", n.name, err)
		}
	}
	return plain, elected, l.awaitRights(ctx, elected.namespace)
}

func (l *lab) side(namespace string, elected bool) *side {
	s := &side{
		c: l.source, runs: l.source, namespace: namespace, elected: elected, node: source + "-node",
		normal: newNormaliser(namespace), notes: tree{},
	}
	if elected {
		s.node, s.runs = virtualPrefix+target, l.target
	}
	return s
}

// awaitRights waits until the source may create PodChaperons in a new namespace of the target.
func (l *lab) awaitRights(ctx context.Context, namespace string) error {
	return until(ctx, patience, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:admiralty:multicluster-source-" + source,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: "create", Group: v1alpha1.GroupName, Resource: "podchaperons",
			},
		}}
		if err := l.target.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return errors.New("the source may not create PodChaperons in " + namespace)
		}
		return nil
	})
}

// result is what came of a case.
type result struct {
	*testCase
	took time.Duration
	// found has all differences.
	found []difference
	// by has the justifications of its differences, rest the differences without one.
	by   []*justification
	rest []difference
	// broken says that the case does not work with plain pods.
	broken error
}

// play runs a case on both sides, and compares what is seen.
func (l *lab) play(ctx context.Context, c *testCase, list []*justification) result {
	start := time.Now()
	res := result{testCase: c}
	plain, elected, err := l.sides(ctx, c.name)
	if err != nil {
		res.broken = err
		return res
	}
	var begun sync.WaitGroup
	begun.Go(func() { res.broken = c.begin(ctx, plain) })
	begun.Go(func() {
		if err := c.begin(ctx, elected); err != nil {
			elected.note("failed", err.Error())
		}
	})
	begun.Wait()
	if res.broken == nil {
		res.broken = l.agree(ctx, &res, plain, elected, list)
	}
	res.took = time.Since(start)
	if res.broken == nil && len(res.rest) == 0 {
		res.broken = errors.Join(l.deleteNamespace(ctx, plain.namespace), l.deleteNamespace(ctx, elected.namespace))
	}
	return res
}

// agree compares both sides until nothing differs without a justification, or time is up.
func (l *lab) agree(ctx context.Context, res *result, plain, elected *side, list []*justification) error {
	var broken error
	_ = until(ctx, agreeWithin, func(context.Context) error { // A look takes its time on a busy machine.
		var seen [2]tree
		for i, s := range []*side{plain, elected} {
			var t tree
			if t, broken = res.see(ctx, s); broken != nil {
				return broken
			}
			seen[i], _ = s.normal.value(t).(tree)
		}
		res.found = compare(seen[0], seen[1])
		res.by, res.rest = justified(list, res.name, res.found)
		if len(res.rest) > 0 {
			return errors.New("there are differences")
		}
		return nil
	})
	return broken
}

// playAll runs cases, so many at the same time, and returns the results in the order of the cases.
func (l *lab) playAll(ctx context.Context, cases []*testCase, parallel int, list []*justification) []result {
	results := make([]result, len(cases))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, c := range cases {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = l.play(ctx, c, list)
			l.say("%s", results[i])
		})
	}
	all.Wait()
	return results
}

// String says what came of the case.
func (r result) String() string {
	text := fmt.Sprintf("%-40s %5.1f s  ", r.name, r.took.Seconds())
	if r.broken != nil {
		return text + "DOES NOT WORK with plain pods: " + r.broken.Error()
	}
	if len(r.rest) == 0 {
		return text + fmt.Sprintf("the same but for %d justified differences", len(r.by))
	}
	var all strings.Builder
	for _, d := range r.rest {
		fmt.Fprintf(&all, "\n    %s", d)
	}
	return text + "DIFFERS:" + all.String()
}
