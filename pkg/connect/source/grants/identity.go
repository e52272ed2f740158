package grants

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Identity is who a source is in this cluster. At least one of the fields is set.
type Identity struct {
	UserName       string
	ServiceAccount types.NamespacedName
}

// OfSource returns the identity of a Source.
func OfSource(s *v1alpha1.Source) Identity {
	i := Identity{UserName: s.Spec.UserName}
	if s.Spec.ServiceAccountName != "" {
		i.ServiceAccount = types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.ServiceAccountName}
	}
	return i
}

// OfClusterSource returns the identity of a ClusterSource.
func OfClusterSource(s *v1alpha1.ClusterSource) Identity {
	i := Identity{UserName: s.Spec.UserName}
	if account := s.Spec.ServiceAccount; account != nil {
		i.ServiceAccount = types.NamespacedName{Namespace: account.Namespace, Name: account.Name}
	}
	return i
}

// HasServiceAccount says whether the identity has a service account.
func (i Identity) HasServiceAccount() bool { return i.ServiceAccount.Name != "" }

// Subjects returns the subjects for bindings, with the defaults that the API server sets.
func (i Identity) Subjects() []rbacv1.Subject {
	var subjects []rbacv1.Subject
	if i.UserName != "" {
		subjects = append(subjects, rbacv1.Subject{
			Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: i.UserName,
		})
	}
	if i.HasServiceAccount() {
		subjects = append(subjects, rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: i.ServiceAccount.Namespace, Name: i.ServiceAccount.Name,
		})
	}
	return subjects
}

// Users returns the user names.
func (i Identity) Users() []string { return usersOf(i.Subjects()) }

func usersOf(subjects []rbacv1.Subject) []string {
	var users []string
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			users = append(users, s.Name)
		case rbacv1.ServiceAccountKind:
			users = append(users, serviceaccount.MakeUsername(s.Namespace, s.Name))
		}
	}
	return users
}
