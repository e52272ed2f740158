package writer

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestACopyThatIsRemovedWhileItIsWrittenIsMadeAnew(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	missing := apierrors.NewNotFound(resource, "db")
	for name, test := range map[string]struct {
		exists  bool
		creates []error // answers, in order
		updates []error
		want    func(error) bool
	}{
		"a copy that was thought to be new": {
			false,
			[]error{apierrors.NewAlreadyExists(resource, "db"), nil},
			[]error{missing},
			none,
		},
		"a copy that was known": {true, []error{nil}, []error{missing}, none},
		"a copy that comes and goes": {
			true,
			[]error{apierrors.NewAlreadyExists(resource, "db"), nil},
			[]error{missing, missing},
			none,
		},
		"a copy that exists, and does not, for ever": {
			false,
			repeated(apierrors.NewAlreadyExists(resource, "db")),
			repeated(missing),
			apierrors.IsAlreadyExists,
		},
		"a copy in a namespace that does not exist": {
			false,
			repeated(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")),
			nil,
			apierrors.IsNotFound,
		},
		"a copy that was thought to be new, with a full quota": {
			false,
			[]error{fullQuota()},
			[]error{nil},
			none,
		},
		"a copy that is new, with a full quota": {
			false,
			[]error{fullQuota()},
			[]error{missing},
			func(err error) bool { return apierror.Of(err, apierror.Create) == apierror.QuotaExceeded },
		},
		"a copy with a full quota, and a target that does not answer": {
			false,
			[]error{fullQuota()},
			[]error{apierrors.NewServiceUnavailable("busy")},
			apierrors.IsServiceUnavailable,
		},
		"a known copy that is gone since, with a full quota": {
			true,
			[]error{fullQuota()},
			[]error{missing},
			apierrors.IsForbidden,
		},
		"a new copy that is denied": {
			false,
			[]error{bySomebody()},
			nil,
			apierrors.IsForbidden,
		},
		"a known copy in a namespace that is gone since": {
			true,
			repeated(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")),
			repeated(missing),
			apierrors.IsNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			next := func(answers *[]error) error {
				if len(*answers) == 0 {
					t.Fatal("more requests than expected")
				}
				err := (*answers)[0]
				*answers = (*answers)[1:]
				return err
			}
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(
					_ context.Context,
					_ client.WithWatch,
					o client.Object,
					options ...client.CreateOption,
				) error {
					switch {
					case o.GetNamespace() == "": // our user name
						return nil
					case len(options) == 1 && options[0] == client.DryRunAll:
						return apierrors.NewForbidden(
							resource,
							"",
							errors.New("it must have the annotation "+v1alpha1.AnnotationFollowedBy),
						)
					}
					return next(&test.creates)
				},
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
					return next(&test.updates)
				},
			}).Build()
			w := NewWriter(c, c, translate.Source{ClusterID: "c1"})
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			object.SetNamespace("shop")
			object.SetName("db")
			if err := w.Write(t.Context(), object, test.exists); !test.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func fullQuota() error {
	return apierrors.NewForbidden(resource(), "db", errors.New("exceeded quota: q, requested: count/secrets=1"))
}

func none(err error) bool { return err == nil }

func repeated(err error) []error { return []error{err, err, err} }
