package admission_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/admission"
)

// elected returns an elected pod with one volume.
func elected(volume string) string {
	return `{"metadata":{"name":"web","annotations":{"multicluster.admiralty.io/elect":""}},"spec":{"volumes":[` +
		`{"name":"data",` + volume + `}]}}`
}

// ephemeral returns a generic ephemeral volume whose claim has this specification.
func ephemeral(claim string) string {
	return `"ephemeral":{"volumeClaimTemplate":{"spec":` + claim + `}}`
}

// classes returns StorageClasses: one without a mode, one that waits, and the default one, which has replaced another.
func classes(defaultMode storagev1.VolumeBindingMode) []client.Object {
	class := func(name string, mode *storagev1.VolumeBindingMode, key string, made int64) client.Object {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{key: "true"},
				CreationTimestamp: metav1.NewTime(time.Unix(made, 0)),
			},
			VolumeBindingMode: mode,
		}
	}
	return []client.Object{
		class("immediate", nil, "other", 3),
		class("waits", new(storagev1.VolumeBindingWaitForFirstConsumer), "other", 3),
		class("default", &defaultMode, "storageclass.beta.kubernetes.io/is-default-class", 2),
		class("earlier-default", nil, "storageclass.kubernetes.io/is-default-class", 1),
	}
}

func TestVolumes(t *testing.T) {
	immediate, waits := storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	for name, tc := range map[string]struct {
		volume  string
		classes []client.Object
		refused string // a part of the message, or empty
	}{
		"an ephemeral volume whose class waits": {
			ephemeral(`{"storageClassName":"waits"}`), classes(waits), "",
		},
		"an ephemeral volume whose class does not wait": {
			ephemeral(`{"storageClassName":"immediate"}`), classes(waits), `"immediate"`,
		},
		"an ephemeral volume of a class of targets": {
			ephemeral(`{"storageClassName":"there"}`), classes(immediate), "",
		},
		"an ephemeral volume of a default that waits": {
			ephemeral(`{}`), classes(waits), "",
		},
		"an ephemeral volume of a default that does not wait": {
			ephemeral(`{}`), classes(immediate), `"default"`,
		},
		"an ephemeral volume without a default": {
			ephemeral(`{}`), nil, "",
		},
		"an ephemeral volume that must have no class": {
			ephemeral(`{"storageClassName":""}`), nil, "without a class",
		},
		"an ephemeral volume that the API server will refuse": {`"ephemeral":{}`, nil, ""},
		"a claim":             {`"persistentVolumeClaim":{"claimName":"data"}`, nil, ""},
		"a CSI inline volume": {`"csi":{"driver":"example.com"}`, nil, ""},
		"a projected token":   {`"projected":{"sources":[{"serviceAccountToken":{"path":"token"}}]}`, nil, ""},
		"an image volume":     {`"image":{"reference":"example.com/model:1"}`, nil, ""},
		"an empty directory":  {`"emptyDir":{}`, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reader := fake.NewClientBuilder().WithObjects(tc.classes...).Build()
			resp := admission.Handler{Reader: reader}.Handle(t.Context(), create(elected(tc.volume)))
			if resp.Allowed != (tc.refused == "") {
				t.Fatalf("allowed %t: %v", resp.Allowed, resp.Result)
			}
			if tc.refused == "" {
				return
			}
			for _, want := range []string{tc.refused, "spec.volumes[0].ephemeral.", "WaitForFirstConsumer"} {
				if !strings.Contains(resp.Result.Message, want) || resp.Result.Code != http.StatusUnprocessableEntity {
					t.Errorf("the answer is %v, want %q", resp.Result, want)
				}
			}
		})
	}
}

func TestAPodIsNotAdmittedWhileStorageClassesCannotBeRead(t *testing.T) {
	down := errors.New("down")
	reader := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down },
	}).Build()
	for _, claim := range []string{`{}`, `{"storageClassName":"fast"}`} {
		resp := admission.Handler{Reader: reader}.Handle(t.Context(), create(elected(ephemeral(claim))))
		if resp.Allowed || resp.Result.Code != http.StatusInternalServerError ||
			!strings.Contains(resp.Result.Message, "down") {
			t.Errorf("the answer is %v", resp.Result)
		}
	}
}
