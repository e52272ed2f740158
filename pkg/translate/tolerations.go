package translate

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// defaultTolerationSeconds is the API servers' default for not-ready and unreachable nodes.
const defaultTolerationSeconds = 300

// proxyTolerations returns the tolerations of a proxy: our own, then the chosen ones. Here as in the taint manager,
// only the first toleration that matches a taint counts, so our own take precedence.
//
// The user decides how long to wait for a dead cluster: the proxy tolerates not-ready as the chosen tolerations say, or
// else the spec's. The taint unreachable means that this system is silent, which harms no delegate. So the proxy
// tolerates it for ever, unless the user asks for less than the default.
func proxyTolerations(chosen, spec []corev1.Toleration) []corev1.Toleration {
	asked := slices.Concat(chosen, spec)
	tolerations := []corev1.Toleration{
		{
			Key:      v1alpha1.LabelNodeProvider,
			Operator: corev1.TolerationOpEqual,
			Value:    v1alpha1.LabelNodeProviderValue,
			Effect:   corev1.TaintEffectNoSchedule,
		},
		{Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists},
		unreachableToleration(asked),
	}
	if notReady := tolerating(asked, corev1.TaintNodeNotReady); notReady != nil {
		tolerations = append(tolerations, noExecute(corev1.TaintNodeNotReady, notReady.TolerationSeconds))
	}
	for _, t := range chosen {
		if !slices.ContainsFunc(tolerations, func(ours corev1.Toleration) bool { return outdoes(ours, t) }) {
			tolerations = append(tolerations, t)
		}
	}
	return tolerations
}

func unreachableToleration(asked []corev1.Toleration) corev1.Toleration {
	t := tolerating(asked, corev1.TaintNodeUnreachable)
	if t == nil || t.TolerationSeconds == nil || *t.TolerationSeconds >= defaultTolerationSeconds {
		return noExecute(corev1.TaintNodeUnreachable, nil)
	}
	return noExecute(corev1.TaintNodeUnreachable, t.TolerationSeconds)
}

// tolerating returns the first toleration of the NoExecute taint, or nil.
func tolerating(tolerations []corev1.Toleration, key string) *corev1.Toleration {
	taint := &corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(logr.Discard(), taint, false) {
			return &tolerations[i]
		}
	}
	return nil
}

func noExecute(key string, seconds *int64) corev1.Toleration {
	return corev1.Toleration{
		Key:               key,
		Operator:          corev1.TolerationOpExists,
		Effect:            corev1.TaintEffectNoExecute,
		TolerationSeconds: seconds,
	}
}

// outdoes says whether ours tolerates everything that theirs tolerates.
func outdoes(ours, theirs corev1.Toleration) bool {
	if ours.Key != theirs.Key || ours.Effect != "" && ours.Effect != theirs.Effect {
		return false
	}
	return ours.Operator == corev1.TolerationOpExists || ours.MatchToleration(&theirs)
}
