//go:build e2e && long

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slack is by how much the goroutines and open files of a program differ while it does nothing. It is much less than
// what streams would leave behind.
const slack = 15

// leftovers watches the programs through which streams go: the managers and API servers of both clusters, the kubelet
// of c2, and the processes of one delegate there.
type leftovers struct {
	w        *world
	set      map[string]*kubernetes.Clientset // by cluster
	tokens   map[string]string                // for the managers' metrics, by cluster
	delegate *corev1.Pod
	before   map[string]float64
}

// watchLeftovers notes what there is before any stream begins.
func (w *world) watchLeftovers(t *testing.T, delegate *corev1.Pod) *leftovers {
	t.Helper()
	l := &leftovers{
		w: w, set: map[string]*kubernetes.Clientset{}, tokens: map[string]string{}, delegate: delegate,
	}
	for _, c := range w.all() {
		l.set[c.name] = kubernetes.NewForConfigOrDie(c.config)
		l.tokens[c.name] = w.metricsToken(t, c)
	}
	eventually(t, "all metrics", func(ctx context.Context) (err error) { // The binding takes a moment to work.
		l.before, err = l.count(ctx, t)
		return err
	})
	return l
}

// metricsToken returns the token of a service account that may read the metrics of managers.
func (w *world) metricsToken(t *testing.T, c *cluster) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "metrics", Namespace: w.namespace}}
	create(t, c, account)
	create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics-" + w.namespace},
		RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "multicluster-scheduler-metrics-reader",
		},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace,
		}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// count returns the goroutines and open files of each program, and the number of processes of the delegate.
func (l *leftovers) count(ctx context.Context, t *testing.T) (map[string]float64, error) {
	t.Helper()
	processes := processesOfProgram(t, l.delegate.UID, "whoami")
	counts := map[string]float64{"processes of the delegate": float64(len(processes))}
	for _, c := range l.w.all() {
		if err := l.countManagers(ctx, c, counts); err != nil {
			return nil, err
		}
		for program, path := range map[string]string{
			"API server of " + c.name: "/metrics",
			"kubelet of " + c.name:    "/api/v1/nodes/" + c.name + "-node/proxy/metrics",
		} {
			text, err := l.set[c.name].RESTClient().Get().AbsPath(path).DoRaw(ctx)
			if err := errors.Join(err, addCounts(counts, program, string(text))); err != nil {
				return nil, fmt.Errorf("reading the metrics of the %s: %w", program, err)
			}
		}
	}
	return counts, nil
}

func (l *leftovers) countManagers(ctx context.Context, c *cluster, counts map[string]float64) error {
	pods := &corev1.PodList{}
	replicas := client.HasLabels{"pod-template-hash"}
	if err := c.List(ctx, pods, client.InNamespace(managerNamespace), replicas); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		text, err := l.managerMetrics(ctx, c, pod.Status.PodIP)
		program := "manager " + pod.Name + " of " + c.name
		if err := errors.Join(err, addCounts(counts, program, text)); err != nil {
			return fmt.Errorf("reading the metrics of %s: %w", program, err)
		}
	}
	return nil
}

// managerMetrics leaves no connection open.
func (l *leftovers) managerMetrics(ctx context.Context, c *cluster, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+":8443/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+l.tokens[c.name])
	caller := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // The manager signed its certificate itself.
	}}
	answer, err := caller.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}

// addCounts adds the metrics of a program that streams change.
func addCounts(counts map[string]float64, program, metrics string) error {
	found := 0
	lines := bufio.NewScanner(strings.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != "go_goroutines" && name != "process_open_fds" {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		found++
		counts[program+": "+name] = number
	}
	if found != 2 {
		return fmt.Errorf("found %d of 2 metrics", found)
	}
	return lines.Err()
}

// grown returns an error unless the manager that leads in c1 has so many more goroutines and open files than before.
// So the counts do notice streams.
func (l *leftovers) grown(ctx context.Context, t *testing.T, by float64) error {
	t.Helper()
	now, err := l.count(ctx, t)
	if err != nil {
		return err
	}
	for _, metric := range []string{"go_goroutines", "process_open_fds"} {
		key := "manager " + l.w.leader(t).Name + " of c1: " + metric
		if now[key] < l.before[key]+by {
			return fmt.Errorf("%s is %v, and was %v before", key, now[key], l.before[key])
		}
	}
	return nil
}

// gone waits until everything is as it was before.
func (l *leftovers) gone(t *testing.T) {
	t.Helper()
	within(t, patience, "what streams need to go", func(ctx context.Context) error {
		now, err := l.count(ctx, t)
		if err != nil {
			return err
		}
		var errs []error
		for key, count := range now {
			allowed := l.before[key] + slack
			if strings.HasPrefix(key, "processes") {
				allowed = l.before[key]
			}
			if count > allowed {
				errs = append(errs, fmt.Errorf("%s is %v, and was %v before", key, count, l.before[key]))
			}
		}
		return errors.Join(errs...)
	})
}
