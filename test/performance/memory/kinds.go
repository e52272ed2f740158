package main

import (
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// kinds are those that a simulated target has, by resource.
var kinds = map[schema.GroupVersionResource]schema.GroupVersionKind{}

// clusterScoped are the resources that are in no namespace.
var clusterScoped = map[string]bool{
	"clustersummaries": true, "ingressclasses": true, "namespaces": true, "selfsubjectreviews": true,
	"storageclasses": true,
}

func init() {
	for group, names := range map[schema.GroupVersion]map[string]string{
		corev1.SchemeGroupVersion: {
			"configmaps": "ConfigMap", "namespaces": "Namespace", "persistentvolumeclaims": "PersistentVolumeClaim",
			"secrets": "Secret", "serviceaccounts": "ServiceAccount", "services": "Service",
		},
		authenticationv1.SchemeGroupVersion: {"selfsubjectreviews": "SelfSubjectReview"},
		coordinationv1.SchemeGroupVersion:   {"leases": "Lease"},
		discoveryv1.SchemeGroupVersion:      {"endpointslices": "EndpointSlice"},
		networkingv1.SchemeGroupVersion:     {"ingresses": "Ingress", "ingressclasses": "IngressClass"},
		storagev1.SchemeGroupVersion:        {"storageclasses": "StorageClass"},
		v1alpha1.GroupVersion: {
			"clustersummaries": "ClusterSummary", "podchaperons": "PodChaperon", "sourcegrants": "SourceGrant",
		},
	} {
		for resource, kind := range names {
			kinds[group.WithResource(resource)] = group.WithKind(kind)
		}
	}
}

// discovery returns the answer to a request for what the API server serves, or nil.
func discovery(path string) any {
	switch path {
	case "/version":
		return map[string]string{"major": "1", "minor": "37", "gitVersion": version}
	case "/api":
		return metav1.APIVersions{TypeMeta: typeMeta("APIVersions"), Versions: []string{"v1"}}
	case "/apis":
		return groups()
	}
	group, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		group = strings.TrimPrefix(path, "/api/")
	}
	list := resources(group)
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}

func typeMeta(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }

func groups() metav1.APIGroupList {
	list, known := metav1.APIGroupList{TypeMeta: typeMeta("APIGroupList")}, map[string]bool{"": true}
	for resource := range kinds {
		if known[resource.Group] {
			continue
		}
		known[resource.Group] = true
		v := metav1.GroupVersionForDiscovery{GroupVersion: resource.GroupVersion().String(), Version: resource.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: resource.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
		})
	}
	return list
}

// resources returns the resources of a group's version.
func resources(group string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: typeMeta("APIResourceList"), GroupVersion: group}
	for resource, kind := range kinds {
		if resource.GroupVersion().String() == group {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: resource.Resource, Kind: kind.Kind, Namespaced: !clusterScoped[resource.Resource],
				Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			})
		}
	}
	return list
}
