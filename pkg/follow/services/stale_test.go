package services

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestACacheThatLacksAServiceCostsNoCopy has a source whose cache is empty or lags. Without a Service in the target, a
// removal would end the test by a panic.
func TestACacheThatLacksAServiceCostsNoCopy(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	enabled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   key.Namespace,
		Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}}
	away := interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	}
	for name, test := range map[string]struct {
		reader client.Reader
		failed bool
	}{
		"the API server has it":       {fake.NewClientBuilder().WithObjects(enabled, service).Build(), false},
		"the API server does not say": {fake.NewClientBuilder().WithInterceptorFuncs(away).Build(), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &copier{follower: &Follower{options: Options{APIReader: test.reader}}}
			if err := c.removeService(t.Context(), key, original{}, nil); (err != nil) != test.failed {
				t.Errorf("error %v, want %t", err, test.failed)
			}
		})
	}
	disabled := enabled.DeepCopy()
	disabled.Labels = nil
	for what, objects := range map[string][]client.Object{
		"nothing is there": nil, "the Service is gone": {enabled}, "its namespace is not enabled": {disabled, service},
	} {
		f := &Follower{options: Options{APIReader: fake.NewClientBuilder().WithObjects(objects...).Build()}}
		if exists, err := f.exists(t.Context(), key, &corev1.Service{}); exists || err != nil {
			t.Errorf("%s: it exists (%t): %v", what, exists, err)
		}
	}
}
