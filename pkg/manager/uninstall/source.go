package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// unboundEnd is the time that the manager has to end the PodChaperons of proxies without a node. It begins when the
	// last of these proxies is deleted. Nothing in this cluster shows when the PodChaperons have ended.
	unboundEnd = 15 * time.Second
	// firstPods is how many pods the log names.
	firstPods = 20
)

// endProxies removes the webhook, deletes the proxies that are to go, and waits for those whose delegates the manager
// can end. manager says whether it runs.
func (r *run) endProxies(ctx context.Context, manager bool) error {
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: r.Webhook}}
	if err := r.client.Delete(ctx, webhook); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the webhook of elected pods: %w", err)
	}
	var last proxies
	var unbound time.Time // when the last proxy without a node was deleted
	until := r.until.Add(patience(r.Timeout, r.Notice, r.endsDelegates()) - r.Timeout)
	_, err := r.await(ctx, until, func(ctx context.Context) (bool, error) {
		var err error
		if last, err = r.readProxies(ctx, manager); err != nil {
			return false, err
		}
		r.report("Ending the pods in targets", until, "to be deleted", len(last.remove), "ending", len(last.ending))
		if err := r.deleteProxies(ctx, last.remove); err != nil {
			return false, err
		}
		if manager && slices.ContainsFunc(last.remove, isUnbound) {
			unbound = r.clock.Now()
		}
		return len(last.remove) == 0 && len(last.ending) == 0 && !r.clock.Now().Before(unbound.Add(unboundEnd)), nil
	})
	if err != nil {
		return fmt.Errorf("ending the pods in targets: %w", err)
	}
	r.logProxies(last)
	return nil
}

// logProxies logs the proxies that remain.
func (r *run) logProxies(last proxies) {
	if len(last.pending) > 0 {
		r.log.Info("Pending pods without a controller stay Pending: nobody would replace them. Delete them, or "+
			"install the chart again. A target may have begun with them, and run their delegates later: delete their "+
			"PodChaperons there", "pods", names(last.pending), "commands", endCommands(last.pending))
	}
	if len(last.ending) > 0 {
		r.log.Info("The delegates of these pods have not ended in time. They end in their targets, and the pods "+
			"go with their virtual nodes", "pods", names(last.ending))
	}
	if len(last.left) > 0 {
		r.log.Info("The delegates of these pods run on in their targets, except fenced ones, which stop when "+
			"their time is over: delete their PodChaperons there. The pods go with their virtual nodes",
			"pods", names(last.left))
	}
}

// proxies are those of this cluster, by what is to be done.
type proxies struct {
	remove  []corev1.Pod // to be deleted now
	ending  []corev1.Pod // deleted, and waited for
	pending []corev1.Pod // Pending, and without a controller that would replace them
	left    []corev1.Pod // on virtual nodes, with delegates that run on
}

func (r *run) readProxies(ctx context.Context, manager bool) (proxies, error) {
	pods, nodes := &corev1.PodList{}, &corev1.NodeList{}
	// Field selectors are the API server's, and work without an index.
	ours := client.MatchingFields{"spec.schedulerName": v1alpha1.SchedulerName}
	if err := r.client.List(ctx, pods, ours); err != nil {
		return proxies{}, fmt.Errorf("listing proxies: %w", err)
	}
	if err := r.client.List(ctx, nodes, virtual()); err != nil {
		return proxies{}, fmt.Errorf("listing virtual nodes: %w", err)
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		ready[nodes.Items[i].Name] = manager && isReady(&nodes.Items[i])
	}
	return sortProxies(pods.Items, ready, r.Pods), nil
}

// sortProxies decides what to do with proxies. ready has the virtual nodes: true for those whose delegates the manager
// can end. It is pure.
func sortProxies(pods []corev1.Pod, ready map[string]bool, choice Pods) proxies {
	var p proxies
	for _, pod := range pods {
		answers, onVirtualNode := ready[pod.Spec.NodeName]
		deleted := pod.DeletionTimestamp != nil
		switch {
		case pod.Spec.NodeName == "" && (deleted || translate.Finished(pod.Status.Phase)): // Nothing holds it.
		case pod.Spec.NodeName == "" && metav1.GetControllerOf(&pod) == nil:
			p.pending = append(p.pending, pod)
		case pod.Spec.NodeName == "":
			p.remove = append(p.remove, pod)
		case !onVirtualNode: // Its node is gone, or was never ours.
		case choice == Leave || !answers:
			p.left = append(p.left, pod)
		case deleted:
			p.ending = append(p.ending, pod)
		default:
			p.remove = append(p.remove, pod)
		}
	}
	return p
}

func (r *run) deleteProxies(ctx context.Context, pods []corev1.Pod) error {
	for i := range pods {
		err := r.client.Delete(ctx, &pods[i], client.Preconditions{UID: &pods[i].UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting proxy %q: %w", client.ObjectKeyFromObject(&pods[i]), err)
		}
	}
	return nil
}

// removeNodes deletes the virtual nodes and their Leases.
func (r *run) removeNodes(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := r.client.List(ctx, nodes, virtual()); err != nil {
		return fmt.Errorf("listing virtual nodes: %w", err)
	}
	var errs []error
	for i := range nodes.Items {
		node := &nodes.Items[i]
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name},
		}
		errs = append(errs,
			client.IgnoreNotFound(r.client.Delete(ctx, node, client.Preconditions{UID: &node.UID})),
			client.IgnoreNotFound(r.client.Delete(ctx, lease)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("deleting virtual nodes: %w", err)
	}
	r.log.Info("Virtual nodes are deleted", "nodes", len(nodes.Items))
	return nil
}

// restoreServices gives the Services whose selector was rewritten their own one back.
func (r *run) restoreServices(ctx context.Context) error {
	list := &corev1.ServiceList{}
	if err := r.client.List(ctx, list); err != nil {
		return fmt.Errorf("listing Services: %w", err)
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, services.Restore(ctx, r.client, &list.Items[i]))
	}
	return errors.Join(errs...)
}

func virtual() client.ListOption {
	return client.MatchingLabels{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
}

func isUnbound(pod corev1.Pod) bool { return pod.Spec.NodeName == "" }

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// endCommands returns the commands that end the PodChaperons of the first pods in a target. Only the user knows what to
// put in place of CONTEXT: each target's cluster. A pod may have a PodChaperon in any of them.
func endCommands(pods []corev1.Pod) []string {
	var commands []string
	for i := range pods[:min(firstPods, len(pods))] {
		commands = append(commands, fmt.Sprintf("kubectl --context CONTEXT delete podchaperons -n %s -l %s=%s",
			pods[i].Namespace, v1alpha1.LabelParentUID, pods[i].UID))
	}
	return commands
}

// names returns the names of the first pods, with their nodes, and how many more there are.
func names(pods []corev1.Pod) []string {
	var lines []string
	for i := range pods[:min(firstPods, len(pods))] {
		name := client.ObjectKeyFromObject(&pods[i]).String()
		if node := pods[i].Spec.NodeName; node != "" {
			name += " on " + node
		}
		lines = append(lines, name)
	}
	if more := len(pods) - firstPods; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}
