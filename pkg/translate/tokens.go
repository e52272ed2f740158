package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

const (
	tokenMountPath       = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, not a secret
	automaticTokenPrefix = "kube-api-access-"
)

// removeTokens removes the volumes, with their mounts, by which the source's admission gave the pod a service account
// token. The target's admission then gives the delegate a token of the target. The user's own token volumes stay.
func removeTokens(spec *corev1.PodSpec) {
	removed := sets.New[string]()
	for i := range spec.Volumes {
		if automaticToken(&spec.Volumes[i], spec) {
			removed.Insert(spec.Volumes[i].Name)
		}
	}
	if removed.Len() == 0 {
		return
	}
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return removed.Has(v.Name) })
	mountsRemoved := func(m corev1.VolumeMount) bool { return removed.Has(m.Name) }
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = slices.DeleteFunc(containers[i].VolumeMounts, mountsRemoved)
		}
	}
}

// withOwnTokens returns ephemeral containers that mount the delegate's token where those of the proxy mount its own.
// Tokens are not mounted if the delegate has none.
func withOwnTokens(containers []corev1.EphemeralContainer, delegate *corev1.PodSpec) []corev1.EphemeralContainer {
	has := func(name string) bool {
		return slices.ContainsFunc(delegate.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	}
	own := slices.IndexFunc(delegate.Volumes, func(v corev1.Volume) bool { return automaticToken(&v, delegate) })
	var out []corev1.EphemeralContainer
	for i := range containers {
		c := containers[i].DeepCopy()
		for j := range c.VolumeMounts {
			if m := &c.VolumeMounts[j]; strings.HasPrefix(m.Name, automaticTokenPrefix) && !has(m.Name) {
				m.Name = ""
				if own >= 0 {
					m.Name = delegate.Volumes[own].Name
				}
			}
		}
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "" })
		out = append(out, *c)
	}
	return out
}

// automaticToken recognises a projected token, which has no audience and is not there if the pod turns it off. It also
// recognises the Secret of a token, which API servers before 1.22 added.
func automaticToken(volume *corev1.Volume, spec *corev1.PodSpec) bool {
	if p := volume.Projected; p != nil {
		wanted := ptr.Deref(spec.AutomountServiceAccountToken, true)
		return wanted && strings.HasPrefix(volume.Name, automaticTokenPrefix) &&
			slices.ContainsFunc(p.Sources, func(s corev1.VolumeProjection) bool {
				return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == ""
			})
	}
	return volume.Secret != nil && volume.Secret.SecretName == volume.Name &&
		strings.HasPrefix(volume.Name, spec.ServiceAccountName+"-token-") && mountedAsToken(volume.Name, spec)
}

func mountedAsToken(name string, spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == name && m.MountPath == tokenMountPath
		})
	})
}
