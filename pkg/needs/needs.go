package needs

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Resource is the plural name of a kind of object that pods refer to.
type Resource string

// The kinds of objects that pods refer to.
const (
	ConfigMaps             Resource = "configmaps"
	Secrets                Resource = "secrets"
	ServiceAccounts        Resource = "serviceaccounts"
	PersistentVolumeClaims Resource = "persistentvolumeclaims"
	ResourceClaims         Resource = "resourceclaims"
	ResourceClaimTemplates Resource = "resourceclaimtemplates"
)

// Kind is the name of the kind for people.
func (r Resource) Kind() string {
	switch r {
	case ConfigMaps:
		return "ConfigMap"
	case Secrets:
		return "Secret"
	case ServiceAccounts:
		return "ServiceAccount"
	case PersistentVolumeClaims:
		return "PersistentVolumeClaim"
	case ResourceClaims:
		return "ResourceClaim"
	case ResourceClaimTemplates:
		return "ResourceClaimTemplate"
	default:
		return string(r)
	}
}

// Ref names an object in the pod's namespace.
type Ref struct {
	Resource Resource
	Name     string
}

// String returns resource/name.
func (r Ref) String() string { return string(r.Resource) + "/" + r.Name }

// Need is an object that a pod refers to.
type Need struct {
	Ref
	// Optional means that the pod starts without the object.
	Optional bool
}

// Of returns the objects that the pod refers to, but for ResourceClaims and their templates, sorted and without
// duplicates. An object is optional if all references to it are optional. Objects that every cluster has of its own are
// left out: kube-root-ca.crt, openshift-service-ca.crt and the service account "default".
func Of(pod *corev1.Pod) []Need {
	c := collector{}
	spec := &pod.Spec
	if spec.ServiceAccountName != "default" {
		c.add(ServiceAccounts, spec.ServiceAccountName, false)
	}
	for _, secret := range spec.ImagePullSecrets {
		c.add(Secrets, secret.Name, true) // A kubelet ignores missing pull secrets.
	}
	for i := range spec.InitContainers {
		c.container(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom)
	}
	for i := range spec.Containers {
		c.container(spec.Containers[i].Env, spec.Containers[i].EnvFrom)
	}
	for i := range spec.EphemeralContainers {
		c.container(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom)
	}
	for i := range spec.Volumes {
		c.volume(&spec.Volumes[i].VolumeSource)
	}
	return c.sorted()
}

// collector holds for each object whether it is optional.
type collector map[Ref]bool

// add ignores names that no object can have, because Parse would misread them.
func (c collector) add(resource Resource, name string, optional bool) {
	if name == "" || strings.ContainsAny(name, ",/?") {
		return
	}
	if resource == ConfigMaps && (name == "kube-root-ca.crt" || name == "openshift-service-ca.crt") {
		return
	}
	ref := Ref{resource, name}
	before, seen := c[ref]
	c[ref] = optional && (before || !seen)
}

func (c collector) sorted() []Need {
	refs := slices.SortedFunc(maps.Keys(c), func(a, b Ref) int {
		return cmp.Or(strings.Compare(string(a.Resource), string(b.Resource)), strings.Compare(a.Name, b.Name))
	})
	needs := make([]Need, len(refs))
	for i, ref := range refs {
		needs[i] = Need{ref, c[ref]}
	}
	return needs
}

func (c collector) container(env []corev1.EnvVar, envFrom []corev1.EnvFromSource) {
	for i := range env {
		from := env[i].ValueFrom
		if from == nil {
			continue
		}
		if r := from.ConfigMapKeyRef; r != nil {
			c.add(ConfigMaps, r.Name, ptr.Deref(r.Optional, false))
		}
		if r := from.SecretKeyRef; r != nil {
			c.add(Secrets, r.Name, ptr.Deref(r.Optional, false))
		}
	}
	for i := range envFrom {
		if r := envFrom[i].ConfigMapRef; r != nil {
			c.add(ConfigMaps, r.Name, ptr.Deref(r.Optional, false))
		}
		if r := envFrom[i].SecretRef; r != nil {
			c.add(Secrets, r.Name, ptr.Deref(r.Optional, false))
		}
	}
}
