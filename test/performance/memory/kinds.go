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

// kinds returns those that a simulated target has, by version and resource.
func kinds() map[schema.GroupVersion]map[string]string {
	return map[schema.GroupVersion]map[string]string{
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
	}
}

// inNamespaces says whether objects of the resource are in namespaces.
func inNamespaces(resource string) bool {
	switch resource {
	case "clustersummaries", "ingressclasses", "namespaces", "selfsubjectreviews", "storageclasses":
		return false
	default:
		return true
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
	list := metav1.APIGroupList{TypeMeta: typeMeta("APIGroupList")}
	for version := range kinds() {
		if version.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
		})
	}
	return list
}

// resources returns the resources of a group's version.
func resources(of string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: typeMeta("APIResourceList"), GroupVersion: of}
	version, err := schema.ParseGroupVersion(of)
	if err != nil {
		return list
	}
	for resource, kind := range kinds()[version] {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: resource, Kind: kind, Namespaced: inNamespaces(resource),
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	return list
}
