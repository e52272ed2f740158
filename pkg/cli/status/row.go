package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	nodeutil "k8s.io/component-helpers/node/util"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// row is one target in the output.
type row struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Connected and Ready are True, False or Unknown.
	Connected string `json:"connected"`
	Ready     string `json:"ready"`
	// Awake is True or False, and empty if the target's manager has no Lease.
	Awake string `json:"awake,omitempty"`
	// Responsive is True or False, and empty if it is not known.
	Responsive string `json:"responsive,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	// Warning has reasons and messages about a target that is connected, and has a problem that hinders no pod yet.
	Warning string `json:"warning,omitempty"`
	// Secret is why the target's Secret cannot be used any more, while the connection goes on.
	Secret   string `json:"secret,omitempty"`
	NodeName string `json:"nodeName,omitempty"`
	// Node is the node's state as kubectl prints it.
	Node string `json:"node"`
	// OutOfService says that somebody declared the node out of service, so that it takes no pods.
	OutOfService bool `json:"outOfService,omitempty"`

	Version string `json:"version,omitempty"`
	// Credentials says how long the source's credentials are valid. It is absent if they do not expire.
	Credentials *v1alpha1.TargetCredentials `json:"credentials,omitempty"`
	// Pods is the number of pods that are not finished.
	Pods            int64              `json:"pods"`
	PodsAllocatable *resource.Quantity `json:"podsAllocatable,omitempty"`
	FreeCPU         *resource.Quantity `json:"freeCPU,omitempty"`
	FreeMemory      *resource.Quantity `json:"freeMemory,omitempty"`
}

// use is the sum of the requests of the proxies on a node.
type use struct {
	pods        int64
	cpu, memory resource.Quantity
}

// count adds a proxy to the use of its node, if the proxy has a node and is not finished.
func count(all map[string]*use, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || translate.Finished(pod.Status.Phase) {
		return
	}
	node := all[pod.Spec.NodeName]
	if node == nil {
		node = &use{}
		all[pod.Spec.NodeName] = node
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	node.pods++
	node.cpu.Add(*requests.Cpu())
	node.memory.Add(*requests.Memory())
}

// rows returns one row for each target: the ClusterTargets first, each kind by name.
func (o *observation) rows() []row {
	rows := make([]row, 0, len(o.clusterTargets)+len(o.targets))
	for i := range o.clusterTargets {
		rows = append(rows, o.row(&o.clusterTargets[i], o.clusterTargets[i].Status))
	}
	for i := range o.targets {
		rows = append(rows, o.row(&o.targets[i], o.targets[i].Status))
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return rows
}

func (o *observation) row(target client.Object, status v1alpha1.TargetStatus) row {
	r := row{
		Name:      target.GetName(),
		Namespace: target.GetNamespace(),
		Connected: string(metav1.ConditionUnknown),
		Ready:     string(metav1.ConditionUnknown),
		NodeName:  status.NodeName,
		Version:   status.KubernetesVersion,

		Credentials: status.Credentials,
	}
	r.showConditions(status.Conditions)
	node := o.nodes[status.NodeName]
	r.Node = nodeState(node)
	if node == nil {
		return r
	}
	r.OutOfService = slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeOutOfService
	})
	inUse := o.use[node.Name]
	if inUse == nil {
		inUse = &use{}
	}
	r.Pods = inUse.pods
	r.PodsAllocatable = node.Status.Allocatable.Pods()
	r.FreeCPU = less(node.Status.Allocatable.Cpu(), inUse.cpu)
	r.FreeMemory = less(node.Status.Allocatable.Memory(), inUse.memory)
	return r
}

// showConditions shows the conditions of a target, and the reason of one that is not true. If a target is not
// connected, this also explains why its node is not ready. So Connected comes last and wins.
func (r *row) showConditions(conditions []metav1.Condition) {
	for _, shown := range []struct {
		conditionType string
		as            *string
	}{
		{v1alpha1.ConditionResponsive, &r.Responsive}, {v1alpha1.ConditionAwake, &r.Awake},
		{v1alpha1.ConditionReady, &r.Ready}, {v1alpha1.ConditionConnected, &r.Connected},
	} {
		condition := meta.FindStatusCondition(conditions, shown.conditionType)
		if condition == nil {
			continue
		}
		*shown.as = string(condition.Status)
		if condition.Status != metav1.ConditionTrue {
			r.Reason, r.Message = condition.Reason, condition.Message
		}
	}
	if unusable := meta.FindStatusCondition(conditions, v1alpha1.ConditionSecretUsable); unusable != nil {
		r.Secret = unusable.Message
	}
	r.Warning = warning(conditions)
}

// warning returns the reasons and messages of conditions that say more than that all is well, although the target is
// connected. The message of Connected has a part of its own for each problem.
func warning(conditions []metav1.Condition) string {
	var warnings []string
	connected := meta.FindStatusCondition(conditions, v1alpha1.ConditionConnected)
	if connected != nil && (connected.Reason == v1alpha1.ReasonInvalidSummary ||
		strings.Contains(connected.Message, "; ")) {
		warnings = append(warnings, fmt.Sprintf("(%s): %s", connected.Reason, connected.Message))
	}
	restricted := meta.FindStatusCondition(conditions, v1alpha1.ConditionRestricted)
	if restricted != nil && restricted.Status == metav1.ConditionFalse {
		warnings = append(warnings, fmt.Sprintf("(%s): %s", restricted.Reason, restricted.Message))
	}
	return strings.Join(warnings, "; and ")
}

func less(all *resource.Quantity, used resource.Quantity) *resource.Quantity {
	left := all.DeepCopy()
	left.Sub(used)
	if left.Sign() < 0 {
		left = resource.Quantity{}
	}
	return &left
}

func nodeState(node *corev1.Node) string {
	if node == nil {
		return "None"
	}
	state := "Unknown"
	if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil {
		switch c.Status {
		case corev1.ConditionTrue:
			state = "Ready"
		case corev1.ConditionFalse:
			state = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// trouble explains in a sentence why a target takes no pods, or soon will take none. It is empty if nothing is wrong.
func (r row) trouble() string {
	name := "ClusterTarget " + r.Name
	if r.Namespace != "" {
		name = fmt.Sprintf("Target %s/%s", r.Namespace, r.Name)
	}
	switch {
	case r.Connected == string(metav1.ConditionUnknown) && r.Reason == "":
		return name + " has not been looked at yet: does the manager of this cluster run?"
	case r.Connected != string(metav1.ConditionTrue):
		return fmt.Sprintf("%s is not connected (%s): %s", name, r.Reason, r.Message)
	case r.Ready != string(metav1.ConditionTrue):
		return fmt.Sprintf("%s is connected, but its virtual node is not ready%s", name, because(r.Reason, r.Message))
	case !strings.HasPrefix(r.Node, string(corev1.NodeReady)):
		return fmt.Sprintf("%s was connected, but its virtual node is %s: does the manager of this cluster run? "+
			"See kubectl get pods -A -l app.kubernetes.io/name=multicluster-scheduler. Without it, targets stop "+
			"fenced pods", name, r.Node)
	case r.OutOfService:
		return fmt.Sprintf("%s is connected, but takes no pods: its virtual node has the taint %s. "+
			"Remove it when the target is back: kubectl taint node %s %[2]s-",
			name, corev1.TaintNodeOutOfService, r.NodeName)
	case r.Awake == string(metav1.ConditionFalse), r.Responsive == string(metav1.ConditionFalse):
		return fmt.Sprintf("%s is connected, but takes no new pods%s", name, because(r.Reason, r.Message))
	case r.Secret != "":
		return fmt.Sprintf("%s is connected, but its Secret cannot be used: %s", name, r.Secret)
	case r.Credentials != nil && r.Credentials.Problem != "":
		return fmt.Sprintf("The credentials for %s expire at %s and are not renewed: %s",
			name, r.Credentials.Expires.UTC().Format(time.RFC3339), r.Credentials.Problem)
	case r.Warning != "":
		return fmt.Sprintf("%s is connected, with a warning %s", name, r.Warning)
	default:
		return ""
	}
}

// expiry is how long the credentials are valid, as kubectl prints durations.
func (r row) expiry(now time.Time) string {
	if r.Credentials == nil {
		return none
	}
	left := r.Credentials.Expires.Sub(now)
	if left <= 0 {
		return "expired"
	}
	return duration.HumanDuration(left)
}

func because(reason, message string) string {
	if reason == "" {
		return " yet."
	}
	return fmt.Sprintf(" (%s): %s", reason, message)
}
