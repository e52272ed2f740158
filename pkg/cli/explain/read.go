package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// requestTimeout leaves time for reading the events when the manager does not answer.
const requestTimeout = 10 * time.Second

// observation is everything that the command reads about a pod.
type observation struct {
	pod *corev1.Pod
	// namespace is nil if the user may not read it.
	namespace *corev1.Namespace
	// explanation is the manager's. If a proxy has none, missing says why.
	explanation *diagnosis.Explanation
	missing     string
	// events are those about the proxy. If there is an explanation, they lack those of the scheduler's decisions.
	events []corev1.Event
	// node is the virtual node that the proxy is bound to; nil if the user may not read it.
	node *corev1.Node
}

func observe(ctx context.Context, source *cluster.Cluster, key client.ObjectKey) (*observation, error) {
	o := &observation{pod: &corev1.Pod{}, namespace: &corev1.Namespace{}}
	if err := source.Client.Get(ctx, key, o.pod); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("there is no pod %q in namespace %q of context %q; to list the pods: "+
				"kubectl get pods --context %s --namespace %s",
				key.Name, key.Namespace, source.Context, source.Context, key.Namespace)
		}
		return nil, fmt.Errorf("getting pod %q in context %q: %w", key, source.Context, err)
	}
	if err := source.Client.Get(ctx, client.ObjectKey{Name: key.Namespace}, o.namespace); err != nil {
		o.namespace = nil // Only its label is missing then: the pod itself shows most.
	}
	if !translate.IsProxy(o.pod) {
		return o, nil
	}
	o.node = readNode(ctx, source, o.pod.Spec.NodeName)
	o.explanation, o.missing = requestExplanation(ctx, source, o.pod)
	events, err := readEvents(ctx, source, o.pod)
	if err != nil {
		o.missing = strings.TrimPrefix(o.missing+fmt.Sprintf("\nThe pod's events cannot be read: %v.", err), "\n")
	}
	if o.explanation != nil {
		events = slices.DeleteFunc(events, func(e corev1.Event) bool { return decides(&e) })
	}
	o.events = events
	return o, nil
}

// readNode returns the virtual node of a name, or nil if there is none, or the user may not read it.
func readNode(ctx context.Context, source *cluster.Cluster, name string) *corev1.Node {
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	if err := source.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil
	}
	return node
}

// requestExplanation requests the pod's explanation from the manager. If there is none, it says why.
func requestExplanation(
	ctx context.Context, source *cluster.Cluster, pod *corev1.Pod,
) (known *diagnosis.Explanation, missing string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, missing := someNode(ctx, source, pod)
	if node == "" {
		return nil, missing
	}
	c, err := corev1client.NewForConfig(source.Config)
	if err != nil {
		return nil, noAnswer(node, err)
	}
	answer := c.RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").
		Suffix("explain", pod.Namespace, pod.Name).Do(ctx)
	if err := answer.Error(); err != nil {
		return nil, noAnswer(node, err)
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, noAnswer(node, err)
	}
	known = &diagnosis.Explanation{}
	if err := json.Unmarshal(raw, known); err != nil {
		return nil, noAnswer(node, fmt.Errorf("reading the answer: %w", err))
	}
	if known.UID != pod.UID {
		return nil, "The manager knows only of another pod of this name."
	}
	return known, ""
}

// someNode returns the name of a virtual node. Each of them leads to the manager. If there is none, it says why.
func someNode(ctx context.Context, source *cluster.Cluster, pod *corev1.Pod) (name, missing string) {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, ""
	}
	nodes := &corev1.NodeList{}
	virtual := client.MatchingLabels{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
	err := source.Client.List(ctx, nodes, virtual)
	switch {
	case apierrors.IsForbidden(err):
		return "", "The manager was not asked: you may not list nodes. " +
			"The rights list on nodes and get on nodes/proxy show more here."
	case err != nil:
		return "", fmt.Sprintf("The manager was not asked, because the virtual nodes cannot be listed: %v.", err)
	case len(nodes.Items) == 0:
		return "", "The manager was not asked: there is no virtual node, so there is no target. " +
			"See kubectl multicluster status."
	}
	best := slices.MinFunc(nodes.Items, func(a, b corev1.Node) int {
		return cmp.Or(cmp.Compare(unready(&a), unready(&b)), strings.Compare(a.Name, b.Name))
	})
	return best.Name, ""
}

func unready(node *corev1.Node) int {
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil && c.Status == corev1.ConditionTrue {
		return 0
	}
	return 1
}

// noAnswer says why the manager did not answer, and how to find out more.
func noAnswer(node string, err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("The manager was not asked: the right get on nodes/proxy is missing (of node %s, say). "+
			"It shows more here.\n(%v)", node, err)
	case apierrors.IsNotFound(err):
		return "The manager does not know how this pod was scheduled: another replica was the leader then, " +
			"or the manager was restarted since, or it is too long ago."
	default:
		return fmt.Sprintf("The manager does not answer through node %s (%v). Does the manager run? See "+
			"kubectl get pods --all-namespaces --selector app.kubernetes.io/name=multicluster-scheduler", node, err)
	}
}

// readEvents returns the pod's events about its scheduling, the oldest first.
func readEvents(ctx context.Context, source *cluster.Cluster, pod *corev1.Pod) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := source.Client.List(ctx, list, client.InNamespace(pod.Namespace),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID))})
	if err != nil {
		return nil, err
	}
	events := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return !aboutScheduling(&e) })
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	return events, nil
}

// aboutScheduling says whether the event comes from a scheduler or from another of our components.
func aboutScheduling(e *corev1.Event) bool {
	return decides(e) ||
		e.ReportingController == v1alpha1.SchedulerName || strings.HasPrefix(e.ReportingController, "multicluster-")
}

// decides says whether the event is about a decision of the scheduler, of which the explanation says more.
func decides(e *corev1.Event) bool { return e.Reason == "FailedScheduling" || e.Reason == "Scheduled" }

// lastSeen returns the time of the last occurrence, for events of both events APIs.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.LastTimestamp.Time
	}
}
