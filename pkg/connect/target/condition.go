package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

func connecting() metav1.Condition {
	return connected(metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "connecting to the target for the first time")
}

func disconnected(reason, message string) metav1.Condition {
	return connected(metav1.ConditionFalse, reason, message)
}

func connected(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionConnected, Status: status, Reason: reason, Message: message}
}

// The bounds, in bytes, of texts of a target.
const (
	maxText    = 256
	maxVersion = 64
)

// overBudget returns the condition of a target that costs more than it may.
func overBudget(err error, w want, pause time.Duration) metav1.Condition {
	return disconnected(v1alpha1.ReasonOverBudget, fmt.Sprintf("%s is disconnected, and tried again every %s: %s; "+
		"does it lead to the right server, and is this server in order?",
		w.config.Host, pause, wire.Shorten(err.Error(), maxText)))
}

// otherCluster returns the condition of a target under whose name another cluster answers.
func otherCluster(other *identity.OtherClusterError, key types.NamespacedName, w want) metav1.Condition {
	belongs := "which was connected before"
	if w.pin != "" {
		belongs = "see spec.clusterID"
	}
	return disconnected(v1alpha1.ReasonOtherCluster, fmt.Sprintf("another cluster answers at %s: its ID is %s, and "+
		"this target is the cluster %s (%s). Nothing is changed there, and the pods of this target stay as they are. "+
		"If %s are not the right ones, or the address leads to a wrong cluster, correct this. If the new cluster "+
		"shall take over, set spec.clusterID to %s, or run %s: pods that the new cluster does not have are then "+
		"replaced",
		w.config.Host, other.Seen, other.Want, belongs, w.credentials, other.Seen,
		targetkind.ConnectCommand(key, "--accept")))
}

// turnedBack returns the condition of a target that was set back, or has lost the Lease that would show this.
func turnedBack(back *hold.TurnedBackError, key types.NamespacedName, w want) metav1.Condition {
	kind := "target.multicluster.admiralty.io -n " + key.Namespace
	if key.Namespace == "" {
		kind = "clustertarget.multicluster.admiralty.io"
	}
	state := fmt.Sprintf("was set back: it is of epoch %d, and was of epoch %d", back.Found, back.Remembered)
	remedy := "Was its etcd restored?"
	if back.Missing != "" {
		state = fmt.Sprintf("may have been set back: it was of epoch %d, and %s", back.Remembered, back.Missing)
		remedy = "If somebody deleted the namespace of Leases there, helm upgrade in the target makes it again."
	}
	return disconnected(v1alpha1.ReasonTurnedBack, fmt.Sprintf("%s %s. Pods that it lacks may still be running, so no "+
		"bound pod is replaced. %s Once its state is as it is to stay, accept it: kubectl annotate %s %s --overwrite "+
		"%s=%d",
		w.config.Host, state, remedy, kind, key.Name, v1alpha1.AnnotationAcceptEpoch, back.Remembered))
}

// withFences adds to the condition Connected of a target, in which this source cannot renew its Lease, what becomes of
// fenced pods. If the target is lost, their end is confirmed in time. With HeldByOther, another manager renews the
// Lease. Where nothing can be written, or nobody publishes a ClusterSummary, no manager of the target stops them. Nor
// does one that does not know the source any more.
func withFences(condition metav1.Condition) metav1.Condition {
	switch reason := condition.Reason; {
	case condition.Status != metav1.ConditionFalse:
	case reason == v1alpha1.ReasonHeldByOther, reason == v1alpha1.ReasonStorageFull,
		reason == v1alpha1.ReasonNotInstalled:
	case v1alpha1.LeavesNodeUnknown(reason), reason == v1alpha1.ReasonOverBudget,
		reason == v1alpha1.ReasonAddressRefused:
		condition.Message += "; pods with fencing are stopped there when their time is over"
		if reason == v1alpha1.ReasonUnauthorized || reason == v1alpha1.ReasonForbidden {
			condition.Message += ", unless this cluster was revoked there, or the chart was uninstalled"
		}
	}
	return condition
}

// unusable returns the condition of a connected target whose Secret cannot be used any more.
func unusable(failure metav1.Condition) metav1.Condition {
	return metav1.Condition{
		Type:   v1alpha1.ConditionSecretUsable,
		Status: metav1.ConditionFalse,
		Reason: failure.Reason,
		Message: "the connection goes on with the credentials that were in the Secret, until they end or " +
			"the leader changes: " + failure.Message,
	}
}

// conditionOf returns the condition for an error of an attempt to engage.
func (l *loop) conditionOf(err error, w want) metav1.Condition {
	if noKey := (*noKeyError)(nil); errors.As(err, &noKey) {
		return disconnected(v1alpha1.ReasonNoKey, noKey.Error())
	}
	if own := (*ownAddressesError)(nil); errors.As(err, &own) {
		return disconnected(v1alpha1.ReasonAddressesUnknown, "this cluster does not know its own addresses, which "+
			"targets must not claim: "+own.Error()+"; the log of the leading manager says why, and helm upgrade gives "+
			"the rights")
	}
	if other := (*identity.OtherClusterError)(nil); errors.As(err, &other) {
		return otherCluster(other, l.key, w)
	}
	if condition, ok := l.unsafeCondition(err, w); ok {
		return condition
	}
	return failedCondition(err, l.key, w)
}

// failedCondition returns the condition Connected for an error of a request to the target's API server.
func failedCondition(err error, key types.NamespacedName, w want) metav1.Condition {
	host := w.config.Host
	switch {
	case apierrors.IsUnauthorized(err):
		return disconnected(v1alpha1.ReasonUnauthorized, fmt.Sprintf("%s does not accept the credentials (%s); "+
			"has the token or certificate expired? Run %s", host, w.credentials,
			targetkind.ConnectCommand(key, "--renew")))
	case apierrors.IsForbidden(err):
		return disconnected(v1alpha1.ReasonForbidden, fmt.Sprintf("%s does not grant what is needed: %s; "+
			"is there a ClusterSource or Source for this identity in the target, and is multicluster-scheduler "+
			"installed there?", host, errorText(err)))
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return disconnected(v1alpha1.ReasonNotInstalled, fmt.Sprintf("%s publishes no ClusterSummary; "+
			"install multicluster-scheduler in the target cluster, or see to it that its manager runs", host))
	}
	var unknown *identity.UnknownError
	if errors.As(err, &unknown) {
		return disconnected(v1alpha1.ReasonNoClusterID, fmt.Sprintf("%s does not say which cluster it is, so it may "+
			"be another one than %s: its ClusterSummary has no status.clusterID; see to it that the manager of "+
			"multicluster-scheduler runs in the target", host, unknown.Want))
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return untrusted(certificate.Err, host)
	}
	if apierror.StorageFull(err) {
		return disconnected(v1alpha1.ReasonStorageFull, fmt.Sprintf("%s answers, but its etcd is full, so nothing can "+
			"be written there. Its pods may be running, so they stay as they are. Make room in that etcd, and disarm "+
			"its alarm NOSPACE", host))
	}
	var refused *wire.AddressError
	if errors.As(err, &refused) {
		return disconnected(v1alpha1.ReasonAddressRefused, fmt.Sprintf("%s is not connected: Targets of namespaces "+
			"must not lead there, because %s; use an address that the target alone has, or ask the administrators to "+
			"set the chart's %s", host, refused, refused.Value))
	}
	return disconnected(v1alpha1.ReasonUnreachable, fmt.Sprintf("no answer from %s: %s; "+
		"is the cluster up, and can it be reached from this one?", host, errorText(err)))
}

// untrusted returns the condition of a target whose certificate is not accepted. Its text does not change with time.
func untrusted(err error, host string) metav1.Condition {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		return disconnected(v1alpha1.ReasonUnreachable, fmt.Sprintf("by this cluster's clock, a certificate of %s is "+
			"not valid now, but from %s to %s; renew it if it has expired, and compare the clocks of both clusters",
			host, invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339)))
	}
	return disconnected(v1alpha1.ReasonUnreachable, fmt.Sprintf("the certificate of %s is not trusted: %s; "+
		"is certificate-authority-data in the kubeconfig that of this server?", host,
		wire.Shorten(err.Error(), maxText)))
}

// errorText returns the cause of an error, without the parts that differ from one attempt to the next. Of a server's
// own texts it has only the beginning, and only if they help.
func errorText(err error) string {
	return wire.Shorten(cause(err), maxText)
}

func cause(err error) string {
	var urlError *url.Error
	if errors.As(err, &urlError) {
		err = urlError.Err
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() {
		return "it took too long"
	}
	var answer *wire.AnswerError
	if errors.As(err, &answer) {
		return answer.Error()
	}
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Op + ": " + operation.Err.Error() // without addresses, because our port is random
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		code := int(status.Status().Code)
		return strings.TrimSpace(fmt.Sprintf("it answers with the status %d %s", code, http.StatusText(code)))
	}
	message, _, _ := strings.Cut(err.Error(), ": RBAC: ") // The rest lists missing roles, in any order.
	return message
}
